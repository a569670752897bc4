// Drops reductions over one value (the taps of a 1x1 convolution), then merges adjacent iterators
// that every access walks as one: x_i and x_j with x_j running over the whole of a dimension and
// x_i over the one before it. Tensors of the kernel lose the dimension; a loop over both needs no
// inner remainder. Done for the kernel as a whole, since stages share tensors.
#include "core/kernel/collapse.h"

#include <algorithm>
#include <set>

#include "core/ir/analysis/accesses.h"

namespace tile {

namespace {

struct IteratorPair {
  StageId stage;
  IteratorId first, second;
  auto operator<=>(const IteratorPair&) const = default;
};
struct DimensionPair {
  TensorId tensor;
  size_t first;  // and the one after it
  auto operator<=>(const DimensionPair&) const = default;
};

// What has to merge together with one pair of iterators.
class Closure {
 public:
  explicit Closure(const Kernel& kernel) : kernel_(kernel) {}

  bool grow(const IteratorPair& seed) {
    if (!add(seed)) return false;
    while (!open_.empty()) {
      DimensionPair d = open_.back();
      open_.pop_back();
      if (!spread(d)) return false;
    }
    return true;
  }
  const std::set<IteratorPair>& iterators() const { return iterators_; }
  const std::set<DimensionPair>& dimensions() const { return dimensions_; }

 private:
  const Piece& piece(StageId stage) const { return kernel_.stages[stage].contraction.pieces[0]; }
  const Shape& shape(TensorId id) const { return kernel_.tensors[id].shape; }

  // Each iterator merges once at a time, with one neighbour.
  bool add(const IteratorPair& p) {
    if (iterators_.contains(p)) return true;
    const KernelStage& stage = kernel_.stages[p.stage];
    if (stage.contraction.pieces.size() != 1 || p.first == p.second) return false;
    const Piece& c = piece(p.stage);
    if (c.is_parallel(p.first) != c.is_parallel(p.second)) return false;
    for (const IteratorPair& other : iterators_) {
      bool shared = other.stage == p.stage && (other.first == p.first || other.first == p.second ||
                                               other.second == p.first || other.second == p.second);
      if (shared) return false;
    }
    bool named = false;
    visit_nodes(c.body, [&](const Node& node) {
      IteratorId u = node.kind == NodeKind::index ? IteratorId(node.slot) : IteratorId();
      bool index = u.valid() && (u == p.first || u == p.second);
      named = named || index || node.kind == NodeKind::size;
    });
    if (named) return false;
    for (const Constraint& k : c.constraints) {
      if (!k.form.coefficient(p.first).is_zero() || !k.form.coefficient(p.second).is_zero()) {
        return false;
      }
    }
    iterators_.insert(p);
    if (!rows_together(p)) return false;
    return std::all_of(c.stores.begin(), c.stores.end(),
                       [&](const Access& a) { return follow(p, a); }) &&
           std::all_of(c.loads.begin(), c.loads.end(),
                       [&](const Access& a) { return follow(p, a); });
  }

  // Row loops merge with row loops, in every stage that they run around; the streamed axis stays.
  bool rows_together(const IteratorPair& p) {
    IteratorId stream = kernel_.stages[p.stage].stream;
    if (p.first == stream || p.second == stream) return false;
    const std::vector<IteratorId>& rows = kernel_.stages[p.stage].rows;
    auto first = std::find(rows.begin(), rows.end(), p.first);
    auto second = std::find(rows.begin(), rows.end(), p.second);
    if ((first == rows.end()) != (second == rows.end())) return false;
    if (first == rows.end()) return true;
    auto a = first - rows.begin(), b = second - rows.begin();
    for (StageId s : kernel_.stages.ids()) {
      const std::vector<IteratorId>& other = kernel_.stages[s].rows;
      if (!other.empty() && !add({s, other.begin()[a], other.begin()[b]})) return false;
    }
    return true;
  }

  // The access names neither iterator, or both in adjacent dimensions that they fill.
  bool follow(const IteratorPair& p, const Access& a) {
    const Shape& s = shape(a.tensor);
    const Piece& c = piece(p.stage);
    bool found = false;
    for (size_t d = 0; d < a.index.size(); ++d) {
      const Affine& form = a.index[d].affine;
      bool first = a.index[d].value < 0 && !form.coefficient(p.first).is_zero();
      bool second = a.index[d].value < 0 && !form.coefficient(p.second).is_zero();
      if (!first && !second) continue;
      if (!first || found || d + 1 == a.index.size()) return false;
      bool pair = sole_iterator(a.index[d], c) == p.first &&
                  sole_iterator(a.index[d + 1], c) == p.second && c.box[p.second] == s[d + 1];
      if (!pair) return false;
      DimensionPair dims{a.tensor, d};
      if (dimensions_.insert(dims).second) open_.push_back(dims);
      found = true;
      ++d;
    }
    return true;
  }

