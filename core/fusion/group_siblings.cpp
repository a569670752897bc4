// Reductions of one tensor over the same axes (a sum and a sum of squares, the gradients of a shift
// and a scale) become one with several results: each element is read once.
#include <algorithm>
#include <functional>
#include <optional>
#include <set>

#include "core/fusion/group.h"
#include "core/fusion/step_order.h"
#include "core/ir/analysis/accesses.h"
#include "core/ir/analysis/uses.h"
#include "core/kernel/coverage.h"
#include "core/kernel/forms/stream_pattern.h"
#include "core/passes/normalize/substitution.h"
#include "core/support/choices.h"

namespace tile {
namespace {

constexpr size_t kMostResults = 4;  // of one reduction: each has accumulators of its own
constexpr size_t kMostReads = 12;
constexpr size_t kDistance = 8;  // kernels tried before each one

// One piece without conditions that reduces, and reads at places known before.
bool plain_reduction(const Contraction& c) {
  if (!c.normalized || c.fill || c.pieces.size() != 1) return false;
  const Piece& piece = c.pieces[0];
  bool folds = std::any_of(piece.body.nodes.begin(), piece.body.nodes.end(),
                           [](const Node& n) { return n.kind == NodeKind::fold; });
  bool gathers = std::any_of(piece.loads.begin(), piece.loads.end(), [](const Access& a) {
    return std::any_of(a.index.begin(), a.index.end(), [](const Index& i) { return i.value >= 0; });
  });
  bool reduces = piece.parallel_dims < piece.box.size() && c.aggregation != Aggregation::assign;
  return reduces && !folds && !gathers && piece.constraints.empty();
}

// Iterators that two indices of several (a chunk and the place in it) have with the same factors,
// each another.
bool pair_by_factors(const Index& i, const Piece& a, const Index& j, const Piece& b,
                     const std::function<bool(IteratorId u, IteratorId v)>& pair) {
  bool plain = i.value < 0 && j.value < 0 && i.boundary == j.boundary &&
               i.affine.constant == j.affine.constant;
  if (!plain) return false;
  std::vector<std::pair<IteratorId, IteratorId>> pairs;
  size_t others = 0;  // of b
  for (IteratorId v : b.box.ids()) others += j.affine.coefficient(v).is_zero() ? 0 : 1;
  for (IteratorId u : a.box.ids()) {
    if (i.affine.coefficient(u).is_zero()) continue;
    IteratorId found;
    for (IteratorId v : b.box.ids()) {
      if (!(j.affine.coefficient(v) == i.affine.coefficient(u))) continue;
      if (found.valid()) return false;
      found = v;
    }
    if (!found.valid()) return false;
    pairs.emplace_back(u, found);
  }
  return pairs.size() > 1 && pairs.size() == others &&
         std::all_of(pairs.begin(), pairs.end(), [&](auto& p) { return pair(p.first, p.second); });
}

// By iterator of `b` that of `a` where both read the same element; nothing where that does not say
// it of all, or a parallel dimension would be a reduction.
std::optional<IdVector<IteratorId, IteratorId>> common_iterators(const Piece& a, const Access& x,
                                                                 const Piece& b, const Access& y) {
  IdVector<IteratorId, IteratorId> of(b.box.size(), IteratorId());
  std::set<IteratorId> used;
  auto pair = [&](IteratorId u, IteratorId v) {
    bool fits = !used.contains(u) && a.box[u] == b.box[v] && a.is_parallel(u) == b.is_parallel(v);
    if (fits) of[v] = u;
    if (fits) used.insert(u);
    return fits;
  };
  for (size_t d = 0; d < x.index.size(); ++d) {
    const Index &i = x.index[d], &j = y.index[d];
    IteratorId u = sole_iterator(i, a), v = sole_iterator(j, b);
    if (u.valid() && v.valid() && pair(u, v)) continue;
    if (pair_by_factors(i, a, j, b, pair)) continue;
    bool fixed = i.affine.is_constant() && i.affine == j.affine && i.boundary == j.boundary;
    if (!fixed) return std::nullopt;
  }
  for (IteratorId v : of.ids()) {
    for (IteratorId u : a.box.ids()) {
      if (!of[v].valid() && b.box[v] == 1) pair(u, v);
    }
    if (!of[v].valid()) return std::nullopt;
  }
  return of;
}

// Of the largest tensor that both read.
std::optional<IdVector<IteratorId, IteratorId>> common_iterators(const Piece& a, const Piece& b,
                                                                 const BoundTensors& tensors) {
  std::optional<IdVector<IteratorId, IteratorId>> best;
  int64_t most = 1;
  for (const Access& x : a.loads) {
    int64_t size = element_count(tensors[x.tensor].shape);
    for (const Access& y : b.loads) {
      if (x.tensor != y.tensor || size <= most) continue;
      std::optional<IdVector<IteratorId, IteratorId>> of = common_iterators(a, x, b, y);
      if (!of) continue;
      most = size;
      best = std::move(of);
    }
  }
  return best;
}

// Both reductions as one; nothing where they are not of the same points.
std::optional<Contraction> joined(const Contraction& a, const Contraction& b,
                                  const BoundTensors& tensors) {
  if (!plain_reduction(a) || !plain_reduction(b)) return std::nullopt;
  const Piece &first = a.pieces[0], &second = b.pieces[0];
  bool alike = a.aggregation == b.aggregation && a.accumulator == b.accumulator &&
               first.parallel_dims == second.parallel_dims &&
               first.box.size() == second.box.size() &&
               a.outputs.size() + b.outputs.size() <= kMostResults;
  if (!alike) return std::nullopt;
  std::optional<IdVector<IteratorId, IteratorId>> of = common_iterators(first, second, tensors);
  if (!of) return std::nullopt;
  std::vector<Affine> forms;
  for (IteratorId u : *of) forms.push_back(iterator_affine(u));
  auto moved = [&](Access access) {
    for (Index& index : access.index) index.affine = substitute(index.affine, forms);
    return access;
  };
  Contraction both = a;
  Piece& piece = both.pieces[0];
  for (size_t o = 0; o < b.outputs.size(); ++o) {
    both.outputs.push_back(b.outputs[o]);
    piece.stores.push_back(moved(second.stores[o]));
    NodeId root = graft(
        piece.body, second.body, second.body.results[o], [&](Body& body, const Node& n) -> NodeId {
          size_t slot = n.slot;
          if (n.kind == NodeKind::index) return body.index((*of)[slot].index(), n.type);
          if (n.kind != NodeKind::load) return NodeId();
          return body.load(position_of(piece.loads, moved(second.loads[slot])), n.type);
        });
    piece.body.results.push_back(root);
  }
  if (piece.loads.size() > kMostReads) return std::nullopt;
  return both;
}

std::vector<TensorId> made_by(const Kernel& k) {
  std::vector<TensorId> list;
  for (const KernelStage& s : k.stages) {
    list.insert(list.end(), s.contraction.outputs.begin(), s.contraction.outputs.end());
  }
  return list;
}

class SiblingFusion {
 public:
  SiblingFusion(std::vector<Step> steps, const BoundProgram& program, const Target& target,
                const std::function<void(Kernel&)>& finish, bool always)
      : program_(program),
        target_(target),
        finish_(finish),
        always_(always),
        steps_(std::move(steps)) {}

