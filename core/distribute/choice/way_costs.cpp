#include "core/distribute/choice/way_costs.h"

#include <algorithm>
#include <map>

#include "core/distribute/windows.h"
#include "core/ir/analysis/matrix_types.h"
#include "core/ir/operation_cost.h"
#include "core/support/control.h"

namespace tile {
namespace {

// In multiply-adds, as which sums of products count.
double work_of_point(const Contraction& c, const Piece& piece) {
  Body body = tidied(piece.body);
  double work = 0;
  for (const Node& node : body.nodes) {
    bool free = node.kind != NodeKind::operation || node.op == Op::cast ||
                node.op == Op::cast_like || node.op == Op::ident;
    if (!free) work += cost_of(node.op).cycles / cost_of(Op::fma).cycles;
  }
  const Node& last = body.nodes[body.results[0]];
  bool product = last.kind == NodeKind::operation && last.op == Op::mul;
  bool aggregates = c.aggregation != Aggregation::assign;
  bool fused = product && c.aggregation == Aggregation::sum;
  return work + (aggregates && !fused ? 1 : 0);
}

// Of the units for products of such factors; 0: none.
double rate_of_products(const BoundProgram& program, const Contraction& c, const Piece& piece,
                        const RankRates& rates) {
  if (c.aggregation != Aggregation::sum || piece.loads.size() != 2) return 0;
  DType a = program.tensors[piece.loads[0].tensor].type;
  DType b = program.tensors[piece.loads[1].tensor].type;
  if (!tensor_cores_multiply(a, b, c.accumulator)) return 0;
  return rates.products_per_ns[static_cast<size_t>(a)];
}

}  // namespace

double point_ns(const BoundProgram& program, const Contraction& c, const Piece& piece,
                const RankRates& rates) {
  double products = rate_of_products(program, c, piece, rates);
  return work_of_point(c, piece) / std::max(products, rates.multiply_adds_per_ns);
}

WayCosts::WayCosts(const BoundProgram& program, const Contraction& c, const Mesh& mesh,
                   const RankRates& rates)
    : program_(program), c_(c), mesh_(mesh), rates_(rates) {
  for (const Piece& piece : c.pieces) {
    pieces_.push_back(
        {std::make_unique<PieceImages>(program, piece), point_ns(program, c, piece, rates)});
  }
}

std::vector<IndexRange> WayCosts::ranges_of(const Piece& piece, const Way& way, size_t rank,
                                            bool& none) const {
  std::vector<IndexRange> ranges;
  for (const ReductionCut& cut : way.cuts) {
    size_t part = part_of(mesh_, cut.parts.axes, rank);
    bool has = std::find(piece.iterators.begin(), piece.iterators.end(), cut.index) !=
               piece.iterators.end();
    if (has) ranges.push_back({cut.index, cut.parts.starts[part], cut.parts.starts[part + 1]});
    none = none || (!has && part != 0);
  }
  return ranges;
}

std::vector<std::vector<PieceNeeds>> WayCosts::needs_of_ranks(const Way& way,
                                                              const std::vector<Box>& boxes) const {
  std::vector<std::vector<PieceNeeds>> needs(boxes.size());
  std::map<std::vector<size_t>, size_t> like;  // ranks with the same part need the same
  for (size_t r = 0; r < boxes.size(); ++r) {
    std::vector<size_t> part;
    for (const DimLayout& dim : way.computed.dims) part.push_back(part_of(mesh_, dim.axes, r));
    for (const ReductionCut& cut : way.cuts) part.push_back(part_of(mesh_, cut.parts.axes, r));
    auto [same, fresh] = like.emplace(std::move(part), r);
    if (!fresh) {
      needs[r] = needs[same->second];
      continue;
    }
    for (size_t p = 0; p < pieces_.size(); ++p) {
      bool none = false;
      std::vector<IndexRange> ranges = ranges_of(c_.pieces[p], way, r, none);
      needs[r].push_back(none ? PieceNeeds{true, {}, 0} : pieces_[p].images->of(boxes[r], ranges));
    }
  }
  return needs;
}

void WayCosts::read(Computed& into, std::vector<double>& bytes,
                    const std::vector<std::vector<PieceNeeds>>& needs) const {
  for (const Window& window : windows_of(c_, needs, program_.tensors).all) {
    NeededCells cells(bytes.size());
    const BoundTensor& tensor = program_.tensors[window.tensor];
    auto width = static_cast<double>(byte_size(tensor.type));
    for (size_t r = 0; r < bytes.size(); ++r) {
      for (const Box& box : window.needed[r]) {
        bytes[r] += static_cast<double>(box.count()) * width;
        for (NeedPart& part : unwrapped(box, tensor.shape)) {
          cells[r].push_back(std::move(part.cells));
        }
      }
    }
    into.windows.emplace_back(window.tensor, std::move(cells));
  }
}

WayCosts::Computed WayCosts::of(const Way& way) const {
  checkpoint();
  const BoundTensor& result = program_.tensors[c_.outputs[0]];
  std::vector<Box> boxes = boxes_of(way.computed, result.shape, mesh_);
  std::vector<std::vector<PieceNeeds>> needs = needs_of_ranks(way, boxes);
  std::vector<double> bytes;
  for (const Box& box : boxes) {
    bytes.push_back(static_cast<double>(box.count()) * static_cast<double>(byte_size(result.type)));
  }
  Computed computed;
  read(computed, bytes, needs);
  for (size_t r = 0; r < boxes.size(); ++r) {
    double ns = 0;
    for (size_t p = 0; p < pieces_.size(); ++p) ns += needs[r][p].points * pieces_[p].point_ns;
    computed.most_bytes = std::max(computed.most_bytes, bytes[r]);
    computed.ns = std::max({computed.ns, ns, bytes[r] / rates_.bytes_per_ns});
  }
  return computed;
}

}  // namespace tile
