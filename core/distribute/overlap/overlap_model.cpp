#include "core/distribute/overlap/overlap_model.h"

#include <algorithm>
#include <map>

#include "core/distribute/choice/way_costs.h"

namespace tile {
namespace {

// [measured] Figures of eight steps of a stencil of five points on 32x32 to 3072x3072 cells, and of
// six steps of one of seven points on 16x16x16 to 160x160x160, on two ranks of one thread each over
// Open MPI 4.1.4 (EPYC, two cores with 1 MiB of second cache each).
//
// To give an exchange to another thread and to take its end, in ns.
constexpr double kHandOver = 20'000;
// To start one more kernel of a few cells, in ns.
constexpr double kKernel = 1'000;
// To begin one more row of cells that lie side by side, in ns: of a copy, and of a kernel.
constexpr double kCopiedRow = 4, kComputedRow = 10;
// What is so small, in bytes, is copied within the caches, so many times as fast as in memory.
constexpr double kCached = 4 << 20, kCachedSpeed = 4;

// Rows of cells that lie side by side in a tensor of this shape.
double rows_of(const Box& box, const Shape& shape) {
  double rows = 1;
  size_t d = box.dims();
  while (d > 0 && box.lo[d - 1] == 0 && box.hi[d - 1] == shape[d - 1]) --d;
  for (size_t outer = 0; outer + 1 < d; ++outer) {
    rows *= static_cast<double>(box.hi[outer] - box.lo[outer]);
  }
  return rows;
}

double bytes_in(const Box& box, DType type) {
  return static_cast<double>(box.count()) * static_cast<double>(byte_size(type));
}

}  // namespace

double OverlapModel::exchange_ns(const Exchange& what, DType type) const {
  double ns = 0;
  for (const auto* parts : {&what.sends, &what.receives}) {
    std::map<int64_t, double> bytes;  // by the other rank
    for (const Exchange::Part& part : *parts) {
      if (part.rank != static_cast<int64_t>(rank_)) bytes[part.rank] += bytes_in(part.box, type);
    }
    double one_way = 0;
    for (const auto& [other, count] : bytes) {
      Link link = options_.links.between(mesh_, rank_, static_cast<size_t>(other));
      one_way += link.latency_ns + count / link.bytes_per_ns;
    }
    ns = std::max(ns, one_way);
  }
  return ns;
}

double OverlapModel::compute_ns(const BoundProgram& program, const Contraction& c) const {
  const BoundTensor& result = program.tensors[c.outputs[0]];
  double work = 0;
  std::map<TensorId, double> cells;
  for (const Piece& piece : c.pieces) {
    PieceNeeds needs = needs_of(program, piece, whole_box(result.shape), {});
    if (needs.empty) continue;
    work += needs.points * work_of_point(c, piece);
    for (size_t l = 0; l < needs.loads.size(); ++l) {
      double& most = cells[piece.loads[l].tensor];
      most = std::max(most, static_cast<double>(needs.loads[l].box.count()));
    }
  }
  double bytes = static_cast<double>(element_count(result.shape)) *
                 static_cast<double>(byte_size(result.type));
  for (const auto& [id, count] : cells) {
    bytes += count * static_cast<double>(byte_size(program.tensors[id].type));
  }
  const RankRates& rates = options_.rates;
  return std::max(work / rates.multiply_adds_per_ns, bytes / rates.bytes_per_ns);
}

double OverlapModel::inner_ns(const BoundProgram& program, const DividedContraction& parts) const {
  const Shape& shape = program.tensors[parts.what.outputs[0]].shape;
  return compute_ns(program, parts.what) * static_cast<double>(parts.inner.count()) /
         static_cast<double>(element_count(shape));
}

// Read and written once.
double OverlapModel::copy_ns(const Box& box, const BoundTensor& tensor) const {
  double bytes = bytes_in(box, tensor.type);
  double speed = options_.rates.bytes_per_ns * (bytes < kCached ? kCachedSpeed : 1);
  return 2 * bytes / speed + rows_of(box, tensor.shape) * kCopiedRow;
}

// That what the rank has is not copied to the exchange's result.
double OverlapModel::saved_ns(const BoundProgram& program, const Exchange& what) const {
  const BoundTensor& result = program.tensors[what.result];
  double ns = 0;
  for (const Exchange::Part& part : what.receives) {
    if (part.rank == static_cast<int64_t>(rank_)) ns += copy_ns(part.box, result);
  }
  return ns;
}

// What an edge takes more than its share of the whole, and what is copied for it.
double OverlapModel::edge_ns(const BoundProgram& program, const DividedContraction& parts,
                             const Box& edge) const {
  const Contraction& c = parts.what;
  double ns = kKernel + rows_of(edge, program.tensors[c.outputs[0]].shape) * kComputedRow;
  for (const Exchange* exchange : parts.exchanges) {
    const BoundTensor& result = program.tensors[exchange->result];
    Box read{std::vector<int64_t>(result.shape.size(), 0),
             std::vector<int64_t>(result.shape.size(), 0)};
    for (const Piece& piece : c.pieces) {
      PieceNeeds needs = needs_of(program, piece, edge, {});
      for (size_t l = 0; l < needs.loads.size() && !needs.empty; ++l) {
        if (piece.loads[l].tensor == exchange->result) read = hull(read, needs.loads[l].box);
      }
    }
    for (const Exchange::Part& part : exchange->receives) {
      if (part.rank != static_cast<int64_t>(rank_)) continue;
      Box copied = intersection(part.box, read);
      if (!copied.empty()) ns += copy_ns(copied, result);
    }
  }
  return ns;
}

bool OverlapModel::is_worth_a_thread(double hidden) const { return hidden > kHandOver; }

bool OverlapModel::is_worth(const BoundProgram& program, const DividedContraction& parts,
                            double hidden) const {
  double saved = std::max(hidden - kHandOver, 0.0), spent = 0;
  for (const Exchange* exchange : parts.exchanges) saved += saved_ns(program, *exchange);
  for (const Box& edge : parts.edges) spent += edge_ns(program, parts, edge);
  return saved > spent;
}

}  // namespace tile