  std::vector<Step> run() {
    for (size_t j = 1; j < steps_.size(); ++j) {
      for (size_t i = j; i-- > 0 && i + kDistance >= j && kernel(j) != nullptr;) join(i, j);
    }
    return steps_.left();
  }

 private:
  const Kernel* kernel(size_t i) const { return steps_.plain_kernel(i); }

  bool reads(const BoundStatement& statement, const std::vector<TensorId>& tensors) const {
    std::vector<TensorId> list = read_by(statement);
    return std::any_of(list.begin(), list.end(), [&](TensorId id) {
      return contains(tensors, id) || contains(tensors, storage_of(program_, id));
    });
  }

  // What the second reads of the first, if anything, it reads at the cell that its tile makes too.
  bool same_cells(const Kernel& a, const Kernel& b, const Contraction& both) const {
    if (reads(b.stages[0].contraction, made_by(a))) return false;
    std::vector<TensorId> here = made_in_cell(a, both), own = made_in_cell(b, both);
    for (size_t s = 1; s < b.stages.size(); ++s) {
      const Piece& piece = b.stages[s].contraction.pieces[0];
      if (!reads(b.stages[s].contraction, made_by(a))) continue;
      auto at = std::find_if(piece.loads.begin(), piece.loads.end(),
                             [&](const Access& load) { return contains(own, load.tensor); });
      if (at == piece.loads.end()) return false;
      for (const Access& load : piece.loads) {
        bool of_first = contains(made_by(a), storage_of(program_, load.tensor));
        if (of_first && !(contains(here, load.tensor) && same_place(load, *at))) return false;
      }
    }
    return true;
  }
  static bool same_place(const Access& a, const Access& b) {
    return std::equal(a.index.begin(), a.index.end(), b.index.begin(), b.index.end(),
                      [](const Index& i, const Index& j) {
                        return i.value < 0 && j.value < 0 && i.affine == j.affine &&
                               i.boundary == j.boundary;
                      });
  }
  // The kernel's results that are stored at the index where `both` stores its last one.
  static std::vector<TensorId> made_in_cell(const Kernel& k, const Contraction& both) {
    std::vector<TensorId> list;
    const std::vector<Access>& stores = both.pieces[0].stores;
    for (TensorId out : k.stages[0].contraction.outputs) {
      auto o = std::find(both.outputs.begin(), both.outputs.end(), out) - both.outputs.begin();
      if (same_place(stores.begin()[o], stores.back())) list.push_back(out);
    }
    for (size_t s = 1; s < k.stages.size(); ++s) {
      const Contraction& c = k.stages[s].contraction;
      const Piece& piece = c.pieces[0];
      bool follows = std::any_of(piece.loads.begin(), piece.loads.end(), [&](const Access& load) {
        return contains(list, load.tensor) && same_place(load, piece.stores[0]);
      });
      if (follows) list.push_back(c.outputs[0]);
    }
    return list;
  }

