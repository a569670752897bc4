// What a kernel with a streamed axis must keep: sums of terms that depend on a running maximum are
// linear in its exponential, and nothing but the maximum is read before the last block.
#include "core/kernel/stream.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/kernel/coverage.h"
#include "core/kernel/rows.h"

namespace tile {

bool has_stream(const Kernel& kernel) {
  return !kernel.stages.empty() && kernel.stages[0].stream.valid();
}

bool reduces_stream(const KernelStage& stage) {
  return stage.stream.valid() && !stage.contraction.pieces[0].is_parallel(stage.stream);
}

bool is_running(const Kernel& kernel, size_t stage) {
  return std::any_of(kernel.stages.begin(), kernel.stages.end(),
                     [&](const KernelStage& s) { return s.rescale == StageId(stage); });
}

IdVector<RowId, IteratorId> shared_iterators(const KernelStage& stage) {
  IdVector<RowId, IteratorId> iterators = stage.rows;
  if (stage.stream.valid()) iterators.push_back(stage.stream);
  return iterators;
}

namespace {

class ScalingOf {
 public:
  ScalingOf(const Body& body, const std::function<Scaling(size_t)>& load)
      : body_(body), load_(load) {}

  Scaling node(NodeId id) const {
    const Node& n = body_[id];
    if (n.kind == NodeKind::load) return load_(n.slot);
    std::vector<Scaling> args;
    for (NodeId arg : n.args) args.push_back(node(arg));
    auto all = [&](size_t from, Scaling wanted) {
      return std::all_of(args.begin() + static_cast<std::ptrdiff_t>(from), args.end(),
                         [&](Scaling s) { return s == wanted; });
    };
    if (all(0, Scaling::none)) return Scaling::none;
    if (n.kind != NodeKind::operation) return Scaling::unknown;
    switch (n.op) {
      case Op::exp:
        return is_distance(n.args[0]) ? Scaling::weighted : Scaling::unknown;
      case Op::cast:
      case Op::ident:
      case Op::neg:
        return is_float(n.type) ? args[0] : Scaling::unknown;
      case Op::add:
      case Op::sub:
        return all(0, Scaling::weighted) ? Scaling::weighted : Scaling::unknown;
      case Op::mul:
        return product(args[0], args[1]);
      case Op::div:
        return args[1] == Scaling::none ? args[0] : Scaling::unknown;
      case Op::select:
        return selection(n, args);
      default:
        return Scaling::unknown;
    }
  }

 private:
  // x - maximum, where x does not depend on it.
  bool is_distance(NodeId id) const {
    const Node& n = body_[id];
    if (n.kind == NodeKind::operation && n.op == Op::cast) return is_distance(n.args[0]);
    return n.kind == NodeKind::operation && n.op == Op::sub && node(n.args[0]) == Scaling::none &&
           node(n.args[1]) == Scaling::maximum;
  }
  static Scaling product(Scaling a, Scaling b) {
    if (a == Scaling::none) std::swap(a, b);
    return a == Scaling::weighted && b == Scaling::none ? a : Scaling::unknown;
  }
  // One of two weighted values, or of one and zero.
  Scaling selection(const Node& n, const std::vector<Scaling>& args) const {
    if (args[0] != Scaling::none) return Scaling::unknown;
    for (size_t i : {size_t{1}, size_t{2}}) {
      const Node& value = body_[n.args[i]];
      bool zero = value.kind == NodeKind::real && value.real == 0;
      if (args[i] != Scaling::weighted && !zero) return Scaling::unknown;
    }
    return Scaling::weighted;
  }

  const Body& body_;
  const std::function<Scaling(size_t)>& load_;
};

// What a tensor that the kernel makes is to the stages behind.
struct Made {
  size_t tile = 0;
  bool final = false;  // known when the last block is done
  Scaling scaling = Scaling::none;
};

class StreamRules {
 public:
  explicit StreamRules(const Kernel& kernel) : kernel_(kernel) {}

