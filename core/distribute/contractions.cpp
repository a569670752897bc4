// Contractions: each rank computes the cells of its box, or the terms of its part of an index.
#include <algorithm>
#include <set>

#include "core/distribute/partitioner.h"
#include "core/support/checked.h"
#include "core/support/control.h"

namespace tile {
namespace {

// How many programs at their limit of nodes all ranks together may have: what a process still
// holds.
constexpr int64_t kProgramsNodes = 8;

}  // namespace

void Partitioner::contraction(const Contraction& c) {
  internal_check(std::all_of(c.outputs.begin(), c.outputs.end(),
                             [&](TensorId id) { return id == c.outputs[0]; }),
                 "partition: a contraction of several tensors");
  TensorId id = c.outputs[0];
  ContractionPlan plan = chosen_plan(c);
  if (plan.divides_terms() && d_.layouts[id].partial.empty()) {
    sum_over_ranks(c, plan);
  } else {
    compute_at_owners(c, plan);
  }
  summarize(id, plan.computed, plan.cuts, c.span);
}

// Every rank has all terms of its cells, or the sums are kept in parts.
void Partitioner::compute_at_owners(const Contraction& c, const ContractionPlan& plan) {
  TensorId id = c.outputs[0];
  std::optional<TensorId> fill;
  if (c.fill) fill = exact(*c.fill, plan.boxes, c.span);
  bool stays = plan.divides_terms() || plan.computed == d_.layouts[id];
  const BoundTensor& tensor = at(id);
  TensorId result = stays ? declare_result(id, plan.boxes)
                          : ranks_.declare(tensor.name + ".computed", tensor.type,
                                           TensorRole::temporary, plan.boxes);
  emit(c, plan, result, fill);
  if (!stays) {
    store_computed(id, plan.computed, result, c.span);
    return;
  }
  StoredTensor& kept = store(id, result, plan.computed);
  kept.layout.partial = d_.layouts[id].partial;
}

// What the text says, or where it is silent what moves the fewest bytes.
ContractionPlan Partitioner::chosen_plan(const Contraction& c) {
  TensorId id = c.outputs[0];
  if (auto cuts = d_.cuts.find(id); cuts != d_.cuts.end()) return plan(c, cuts->second);
  if (d_.computed.contains(id)) return plan(c, {});
  ContractionPlan best = plan(c, {});
  double least = options_.divide_terms ? bytes_of(c, best) : 0;
  if (least == 0) return best;
  for (const ReductionCut& cut : possible_cuts(c, d_.layouts[id])) {
    ContractionPlan other = plan(c, {cut});
    double bytes = bytes_of(c, other);
    if (bytes >= least) continue;
    least = bytes;
    best = std::move(other);
  }
  return best;
}

// Indices of reductions along which something that is read is cut over axes that the result leaves
// free.
std::vector<ReductionCut> Partitioner::possible_cuts(const Contraction& c,
                                                     const TensorLayout& result) {
  std::vector<ReductionCut> cuts;
  if (c.pieces.size() != 1 || c.aggregation == Aggregation::assign || data_decides(c)) return cuts;
  const Piece& piece = c.pieces[0];
  for (const Access& load : piece.loads) {
    for (size_t d = 0; d < load.index.size(); ++d) {
      if (load.index[d].value >= 0) continue;
      std::optional<size_t> iterator = single_iterator(load.index[d].affine);
      const TensorLayout& layout = stored(load.tensor).layout;
      if (!iterator || layout.dims[d].whole()) continue;
      const std::vector<size_t>& axes = layout.dims[d].axes;
      bool free = std::none_of(axes.begin(), axes.end(), [&](size_t a) { return result.uses(a); });
      bool reduces = std::all_of(piece.stores.begin(), piece.stores.end(), [&](const Access& s) {
        return std::all_of(s.index.begin(), s.index.end(), [&](const Index& index) {
          return index.affine.coefficient(*iterator).is_zero();
        });
      });
      if (!free || !reduces) continue;
      ReductionCut cut{piece.iterators[*iterator], layout.dims[d]};
      IndexRange range = range_of(program_, piece, cut.index);
      // Where the tensor is cut, as far as the index goes.
      int64_t first = load.index[d].affine.constant.num();
      for (int64_t& start : cut.parts.starts) start = std::clamp(start - first, range.lo, range.hi);
      cut.parts.starts.front() = range.lo;
      cut.parts.starts.back() = range.hi;
      bool known = std::any_of(cuts.begin(), cuts.end(), [&](const ReductionCut& other) {
        return other.index == cut.index && other.parts == cut.parts;
      });
      if (!known) cuts.push_back(std::move(cut));
    }
  }
  return cuts;
}

std::vector<IndexRange> Partitioner::ranges_of(const Piece& piece,
                                               const std::vector<ReductionCut>& cuts, size_t rank,
                                               bool& none) const {
  std::vector<IndexRange> ranges;
  none = false;
  for (const ReductionCut& cut : cuts) {
    size_t part = part_of(d_.mesh, cut.parts.axes, rank);
    bool has = std::find(piece.iterators.begin(), piece.iterators.end(), cut.index) !=
               piece.iterators.end();
    if (has) {
      ranges.push_back({cut.index, cut.parts.starts[part], cut.parts.starts[part + 1]});
    } else {
      none = none || part != 0;  // its terms are the first part's
    }
  }
  return ranges;
}

ContractionPlan Partitioner::plan(const Contraction& c, std::vector<ReductionCut> cuts) {
  TensorId id = c.outputs[0];
  ContractionPlan plan;
  plan.cuts = std::move(cuts);
  plan.computed = without(computed_layout(id), plan.axes(), d_.mesh);
  plan.boxes = boxes_of(plan.computed, at(id).shape, d_.mesh);
  std::vector<PieceImages> images;
  for (const Piece& piece : c.pieces) images.emplace_back(program_, piece);
  // Ranks with the same part need the same.
  std::map<std::string, size_t> like;
  for (size_t r = 0; r < ranks_.ranks(); ++r) {
    checkpoint();
    std::string key = to_string(plan.boxes[r]);
    for (const ReductionCut& cut : plan.cuts) {
      key += " " + std::to_string(part_of(d_.mesh, cut.parts.axes, r));
    }
    auto [same, fresh] = like.emplace(std::move(key), r);
    if (!fresh) {
      plan.needs.push_back(plan.needs[same->second]);
      continue;
    }
    std::vector<PieceNeeds>& of_rank = plan.needs.emplace_back();
    for (size_t p = 0; p < c.pieces.size(); ++p) {
      bool none = false;
      std::vector<IndexRange> ranges = ranges_of(c.pieces[p], plan.cuts, r, none);
      of_rank.push_back(none ? PieceNeeds{true, {}, 0} : images[p].of(plan.boxes[r], ranges));
    }
  }
  plan.windows = windows_of(c, plan.needs, program_.tensors);
  return plan;
}

// What comes from other ranks, and sums of parts on top.
double Partitioner::bytes_of(const Contraction& c, const ContractionPlan& plan) {
  double bytes = 0;
  for (const Window& window : plan.windows.all) {
    const StoredTensor& from = stored(window.tensor);
    auto width = static_cast<double>(byte_size(at(window.tensor).type));
    double parts = static_cast<double>(parts_of(d_.mesh, from.layout.partial));
    for (size_t r = 0; r < window.needed.size(); ++r) {
      for (const Box& box : window.needed[r]) {
        for (const NeedPart& part : unwrapped(box, at(window.tensor).shape)) {
          auto all = static_cast<double>(part.cells.count());
          auto own = static_cast<double>(intersection(part.cells, from.boxes[r]).count());
          bytes += (all * parts - own) * width;
        }
      }
    }
  }
  const TensorLayout& result = d_.layouts[c.outputs[0]];
  if (!plan.divides_terms() || !result.partial.empty()) return bytes;
  double others = static_cast<double>(parts_of(d_.mesh, plan.axes())) - 1;
  TensorLayout sums = layout_of_sums(c, plan);
  for (size_t r = 0; r < ranks_.ranks(); ++r) {
    const Shape& shape = at(c.outputs[0]).shape;
    auto added = static_cast<double>(box_of(sums, shape, d_.mesh, r).count());
    auto kept = static_cast<double>(box_of(result, shape, d_.mesh, r).count());
    auto width = static_cast<double>(byte_size(c.accumulator));
    if (needs_marks(program_, c)) width += static_cast<double>(byte_size(DType::i32));
    bytes += others * added * width +
             std::max(0.0, kept - added) * static_cast<double>(byte_size(at(c.outputs[0]).type));
  }
  return bytes;
}

void Partitioner::emit(const Contraction& c, const ContractionPlan& plan, TensorId result,
                       std::optional<TensorId> fill) {
  std::vector<LocalTensor> windows;
  for (const Window& window : plan.windows.all) windows.push_back(local(window, c.span));
  for (size_t r = 0; r < ranks_.ranks(); ++r) {
    checkpoint();
    Contraction mine = c;
    mine.outputs.assign(c.outputs.size(), result);
    mine.fill = fill;
    mine.pieces.clear();
    for (size_t p = 0; p < c.pieces.size(); ++p) {
      if (plan.needs[r][p].empty) continue;
      count_nodes(c.pieces[p], c.span);
      Piece piece = local_piece(c.pieces[p], r, plan, plan.windows.of_load[p], windows, result);
      const std::vector<Need>& needs = plan.needs[r][p].loads;
      for (size_t l = 0; l < needs.size(); ++l) {
        for (size_t d = 0; d < needs[l].shift.size(); ++d) {
          Index& index = piece.loads[l].index[d];
          if (index.value < 0) {
            index.affine = index.affine - constant_affine(needs[l].shift[d]);
            if (needs[l].reach[d] != Reach::ruled) index.boundary = Boundary::in_range;
          }
        }
      }
      mine.pieces.push_back(std::move(piece));
    }
    ranks_.add(r, std::move(mine));
  }
}

void Partitioner::count_nodes(const Piece& piece, Span span) {
  visit_nodes(piece.body, [&](const Node&) { ++nodes_; });
  if (nodes_ <= kProgramsNodes * limits().nodes) return;
  fail_limit(Stage::bind, span,
             "the programs of all ranks together have more than " +
                 std::to_string(kProgramsNodes * limits().nodes) + " operations",
             "limit_nodes");
}

// The piece over the rank's own tensors. Iterators keep their values, so that bodies that use them
// stay as they are: what moves are the accesses.
Piece Partitioner::local_piece(const Piece& piece, size_t rank, const ContractionPlan& plan,
                               const std::vector<size_t>& window_of_load,
                               const std::vector<LocalTensor>& windows, TensorId result) const {
  Piece mine = piece;
  bool none = false;
  for (const IndexRange& range : ranges_of(piece, plan.cuts, rank, none)) {
    auto at = std::find(piece.iterators.begin(), piece.iterators.end(), range.name);
    auto iterator = static_cast<size_t>(at - piece.iterators.begin());
    mine.constraints.push_back({iterator_affine(iterator), range.lo, range.hi, true});
  }
  auto move = [](Access& access, const Box& box) {
    for (size_t d = 0; d < access.index.size(); ++d) {
      Index& index = access.index[d];
      if (index.value < 0) index.affine = index.affine - constant_affine(box.lo[d]);
    }
  };
  for (Access& store : mine.stores) {
    store.tensor = result;
    move(store, plan.boxes[rank]);
  }
  for (size_t l = 0; l < mine.loads.size(); ++l) {
    const LocalTensor& window = windows[window_of_load[l]];
    const Box& box = window.boxes[rank];
    const Shape& shape = at(piece.loads[l].tensor).shape;
    for (size_t d = 0; d < shape.size(); ++d) {
      const Index& index = piece.loads[l].index[d];
      bool beyond = box.lo[d] < 0 || box.hi[d] > shape[d];
      if (!beyond || index.value >= 0 || index.boundary != Boundary::in_range) continue;
      mine.constraints.push_back({index.affine, 0, shape[d], true});
    }
    mine.loads[l].tensor = window.id;
    move(mine.loads[l], box);
  }
  return mine;
}

}  // namespace tile
