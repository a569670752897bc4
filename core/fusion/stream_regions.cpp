#include "core/fusion/stream_regions.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "core/fusion/step_order.h"
#include "core/ir/analysis/accesses.h"
#include "core/ir/analysis/plain_contraction.h"
#include "core/ir/analysis/uses.h"
#include "core/kernel/forms/gpu_stream.h"
#include "core/kernel/forms/stream_pattern.h"
#include "core/kernel/rows.h"
#include "core/kernel/stream.h"
#include "core/support/choices.h"

namespace tile::stream {
namespace {

bool reduces(const Piece& piece) { return piece.parallel_dims < piece.box.size(); }

// Iterators of a kernel's stages as those of its first one, with which all of them share cells.
struct StepAxes {
  std::map<TensorId, std::vector<IteratorId>> results;  // by dimension
  std::vector<IdVector<IteratorId, IteratorId>> of;     // by stage
};
StepAxes axes_of(const Kernel& kernel) {
  Kernel all = kernel;
  const Piece& first = all.stages[0].contraction.pieces[0];
  for (size_t u = 0; u < first.parallel_dims; ++u) all.stages[0].rows.push_back(IteratorId(u));
  StepAxes axes;
  RowMap map = row_map(all);
  for (const auto& [id, rows] : map.dimensions) {
    std::vector<IteratorId>& dimensions = axes.results[id];  // of a scalar there are none
    for (RowId row : rows) dimensions.push_back(IteratorId(row.number()));
  }
  for (const IdVector<IteratorId, RowId>& rows : map.iterators) {
    IdVector<IteratorId, IteratorId> of;
    for (RowId row : rows) of.push_back(IteratorId(row.number()));
    axes.of.push_back(std::move(of));
  }
  for (IteratorId u : first.box.ids()) axes.of[0][u] = u;
  return axes;
}

class RegionFinder {
 public:
  RegionFinder(const std::vector<std::optional<Step>>& steps, const BoundProgram& program,
               const Target& target, const StepUses& uses)
      : steps_(steps), program_(program), target_(target), uses_(uses) {}

  std::optional<Region> at(size_t scores) {
    if (kernel(scores) == nullptr || !is_scores(scores) || !collect(scores)) return std::nullopt;
    if (sums_.empty() || !unify() || !choose_axis(scores)) return std::nullopt;
    Region region;
    region.steps.assign(members_.begin(), members_.end());
    if (!build(region)) return std::nullopt;
    return region;
  }

 private:
  // Of one piece in each stage, and no other fusion's.
  const Kernel* kernel(size_t i) const {
    const Kernel* k = steps_[i] ? std::get_if<Kernel>(&*steps_[i]) : nullptr;
    if (k == nullptr || row_loops(*k) > 0) return nullptr;
    bool plain = std::all_of(k->stages.begin(), k->stages.end(), [](const KernelStage& s) {
      return is_plain_contraction(s.contraction);
    });
    return plain ? k : nullptr;
  }
  const Piece& first(size_t i) const { return kernel(i)->stages[0].contraction.pieces[0]; }
  bool is_scores(size_t i) const {
    return makes_scores(kernel(i)->stages[0].contraction, program_.tensors, target_);
  }

  // From the scores on to all that reads what has their cells, up to the sums; and to other scores
  // that are read with them.
  bool collect(size_t scores) {
    std::vector<size_t> open{scores};
    while (!open.empty()) {
      size_t i = open.back();
      open.pop_back();
      if (members_.contains(i)) continue;
      const Kernel* k = kernel(i);
      if (k == nullptr) return false;
      members_.insert(i);
      bool sums = reduces(first(i)) && !is_scores_of_region(i);
      if (sums) {
        sums_.insert(i);
      } else {
        for (const KernelStage& s : k->stages) {
          TensorId out = s.contraction.outputs[0];
          if (!uses_.is_inner(out)) return false;
          cells_.insert(out);
          for (size_t r : uses_.readers(out)) {
            if (r != i) open.push_back(r);
          }
        }
      }
      for (size_t other : scores_beside(i, sums)) open.push_back(other);
    }
    return true;
  }
  // A product of what the region does not make.
  bool is_scores_of_region(size_t i) const {
    if (!is_scores(i)) return false;
    const std::vector<Access>& loads = first(i).loads;
    return std::none_of(loads.begin(), loads.end(),
                        [&](const Access& a) { return cells_.contains(a.tensor); });
  }
  // Makers of scores that the step reads at cells of the region.
  std::vector<size_t> scores_beside(size_t i, bool sums) const {
    std::vector<size_t> list;
    const Kernel& k = *kernel(i);
    for (size_t s = 0; s < k.stages.size(); ++s) {
      const Piece& p = k.stages[s].contraction.pieces[0];
      if (sums ? s > 0 : reduces(p)) continue;
      for (const Access& a : p.loads) {
        if (cells_.contains(a.tensor) || !at_cell(p, a, sums)) continue;
        std::optional<size_t> made = uses_.maker(a.tensor);
        if (made && *made != i && kernel(*made) != nullptr && is_scores(*made)) {
          list.push_back(*made);
        }
      }
    }
    return list;
  }
  // The access moves with every iterator of the cell: all of a pointwise stage, those of the
  // region's tensors in a sum.
  bool at_cell(const Piece& p, const Access& access, bool sums) const {
    for (size_t u = 0; u < p.box.size(); ++u) {
      if (p.box[u] == 1) continue;
      bool cell = !sums || std::any_of(p.loads.begin(), p.loads.end(), [&](const Access& a) {
        return cells_.contains(a.tensor) && moves_with(a, u);
      });
      if (cell != moves_with(access, u)) return false;
    }
    return true;
  }