  std::string broken() {
    for (size_t s = 0; s < kernel_.stages.size(); ++s) {
      size_t tile = s;
      while (kernel_.stages[tile].attach.valid()) {
        tile = kernel_.stages[tile].attach.index();
      }
      std::string text = tile == s ? own_loops(s) : attached(s, tile);
      if (!text.empty()) return text;
    }
    return {};
  }

 private:
  std::string own_loops(size_t s) {
    const KernelStage& stage = kernel_.stages[s];
    const Piece& piece = stage.contraction.pieces[0];
    if (!piece.box.contains(stage.stream)) return "a stage without the streamed axis";
    IteratorId u = stage.stream;
    const KernelStage& first = kernel_.stages[0];
    int64_t extent = first.contraction.pieces[0].box[first.stream];
    bool row = std::count(stage.rows.begin(), stage.rows.end(), stage.stream) > 0;
    if (row || piece.box[u] != extent || extent < 1) return "streamed axes that differ";
    if (!reduces_stream(stage) && !piece.constraints.empty()) return "a streamed block with gaps";
    return reduces_stream(stage) ? reduction(s) : block(s, s);
  }

  Scaling load_scaling(const Piece& piece, size_t slot) const {
    auto made = made_.find(piece.loads[slot].tensor);
    return made == made_.end() ? Scaling::none : made->second.scaling;
  }
  Scaling result_scaling(const Contraction& c, size_t output) const {
    const Piece& piece = c.pieces[0];
    return scaling_of(piece.body, piece.body.results[output],
                      [&](size_t slot) { return load_scaling(piece, slot); });
  }
  bool reads_final(const Contraction& c) const {
    return std::any_of(c.pieces[0].loads.begin(), c.pieces[0].loads.end(), [&](const Access& a) {
      auto made = made_.find(a.tensor);
      return made != made_.end() && made->second.final;
    });
  }
  void note(const Contraction& c, size_t tile, bool final, Scaling scaling) {
    for (TensorId out : c.outputs) made_[out] = {tile, final, scaling};
  }

  std::string reduction(size_t s) {
    const KernelStage& stage = kernel_.stages[s];
    const Contraction& c = stage.contraction;
    if (reads_final(c)) return "a sum that is read before the last block";
    if (is_running(kernel_, s)) return running(s);
    bool rescaled = stage.rescale.valid();
    if (rescaled && !(stage.rescale < StageId(s) && c.aggregation == Aggregation::sum &&
                      is_float(c.accumulator))) {
      return "a rescaled stage that is no sum behind its maximum";
    }
    Scaling wanted = rescaled ? Scaling::weighted : Scaling::none;
    for (size_t o = 0; o < c.outputs.size(); ++o) {
      if (result_scaling(c, o) != wanted) return "a sum that does not follow the maximum";
    }
    note(c, s, true, Scaling::none);
    return {};
  }

  std::string running(size_t s) {
    const KernelStage& stage = kernel_.stages[s];
    const Contraction& c = stage.contraction;
    const Piece& piece = c.pieces[0];
    bool plain = c.aggregation == Aggregation::max && c.outputs.size() == 1 &&
                 is_float(c.accumulator) && !stage.attach.valid();
    if (!plain || result_scaling(c, 0) != Scaling::none) return "a running result of another kind";
    if (std::exchange(maximum_, true)) return "two running maxima";
    for (size_t u = 0; u < piece.parallel_dims; ++u) {
      bool row = std::count(stage.rows.begin(), stage.rows.end(), IteratorId(u)) > 0;
      if (!row && piece.box[u] != 1) return "a running maximum of more than its row";
    }
    note(c, s, false, Scaling::maximum);
    return {};
  }

