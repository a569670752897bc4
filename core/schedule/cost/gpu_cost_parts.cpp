#include "core/schedule/cost/gpu_cost_parts.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/ir/operation_cost.h"

namespace tile::gpu {
namespace {

constexpr double kFoldInstructions = 64;  // of a fold whose rounds are not counted: an estimate

}  // namespace

Work work_of(const Piece& piece) {
  Work w;
  for (size_t u = 0; u < piece.box.size(); ++u) {
    auto extent = static_cast<double>(std::max<int64_t>(piece.box[u], 1));
    (u < piece.parallel_dims ? w.cells : w.terms) *= extent;
  }
  w.points = w.cells * w.terms;
  for (const Node& node : piece.body.nodes) {
    if (node.kind == NodeKind::load) w.operations += kLoadInstructions;
    if (node.kind == NodeKind::fold) w.operations += kFoldInstructions;
    if (node.kind != NodeKind::operation) continue;
    w.operations += cost_of(node.op).instructions;
  }
  return w;
}

double element_bytes(const Access& a, const Kernel& kernel) {
  return static_cast<double>(byte_size(kernel.tensors[a.tensor].type));
}

double traffic(const Piece& piece, const Kernel& kernel, const FlatIndex& fastest,
               const Work& work) {
  struct Covered {
    double elements = 0, waste = 1;
  };
  std::map<TensorId, Covered> tensors;
  auto add = [&](const Access& a, double points) {
    const Shape& shape = kernel.tensors[a.tensor].shape;
    auto most = static_cast<double>(std::max<int64_t>(element_count(shape), 1));
    Covered& covered = tensors[a.tensor];
    covered.elements = std::min(covered.elements + points, most);
    if (fastest.iterators.empty() || fastest.fastest <= 1) return;
    int64_t stride = std::abs(stride_of(a, fastest.iterators.back(), kernel));
    if (stride == 0 || stride == 1) return;
    double waste = std::min(kSectorBytes / element_bytes(a, kernel), static_cast<double>(stride));
    covered.waste = std::max(covered.waste, waste);
  };
  for (const Access& a : piece.loads) add(a, work.points);
  for (const Access& a : piece.stores) add(a, work.cells);
  double bytes = 0;
  for (const auto& [id, covered] : tensors) {
    auto size = static_cast<double>(byte_size(kernel.tensors[id].type));
    bytes += covered.elements * size * covered.waste;
  }
  return bytes;
}

double dram_ns(double bytes, const Target& t) {
  return bytes / (kMemoryShare * t.dram_bytes_per_ns * t.gpu.multiprocessors);
}

void add_bounds(CostTerm& into, CostTerm bounds, double factor) {
  std::vector<std::pair<std::string, double>> facts = std::move(bounds.facts);
  into.add(combine("the slowest", Combine::largest, factor, std::move(bounds.parts)));
  into.parts.back().facts = std::move(facts);
}

Issue issue_ns(const Threads& threads, const Work& work, const Target& t, CostTerm* bounds) {
  double resident = t.gpu.multiprocessors * static_cast<double>(t.gpu.threads_per_multiprocessor);
  double waves = std::max(1.0, std::ceil(threads.count / resident));
  double lanes = t.gpu.multiprocessors * t.fma_per_ns;  // instructions per ns
  Issue issue;
  issue.instructions = threads.count * threads.each * work.operations / lanes;
  issue.latency = waves * t.gpu.memory_latency_ns * (1 + threads.waits);
  if (bounds != nullptr) {
    bounds->add("instructions", issue.instructions);
    bounds->add("waves of threads that wait", issue.latency);
    bounds->facts.insert(
        bounds->facts.end(),
        {{"threads", threads.count}, {"points of a thread", threads.each}, {"waves", waves}});
  }
  return issue;
}

}  // namespace tile::gpu