  // Iterators of the members' first stages that run over the same values are in one class.
  using Node = std::pair<size_t, size_t>;  // step and iterator
  Node root(Node n) const {
    for (auto up = parent_.find(n); up != parent_.end(); up = parent_.find(n)) n = up->second;
    return n;
  }
  void join(Node a, Node b) {
    a = root(a);
    b = root(b);
    if (a != b) parent_[b] = a;
  }
  bool unify() {
    std::map<TensorId, size_t> made;
    for (size_t i : members_) {
      axes_.emplace(i, axes_of(*kernel(i)));
      for (const KernelStage& s : kernel(i)->stages) made[s.contraction.outputs[0]] = i;
    }
    for (size_t i : members_) {
      const Kernel& k = *kernel(i);
      for (size_t s = 0; s < k.stages.size(); ++s) {
        for (const Access& a : k.stages[s].contraction.pieces[0].loads) {
          auto from = made.find(a.tensor);
          bool other = from != made.end() && from->second != i;
          if (other && !join_access(i, s, a, from->second)) return false;
        }
      }
    }
    return true;
  }
  bool join_access(size_t i, size_t s, const Access& a, size_t maker) {
    const Piece& p = kernel(i)->stages[s].contraction.pieces[0];
    const std::vector<IteratorId>& dims = axes_.at(maker).results.at(a.tensor);
    for (size_t d = 0; d < dims.size(); ++d) {
      if (!dims[d].valid() || first(maker).box[dims[d]] == 1) continue;
      IteratorId u = sole_iterator(a.index[d], p);
      IteratorId mine = u.valid() ? axes_.at(i).of[s][u] : u;
      if (!mine.valid()) return false;
      join({maker, dims[d].index()}, {i, mine.index()});
    }
    return true;
  }

  // The axis that all sums run over is streamed; the other dimensions of the scores are rows.
  bool choose_axis(size_t scores) {
    const Piece& p = first(scores);
    std::set<Node> axes;
    for (size_t u = 0; u < p.parallel_dims; ++u) {
      if (p.box[u] > 1) axes.insert(root({scores, u}));
    }
    std::optional<Node> axis;
    for (size_t i : sums_) {
      const Piece& sum = first(i);
      for (size_t u = sum.parallel_dims; u < sum.box.size(); ++u) {
        Node at = root({i, u});
        if (!axes.contains(at)) continue;
        if (axis && *axis != at) return false;
        axis = at;
      }
    }
    if (!axis) return false;
    axis_ = *axis;
    for (size_t u = 0; u < p.parallel_dims; ++u) {
      Node at = root({scores, u});
      if (axes.contains(at) && at != axis_) rows_.push_back(at);
    }
    return !rows_.empty();
  }

  // The only iterator of a member's first stage that is of the class.
  IteratorId iterator(size_t i, Node of) const {
    IteratorId found;
    for (size_t u = 0; u < first(i).box.size(); ++u) {
      if (root({i, u}) != of) continue;
      if (found.valid()) return {};
      found = IteratorId(u);
    }
    return found;
  }

  bool build(Region& region) {
    Kernel& made = region.kernel;
    made.tensors = program_.tensors;
    for (size_t i : region.steps) {
      const Kernel& from = *kernel(i);
      KernelStage stage = from.stages[0];
      stage.stream = iterator(i, axis_);
      for (Node row : rows_) stage.rows.push_back(iterator(i, row));
      bool all = stage.stream.valid() && std::all_of(stage.rows.begin(), stage.rows.end(),
                                                     [](IteratorId u) { return u.valid(); });
      bool conditions = !stage.contraction.pieces[0].constraints.empty();
      if (!all || (!sums_.contains(i) && conditions && !widen(i, stage, region))) return false;
      StageId own = made.stages.add(std::move(stage));
      for (size_t s = 1; s < from.stages.size(); ++s) {
        made.stages.push_back(from.stages[s]);
        made.stages.back().attach = own;
      }
      if (sums_.contains(i)) made.name = from.name;
    }
    read_widened(made);
    return true;
  }