  // A result that has the streamed axis, made in the tile of a stage with loops.
  std::string block(size_t s, size_t tile) {
    const KernelStage& stage = kernel_.stages[s];
    const Contraction& c = stage.contraction;
    bool leaves = stage.residence == Residence::global && !has_cells(s);
    if (leaves || stage.rescale.valid()) return "a streamed result that leaves the kernel";
    if (reads_final(c)) return "a sum that is read before the last block";
    for (size_t o = 0; o < c.outputs.size(); ++o) {
      Scaling scaling = result_scaling(c, o);
      bool sums = c.pieces[0].parallel_dims < c.pieces[0].box.size();
      bool known = scaling == Scaling::none || (scaling == Scaling::weighted && !sums);
      if (!known) return "a term that does not follow the maximum";
      made_[c.outputs[o]] = {tile, false, scaling};
    }
    return {};
  }

  // The axis is the place in a row of the kernel, and both are one index of what is stored: a cell
  // of its own for each.
  bool has_cells(size_t s) const {
    const Piece& piece = kernel_.stages[s].contraction.pieces[0];
    RowMap map = row_map(kernel_);
    RowId streamed(row_loops(kernel_));
    return std::all_of(piece.stores.begin(), piece.stores.end(), [&](const Access& a) {
      return std::any_of(a.index.begin(), a.index.end(), [&](const Index& i) {
        bool row = false, axis = false;
        for (IteratorId u : piece.box.ids()) {
          RowId of = map.iterators[s][u];
          if (!of.valid() || i.affine.coefficient(u).is_zero()) continue;
          (of == streamed ? axis : row) = true;
        }
        return i.value < 0 && row && axis;
      });
    });
  }

  std::string attached(size_t s, size_t tile) {
    const KernelStage& stage = kernel_.stages[s];
    if (stage.stream.valid() || stage.rescale.valid()) return "an attached stage that streams";
    if (!reduces_stream(kernel_.stages[tile])) return block(s, tile);
    const Contraction& c = stage.contraction;
    if (is_running(kernel_, tile)) {
      if (reads_final(c)) return "a sum that is read before the last block";
      note(c, tile, false, Scaling::maximum);
      return {};
    }
    note(c, tile, true, Scaling::none);
    return {};
  }

