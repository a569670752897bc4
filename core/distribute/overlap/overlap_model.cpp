#include "core/distribute/overlap/overlap_model.h"

#include <algorithm>
#include <map>

#include "core/distribute/choice/way_costs.h"

namespace tile {
namespace {

// To give an exchange to another thread and to take its end, in ns.
constexpr double kHandOver = 20'000;
// [guide] To start one more kernel of a few cells on a processor, in ns.
constexpr double kKernel = 2'000;
// [guide] A border is computed in short rows: how many times its share of the whole.
constexpr double kShortRows = 2;

}  // namespace

double OverlapModel::exchange_ns(const Exchange& what, DType type) const {
  double ns = 0;
  for (const auto* parts : {&what.sends, &what.receives}) {
    std::map<int64_t, double> bytes;  // by the other rank
    for (const Exchange::Part& part : *parts) {
      auto all = static_cast<double>(part.box.count()) * static_cast<double>(byte_size(type));
      if (part.rank != static_cast<int64_t>(rank_)) bytes[part.rank] += all;
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

// Read and written once.
double OverlapModel::copy_ns(const Box& box, DType type) const {
  double bytes = static_cast<double>(box.count()) * static_cast<double>(byte_size(type));
  return 2 * bytes / options_.rates.bytes_per_ns;
}

bool OverlapModel::is_worth_a_thread(double beside_ns) const { return beside_ns > kHandOver; }

bool OverlapModel::is_worth(double hidden, double copied, double edge, size_t kernels) const {
  double cost = kHandOver + static_cast<double>(kernels) * kKernel + (kShortRows - 1) * edge;
  return std::max(hidden, 0.0) + copied > cost;
}

}  // namespace tile