  // Every other access of the tensor must walk the two dimensions as one, too.
  bool spread(const DimensionPair& d) {
    for (const DimensionPair& other : dimensions_) {
      bool touches = other.tensor == d.tensor && other != d &&
                     (other.first + 1 == d.first || d.first + 1 == other.first);
      if (touches) return false;
    }
    for (StageId s : kernel_.stages.ids()) {
      const Contraction& c = kernel_.stages[s].contraction;
      if (c.fill && !spread_fill(d, c)) return false;
      for (const Piece& p : c.pieces) {
        for (const auto* list : {&p.stores, &p.loads}) {
          for (const Access& a : *list) {
            if (a.tensor == d.tensor && !spread_access(d, s, p, a)) return false;
          }
        }
      }
    }
    return true;
  }
  bool spread_access(const DimensionPair& d, StageId stage, const Piece& p, const Access& a) {
    const Index &outer = a.index[d.first], &inner = a.index[d.first + 1];
    if (is_constant_index(outer) && is_constant_index(inner)) return true;
    IteratorId first = sole_iterator(outer, p);
    IteratorId second = sole_iterator(inner, p);
    return first.valid() && second.valid() && add({stage, first, second});
  }
  bool spread_fill(const DimensionPair& d, const Contraction& c) {
    bool here = d.tensor == *c.fill ||
                std::find(c.outputs.begin(), c.outputs.end(), d.tensor) != c.outputs.end();
    if (!here) return true;
    std::vector<TensorId> both = c.outputs;
    both.push_back(*c.fill);
    for (TensorId id : both) {
      DimensionPair dims{id, d.first};
      if (dimensions_.insert(dims).second) open_.push_back(dims);
    }
    return true;
  }