  const Kernel& kernel_;
  std::map<TensorId, Made> made_;
  bool maximum_ = false;  // is known
};

}  // namespace

Scaling scaling_of(const Body& body, NodeId root, const std::function<Scaling(size_t slot)>& load) {
  return ScalingOf(body, load).node(root);
}

std::string broken_stream(const Kernel& kernel) {
  if (has_stream(kernel)) return StreamRules(kernel).broken();
  bool none = std::all_of(kernel.stages.begin(), kernel.stages.end(), [](const KernelStage& s) {
    return !s.stream.valid() && !s.rescale.valid();
  });
  return none ? "" : "a streamed axis of some stages only";
}

namespace {

// From lo <= form < hi at the most that the rest of the form can be, or at the least: an upper
// bound of the axis's values, or a lower one.
StreamBound bound_of(const Constraint& c, const KernelStage& stage,
                     const std::vector<int64_t>& blocks, bool upper) {
  Constraint k = integral(c);
  const Piece& piece = stage.contraction.pieces[0];
  int64_t a = k.form.coefficient(stage.stream).num();
  int64_t sign = a < 0 ? 1 : -1;  // of the rest, in the bound
  StreamBound bound;
  bound.divisor = std::abs(a);
  bound.rows.assign(stage.rows.size(), 0);
  int64_t edge = (a < 0) == upper ? k.lo : k.hi - 1;
  bound.constant = sign * (k.form.constant.num() - edge);
  for (size_t u = 0; u < piece.box.size(); ++u) {
    if (IteratorId(u) == stage.stream) continue;
    int64_t factor = sign * k.form.coefficient(u).num(), size = piece.box[u];
    auto row = std::find(stage.rows.begin(), stage.rows.end(), IteratorId(u));
    if (row != stage.rows.end()) {
      auto r = row - stage.rows.begin();
      bound.rows.begin()[r] = factor;
      size = blocks.begin()[r];
    }
    int64_t extreme = upper ? std::max<int64_t>(factor, 0) : std::min<int64_t>(factor, 0);
    bound.constant += extreme * (size - 1);
  }
  return bound;
}

std::vector<std::vector<StreamBound>> bounds(const Kernel& kernel,
                                             const std::vector<int64_t>& blocks, bool upper) {
  std::vector<std::vector<StreamBound>> all;
  for (const KernelStage& stage : kernel.stages) {
    if (stage.attach.valid() || !reduces_stream(stage)) continue;
    std::vector<StreamBound> list;
    for (const Constraint& c : stage.contraction.pieces[0].constraints) {
      bool bounded = !c.form.coefficient(stage.stream).is_zero();
      if (bounded) list.push_back(bound_of(c, stage, blocks, upper));
    }
    if (list.empty()) return {};
    all.push_back(std::move(list));
  }
  return all;
}

}  // namespace

std::vector<std::vector<StreamBound>> stream_bounds(const Kernel& kernel,
                                                    const std::vector<int64_t>& blocks) {
  return bounds(kernel, blocks, true);
}

std::vector<std::vector<StreamBound>> stream_begins(const Kernel& kernel,
                                                    const std::vector<int64_t>& blocks) {
  return bounds(kernel, blocks, false);
}

namespace {

constexpr int64_t kMostBlocksLookedAt = 1024;

// The first and the last value of the axis that one of the stages needs where block `i` of the row
// `along` is, and the middle block of the others.
struct Visited {
  int64_t first = 0, last = 0;
};
Visited visited(const std::vector<std::vector<StreamBound>>& ends,
                const std::vector<std::vector<StreamBound>>& begins, int64_t extent,
                const std::function<int64_t(size_t row)>& at) {
  auto value = [&](const StreamBound& b) {
    int64_t sum = b.constant;
    for (size_t r = 0; r < b.rows.size(); ++r) sum += b.rows[r] * at(r);
    return sum;
  };
  Visited v{begins.empty() ? 0 : extent - 1, 0};
  for (const std::vector<StreamBound>& bounds : ends) {
    int64_t least = extent - 1;
    for (const StreamBound& b : bounds) least = std::min(least, value(b) / b.divisor);
    v.last = std::max(v.last, least);
  }
  for (const std::vector<StreamBound>& bounds : begins) {
    int64_t most = 0;
    for (const StreamBound& b : bounds) {
      most = std::max(most, (value(b) + b.divisor - 1) / b.divisor);
    }
    v.first = std::min(v.first, most);
  }
  return v;
}

}  // namespace

double visited_share(const Kernel& kernel, const std::vector<int64_t>& blocks) {
  const KernelStage& first = kernel.stages[0];
  const IterationBox& box = first.contraction.pieces[0].box;
  int64_t extent = box[first.stream], step = blocks.back();
  auto all = stream_bounds(kernel, blocks), lower = stream_begins(kernel, blocks);
  if (all.empty()) return 1;
  // Along the row that the bounds follow most, from block to block; other rows in their middle.
  std::vector<int64_t> counts(first.rows.size());
  size_t along = 0;
  for (size_t r = 0; r < counts.size(); ++r) {
    counts[r] = ceil_div(box[first.rows[r]], blocks[r]);
    bool follows = all[0][0].rows[r] != 0;
    if (follows && (all[0][0].rows[along] == 0 || counts[r] > counts[along])) along = r;
  }
  // Of very many blocks some, evenly spaced.
  int64_t taken = std::min(counts[along], kMostBlocksLookedAt), sum = 0;
  for (int64_t k = 0; k < taken; ++k) {
    int64_t i = (2 * k + 1) * counts[along] / (2 * taken);
    Visited v = visited(all, lower, extent,
                        [&](size_t r) { return blocks[r] * (r == along ? i : counts[r] / 2); });
    sum += std::max<int64_t>(0, v.last / step + 1 - v.first / step);
  }
  return static_cast<double>(sum) / static_cast<double>(taken * ceil_div(extent, step));
}

}  // namespace tile
