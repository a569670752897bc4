// The analytic model of GPU schedules: the slowest of issue, latency, L2 and memory, and launches.
#include "core/schedule/cost/gpu_model.h"

#include <algorithm>
#include <cmath>

#include "core/kernel/forms/gpu_forms.h"
#include "core/kernel/forms/scan.h"
#include "core/schedule/cost/gpu_cost_parts.h"
#include "core/schedule/cost/tensor_core_gemm_rank.h"

namespace tile::gpu {
namespace {

// [H200]: gpu_model.h. [guide]: CUDA C++ Programming Guide.
constexpr double kCopySlack = 1.1;            // [H200] more time of scans and transpositions
constexpr double kShortestNanoseconds = 300;  // [H200] of one, beside an access to memory
constexpr double kLevelNanoseconds = 100;     // [H200] of two levels of the scan of a block's lanes
constexpr double kIssueBeside = 0.1;          // [H200] of a scan's instructions, what nothing hides
constexpr double kNotComputed = 1e18;         // ns of what the form cannot compute

// Nanoseconds of all bytes once, each.
double once_ns(const Piece& piece, const Kernel& kernel, const Target& target) {
  Work work = work_of(piece);
  double bytes = work.cells * element_bytes(piece.stores[0], kernel);
  for (const Access& a : piece.loads) {
    const Shape& shape = kernel.tensors[a.tensor].shape;
    bytes += static_cast<double>(element_count(shape)) * element_bytes(a, kernel);
  }
  return kCopySlack * dram_ns(bytes, target);
}

double transpose_ns(const Piece& piece, const Kernel& kernel, const Target& target,
                    CostTerm* into) {
  double memory = once_ns(piece, kernel, target);
  double latency = target.gpu.memory_latency_ns + kShortestNanoseconds;
  if (into != nullptr) {
    CostTerm bounds;
    bounds.parts = {cost_leaf("memory", memory), cost_leaf("latency", latency)};
    add_bounds(*into, std::move(bounds), 1);
    into->add("launch", target.gpu.launch_ns);
  }
  return std::max(memory, latency) + target.gpu.launch_ns;
}

// A turn waits for the loads that the turn before it began, and for each level of the scan of its
// lanes. Registers of a thread and instructions of a turn, for each cell and each level: counted in
// the code that is printed.
double scan_ns(const GpuScan& g, const Piece& piece, const Contraction& c, const Kernel& kernel,
               const Target& target, CostTerm* into) {
  double line = static_cast<double>(piece.box[scan_form(piece, c)->parallel_dim]);
  auto lanes = static_cast<double>(g.lanes), each = static_cast<double>(g.vector);
  double turns = std::ceil(line / (lanes * each));
  double cells = 1;
  for (size_t u = 0; u < piece.parallel_dims; ++u) cells *= static_cast<double>(piece.box[u]);
  double lines = cells / line, levels = std::log2(lanes) / 2;
  double threads = std::min<double>(target.gpu.threads_per_multiprocessor,
                                    target.gpu.registers_per_multiprocessor / (30 + 2.5 * each));
  double resident = std::clamp(std::floor(threads / lanes), 1.0,
                               static_cast<double>(target.gpu.blocks_per_multiprocessor));
  double waves = std::ceil(lines / (resident * target.gpu.multiprocessors));
  double steps = 8 * each + levels * (2 * each + 40);
  double issue = lines * turns * lanes * steps / (target.gpu.multiprocessors * target.fma_per_ns);
  // The next turn's terms come during a turn's scan and stores; the first ones are waited for.
  double wait = target.gpu.memory_latency_ns;
  double turn = std::max(2 * wait, wait + kLevelNanoseconds * levels);
  double latency = waves * (turns * turn + wait);
  double moving = transpose_ns(piece, kernel, target, nullptr);
  if (into != nullptr) {
    CostTerm bounds;
    bounds.parts = {cost_leaf("memory, with the launch", moving), cost_leaf("instructions", issue),
                    cost_leaf("waves of turns that wait", latency)};
    bounds.facts = {{"blocks", lines}, {"resident", resident}, {"waves", waves}, {"turns", turns}};
    add_bounds(*into, std::move(bounds), 1);
    into->add("instructions that nothing hides", kIssueBeside * issue);
  }
  return std::max({moving, issue, latency}) + kIssueBeside * issue;
}

// Nanoseconds of a piece by its form, or by its loops without one.
struct FormCost {
  const PieceSchedule& schedule;
  const Piece& piece;
  const Contraction& c;
  const Kernel& kernel;
  const Target& target;
  CostTerm* into;

  double operator()(const std::monostate&) const {
    return loops_ns(schedule, piece, kernel, target, into);
  }
  double operator()(const GpuReduction& g) const {
    return reduction_ns(g, piece, kernel, target, into);
  }
  double operator()(const SimtGemm& g) const {
    return simt_gemm_ns(g, piece, c, kernel, target, into);
  }
  double operator()(const GpuScan& g) const { return scan_ns(g, piece, c, kernel, target, into); }
  double operator()(const GpuTranspose&) const { return transpose_ns(piece, kernel, target, into); }
  double operator()(const TensorCoreGemm& g) const {
    std::optional<tensor_cores::Product> product =
        tensor_cores::product_of(piece, c, kernel, target, argument_layouts(kernel));
    if (!product) return kNotComputed;
    return tensor_cores::estimate_gemm(g, *product, piece, kernel, target, into);
  }
};

}  // namespace

double estimate_piece(const PieceSchedule& s, const Piece& piece, const Contraction& c,
                      const Kernel& kernel, const Target& target, CostTerm* into) {
  double ns = std::visit(FormCost{s, piece, c, kernel, target, into}, s.gpu_form);
  if (into != nullptr) into->ns = ns;
  return ns;
}

}  // namespace tile::gpu