  // What is attached is computed where a result's cell is: results have all of theirs (one
  // reduction may own fewer cells than the other's tensor has, the rest being zero).
  bool carries_attachments(const Kernel& k) const {
    return k.stages.size() == 1 || covers_output(k.stages[0].contraction, program_.tensors);
  }

  // Whether neighbouring cells read neighbours in memory. A GPU holds rows that are walked along
  // memory in registers, and reads them once for all sums that follow each other (fuse-rows).
  bool has_neighbouring_cells(const Piece& piece) const {
    const Access* largest = nullptr;
    int64_t most = 0;
    for (const Access& a : piece.loads) {
      int64_t count = element_count(program_.tensors[a.tensor].shape);
      if (count > most) largest = &a;
      most = std::max(most, count);
    }
    if (largest == nullptr || largest->index.empty()) return false;
    IteratorId u = sole_iterator(largest->index.back(), piece);
    return u.valid() && piece.is_parallel(u);
  }

  void join(size_t i, size_t j) {
    if (kernel(i) == nullptr) return;
    const Kernel &a = *kernel(i), &b = *kernel(j);
    std::optional<Contraction> both =
        joined(a.stages[0].contraction, b.stages[0].contraction, program_.tensors);
    bool apart = !both || !same_cells(a, b, *both) ||
                 (is_gpu(target_) && !has_neighbouring_cells(both->pieces[0]));
    std::optional<size_t> at = apart ? std::nullopt : common_place(steps_, {i, j}, program_);
    if (!at) return;
    Kernel one = a;
    one.stages[0].contraction = std::move(*both);
    one.stages.insert(one.stages.end(), b.stages.begin() + 1, b.stages.end());
    if (!carries_attachments(one)) return;
    auto cost = [&](const Kernel& k) { return compiled_cost(k, target_, finish_); };
    bool cheaper = always_ || agreed("fuse-siblings " + result_name(a, program_) + " " +
                                         result_name(b, program_),
                                     [&] { return cost(one) < cost(a) + cost(b); });
    if (!cheaper) return;
    steps_.reset(i);
    steps_.reset(j);
    steps_.set(*at, std::move(one));
  }

  const BoundProgram& program_;
  const Target& target_;
  const std::function<void(Kernel&)>& finish_;
  bool always_;
  OpenSteps steps_;
};

}  // namespace

std::vector<Step> fuse_siblings(std::vector<Step> steps, const BoundProgram& program,
                                const Target& target, const std::function<void(Kernel&)>& finish,
                                bool always) {
  return SiblingFusion(std::move(steps), program, target, finish, always).run();
}

}  // namespace tile