  const Kernel& kernel_;
  std::set<IteratorPair> iterators_;
  std::set<DimensionPair> dimensions_;
  std::vector<DimensionPair> open_;
};

// Takes an iterator out of every list and index; what it was worth in an index has to be there.
void erase_iterator(Piece& piece, IteratorId u) {
  auto drop = [&](auto& list) { list.erase(list.begin() + u.number()); };
  drop(piece.box);
  drop(piece.iterators);
  if (piece.is_parallel(u)) --piece.parallel_dims;
  auto shift = [&](Affine& form) {
    if (form.coefficients.size() > u.index()) drop(form.coefficients);
  };
  for (auto* list : {&piece.stores, &piece.loads}) {
    for (Access& a : *list) {
      for (Index& index : a.index) shift(index.affine);
    }
  }
  for (Constraint& c : piece.constraints) shift(c.form);
  change_nodes(piece.body, [&](Node& node) {
    if (node.kind == NodeKind::index && node.slot > u.index()) --node.slot;
  });
}

// The second iterator's values become the low digits of the first's.
void merge_iterators(Piece& piece, const IteratorPair& p) {
  piece.box[p.first] = checked_mul(piece.box[p.first], piece.box[p.second]);
  piece.iterators[p.first] += "_" + piece.iterators[p.second];
  erase_iterator(piece, p.second);
}

void merge_rows(KernelStage& stage, const IteratorPair& p) {
  std::erase(stage.rows, p.second);
  for (IteratorId& u : stage.rows) {
    if (u > p.second) --u;
  }
  if (stage.stream > p.second) --stage.stream;
}

void merge_dimensions(Kernel& kernel, const DimensionPair& d) {
  Shape& shape = kernel.tensors.edit(d.tensor).shape;
  auto at = static_cast<std::ptrdiff_t>(d.first) + 1;
  int64_t inner = shape[d.first + 1];
  shape[d.first] = checked_mul(shape[d.first], inner);
  shape.erase(shape.begin() + at);
  for (KernelStage& stage : kernel.stages) {
    for (Piece& piece : stage.contraction.pieces) {
      for (auto* list : {&piece.stores, &piece.loads}) {
        for (Access& a : *list) {
          if (a.tensor != d.tensor) continue;
          Index& first = a.index[d.first];
          const Index& second = a.index[d.first + 1];
          bool constants = first.affine.is_constant() && second.affine.is_constant();
          if (constants) first.affine = first.affine * Rational(inner) + second.affine;
          a.index.erase(a.index.begin() + at);
        }
      }
    }
  }
}

void apply(Kernel& kernel, const Closure& closure) {
  // Dimensions first: an index that is the pair's first iterator stays as it is.
  std::vector<DimensionPair> dims(closure.dimensions().begin(), closure.dimensions().end());
  std::reverse(dims.begin(), dims.end());
  for (const DimensionPair& d : dims) {
    size_t at = d.tensor.index();
    kernel.shapes.resize(kernel.tensors.size());
    if (kernel.shapes[at].empty()) kernel.shapes[at] = kernel.tensors[at].shape;
    merge_dimensions(kernel, d);
  }
  std::vector<IteratorPair> pairs(closure.iterators().begin(), closure.iterators().end());
  std::sort(pairs.begin(), pairs.end(), [](const IteratorPair& a, const IteratorPair& b) {
    return std::pair(a.stage, a.second) > std::pair(b.stage, b.second);
  });
  for (size_t i = 0; i < pairs.size(); ++i) {
    merge_rows(kernel.stages[pairs[i].stage], pairs[i]);
    merge_iterators(kernel.stages[pairs[i].stage].contraction.pieces[0], pairs[i]);
    for (size_t j = i + 1; j < pairs.size(); ++j) {
      bool moved = pairs[j].stage == pairs[i].stage && pairs[j].first > pairs[i].second;
      if (moved) --pairs[j].first;
    }
  }
}

// A reduction over one value adds nothing to an index and bounds nothing: it can go where only
// indices and constraints that other iterators keep alive name it. `owned`: those must be
// reductions, since without one a cell outside of the condition is not zero but never stored.
bool only_a_point(const KernelStage& stage, const Piece& piece, IteratorId u, bool owned) {
  if (piece.box[u] != 1 || u == stage.stream) return false;
  bool named = false;
  visit_nodes(piece.body, [&](const Node& node) {
    bool index = node.kind == NodeKind::index && node.slot == u.index();
    named = named || index || node.kind == NodeKind::size;
  });
  if (named) return false;
  return std::none_of(piece.constraints.begin(), piece.constraints.end(), [&](const Constraint& c) {
    if (c.form.coefficient(u).is_zero()) return false;
    bool alive = false;
    for (size_t v = owned ? piece.parallel_dims : 0; v < piece.iterators.size(); ++v) {
      alive = alive || (v != u.index() && !c.form.coefficient(v).is_zero());
    }
    return !alive;
  });
}

bool merge_one(Kernel& kernel) {
  std::vector<IteratorPair> refused;  // several accesses walk the same pair
  for (StageId s : kernel.stages.ids()) {
    const Contraction& c = kernel.stages[s].contraction;
    if (c.pieces.size() != 1) continue;
    const Piece& piece = c.pieces[0];
    std::vector<const Access*> accesses;
    for (const Access& a : piece.stores) accesses.push_back(&a);
    for (const Access& a : piece.loads) accesses.push_back(&a);
    for (const Access* a : accesses) {
      for (size_t d = 0; d + 1 < a->index.size(); ++d) {
        IteratorId first = sole_iterator(a->index[d], piece);
        IteratorId second = sole_iterator(a->index[d + 1], piece);
        if (!first.valid() || !second.valid()) continue;
        IteratorPair pair{s, first, second};
        if (std::find(refused.begin(), refused.end(), pair) != refused.end()) continue;
        Closure closure(kernel);
        if (closure.grow(pair)) {
          apply(kernel, closure);
          return true;
        }
        refused.push_back(pair);
      }
    }
  }
  return false;
}

}  // namespace

void drop_points(Kernel& kernel) {
  bool owned = kernel.stages.size() > 1;  // a kernel of one stage stores the other cells itself
  for (KernelStage& stage : kernel.stages) {
    for (Piece& piece : stage.contraction.pieces) {
      for (size_t i = piece.iterators.size(); i-- > piece.parallel_dims;) {
        IteratorId u(i);
        if (!only_a_point(stage, piece, u, owned)) continue;
        erase_iterator(piece, u);
        if (stage.stream > u) --stage.stream;
      }
    }
  }
}

void collapse(Kernel& kernel) {
  while (merge_one(kernel)) {
  }
}

}  // namespace tile
