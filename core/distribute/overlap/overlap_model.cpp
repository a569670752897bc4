#include "core/distribute/overlap/overlap_model.h"

#include <algorithm>
#include <map>

#include "core/distribute/choice/way_costs.h"

namespace tile {
namespace {

// What overlap costs beside bytes and operations.
struct Costs {
  double hand_over;     // to begin an exchange beside something and to take its end, in ns
  double kernel;        // to start one more kernel of a few cells, in ns
  double copied_row;    // to begin one more row of cells that lie side by side, in ns: of a copy,
  double computed_row;  // and of a kernel
  double cached;        // what is so small, in bytes, is copied within the caches,
  double cached_speed;  // so many times as fast as in memory
  double strided;       // how often cells that a kernel sets with strides are moved once more
};
// [measured] Figures of eight steps of a stencil of five points on 32x32 to 3072x3072 cells, and of
// six steps of one of seven points on 16x16x16 to 160x160x160, on two ranks of one thread each over
// Open MPI 4.1.4 (EPYC, two cores with 1 MiB of second cache each). There another thread makes the
// exchange.
constexpr Costs kOnCpu{20'000, 1'000, 4, 10, 4 << 20, 4, 0};
// [guide] Of GPUs: events on both streams, and a kernel's start behind another one with its last
// wave, take some microseconds. Kernels of GPUs do not write with strides: their results are
// copied.
constexpr Costs kOnGpu{3'000, 4'000, 0, 0, 32 << 20, 2, 2};

const Costs& costs_of(const OverlapOptions& options) { return options.on_device ? kOnGpu : kOnCpu; }

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
  double ns = 0;
  std::map<TensorId, double> cells;
  for (const Piece& piece : c.pieces) {
    PieceNeeds needs = needs_of(program, piece, whole_box(result.shape), {});
    if (needs.empty) continue;
    ns += needs.points * point_ns(program, c, piece, options_.rates);
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
  return std::max(ns, bytes / options_.rates.bytes_per_ns);
}

double OverlapModel::inner_ns(const BoundProgram& program, const DividedContraction& parts) const {
  const Shape& shape = program.tensors[parts.what.outputs[0]].shape;
  return compute_ns(program, parts.what) * static_cast<double>(parts.inner.count()) /
         static_cast<double>(element_count(shape));
}

// Read and written once.
double OverlapModel::copy_ns(const Box& box, const BoundTensor& tensor) const {
  double bytes = bytes_in(box, tensor.type);
  const Costs& costs = costs_of(options_);
  double speed = options_.rates.bytes_per_ns * (bytes < costs.cached ? costs.cached_speed : 1);
  return 2 * bytes / speed + rows_of(box, tensor.shape) * costs.copied_row;
}

double OverlapModel::own_copy_ns(const BoundProgram& program, const Exchange& what) const {
  const BoundTensor& result = program.tensors[what.result];
  double ns = 0;
  for (const Exchange::Part& part : what.receives) {
    if (part.rank == static_cast<int64_t>(rank_)) ns += copy_ns(part.box, result);
  }
  return ns;
}

double OverlapModel::strided_ns(const BoundTensor& result, const Box& box,
                                const Shape& whole) const {
  if (rows_of(box, whole) <= 1) return 0;
  return costs_of(options_).strided * bytes_in(box, result.type) / options_.rates.bytes_per_ns;
}

double OverlapModel::part_overhead_ns(const BoundTensor& result, const Box& box,
                                      const Shape& whole) const {
  const Costs& costs = costs_of(options_);
  return costs.kernel + rows_of(box, whole) * costs.computed_row + strided_ns(result, box, whole);
}

double OverlapModel::whole_ns(const BoundProgram& program, const Contraction& c) const {
  return compute_ns(program, c) + costs_of(options_).kernel;
}

double OverlapModel::part_ns(const BoundProgram& program, const Contraction& part, const Box& box,
                             const Shape& whole) const {
  return compute_ns(program, part) + part_overhead_ns(program.tensors[part.outputs[0]], box, whole);
}

double OverlapModel::gather_ns(const PieceTimes& times) const {
  double hand_over = costs_of(options_).hand_over, arrived = 0;
  double ns = static_cast<double>(times.exchange_ns.size()) * hand_over + times.own_ns;
  for (size_t k = 0; k < times.exchange_ns.size(); ++k) {
    arrived += times.exchange_ns[k];
    ns = std::max(ns, arrived + hand_over) + times.computed_ns[k];
  }
  return ns;
}

double OverlapModel::scatter_ns(const PieceTimes& times) const {
  double hand_over = costs_of(options_).hand_over, ns = 0, sent = 0;
  for (size_t k = 0; k < times.exchange_ns.size(); ++k) {
    ns += times.computed_ns[k] + hand_over;
    sent = std::max(sent, ns) + times.exchange_ns[k];
  }
  return std::max(ns + times.own_ns, sent);
}

// What an edge takes more than its share of the whole, and what is copied for it.
double OverlapModel::edge_ns(const BoundProgram& program, const DividedContraction& parts,
                             const Box& edge) const {
  const Contraction& c = parts.what;
  double ns =
      part_overhead_ns(program.tensors[c.outputs[0]], edge, program.tensors[c.outputs[0]].shape);
  for (const Exchange* exchange : parts.exchanges) {
    const BoundTensor& result = program.tensors[exchange->result];
    Box read{std::vector<int64_t>(result.shape.size(), 0),
             std::vector<int64_t>(result.shape.size(), 0)};
    for (const Piece& piece : c.pieces) {
      PieceNeeds needs = needs_of(program, piece, edge, {});
      for (size_t l = 0; l < needs.loads.size() && !needs.empty; ++l) {
        if (piece.loads[l].tensor != exchange->result) continue;
        auto known = parts.arrived.find(exchange->result);
        bool is_there = known != parts.arrived.end() &&
                        has_arrived(program, exchange->result, needs.loads[l], known->second);
        if (!is_there) read = hull(read, needs.loads[l].box);
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

bool OverlapModel::is_worth_a_thread(double hidden) const {
  return hidden > costs_of(options_).hand_over;
}

bool OverlapModel::is_worth(const BoundProgram& program, const DividedContraction& parts,
                            double hidden) const {
  double saved = std::max(hidden - costs_of(options_).hand_over, 0.0), spent = 0;
  for (const Exchange* exchange : parts.exchanges) saved += own_copy_ns(program, *exchange);
  for (const Box& edge : parts.edges) spent += edge_ns(program, parts, edge);
  const BoundTensor& result = program.tensors[parts.what.outputs[0]];
  spent += strided_ns(result, parts.inner, result.shape);
  return saved > spent;
}

}  // namespace tile