  // Cells outside of the conditions are zero in the program; no sum has them.
  bool widen(size_t i, KernelStage& stage, Region& region) {
    Piece& piece = stage.contraction.pieces[0];
    for (size_t sum : sums_) {
      IdVector<IteratorId, IteratorId> of(piece.box.size(), IteratorId());
      for (size_t u = 0; u < piece.parallel_dims; ++u) {
        if (piece.box[u] > 1) of[u] = iterator(sum, root({i, u}));
      }
      if (!keeps_conditions(first(sum), piece, of)) return false;
    }
    piece.constraints.clear();
    TensorId before = stage.contraction.outputs[0];
    BoundTensor all = region.kernel.tensors[before];
    all.name += "_all";
    TensorId after = region.kernel.tensors.add(std::move(all));
    stage.contraction.outputs[0] = piece.stores[0].tensor = after;
    region.widened.push_back(before);
    own_[before] = after;
    return true;
  }
  void read_widened(Kernel& made) const {
    for (KernelStage& stage : made.stages) {
      for (Access& a : stage.contraction.pieces[0].loads) {
        auto own = own_.find(a.tensor);
        if (own != own_.end()) a.tensor = own->second;
      }
    }
  }

  const std::vector<std::optional<Step>>& steps_;
  const BoundProgram& program_;
  const Target& target_;
  const StepUses& uses_;
  std::set<size_t> members_, sums_;
  std::set<TensorId> cells_;  // tensors that have the region's cells
  std::map<size_t, StepAxes> axes_;
  std::map<Node, Node> parent_;
  Node axis_;
  std::vector<Node> rows_;
  std::map<TensorId, TensorId> own_;
};

}  // namespace

std::optional<std::pair<NodeId, NodeId>> factors_of_scores(const Body& body, const Target& target) {
  if (is_gpu(target)) return gpu::score_product(body);
  auto without_casts = [&](NodeId id) {
    while (body[id].kind == NodeKind::operation && body[id].op == Op::cast) id = body[id].args[0];
    return id;
  };
  const Node& root = body[without_casts(body.results[0])];
  bool product = root.kind == NodeKind::operation && root.op == Op::mul && is_float(root.type);
  if (!product) return std::nullopt;
  NodeId a = without_casts(root.args[0]), b = without_casts(root.args[1]);
  if (!is_float(body[a].type) || !is_float(body[b].type)) return std::nullopt;
  return std::pair(a, b);
}

bool sums_scores(const Contraction& c, const Target& target) {
  bool wide = c.accumulator == DType::f32 || (c.accumulator == DType::f64 && !is_gpu(target));
  return c.aggregation == Aggregation::sum && wide;
}

bool makes_scores(const Contraction& c, const BoundTensors& tensors, const Target& target) {
  bool sum = is_plain_contraction(c) && sums_scores(c, target) &&
             tensors[c.outputs[0]].role == TensorRole::temporary;
  if (!sum) return false;
  const Piece& p = c.pieces[0];
  if (p.box.size() != p.parallel_dims + 1 || p.box.back() > gpu::kMostExtent) return false;
  auto factors = factors_of_scores(p.body, target);
  if (!factors) return false;
  const Node &a = p.body[factors->first], &b = p.body[factors->second];
  if (a.kind != NodeKind::load || b.kind != NodeKind::load || a.slot == b.slot) return false;
  bool rows = false, columns = false;
  for (size_t u = 0; u < p.parallel_dims; ++u) {
    if (p.box[u] == 1) continue;
    bool in_a = moves_with(p.loads[a.slot], u), in_b = moves_with(p.loads[b.slot], u);
    rows = rows || (in_a && !in_b);
    columns = columns || (in_b && !in_a);
  }
  return rows && columns;
}

bool are_large(const Contraction& c, const BoundTensors& tensors, const Target& target) {
  auto bytes = [&](TensorId id) {
    return element_count(tensors[id].shape) * static_cast<int64_t>(byte_size(tensors[id].type));
  };
  int64_t factors = 0;
  for (const Access& a : c.pieces[0].loads) factors += bytes(a.tensor);
  int64_t near = is_gpu(target) || space_first() ? 0 : target.l2_bytes;
  return bytes(c.outputs[0]) > std::max(factors, near);
}

StepUses::StepUses(const std::vector<std::optional<Step>>& steps, const BoundProgram& program)
    : Uses(program) {
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!steps[i]) continue;
    StepUse use = use_of(*steps[i], program);
    add(i, use.reads, use.makes);
  }
}

std::optional<Region> find_region(const std::vector<std::optional<Step>>& steps,
                                  const BoundProgram& program, const Target& target,
                                  const StepUses& uses, size_t scores) {
  return RegionFinder(steps, program, target, uses).at(scores);
}

}  // namespace tile::stream
