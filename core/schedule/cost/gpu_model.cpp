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
constexpr double kReducing = 1.8;  // [H200] likewise, of a thread whose sums depend on each other
constexpr double kSchedulerLanes = 128;  // [guide] a warp of 32 for each of 4 schedulers
constexpr double kStepPoints = 1.4;      // [H200] of a product's depth: what a step's barriers cost
constexpr double kIssueClock = 1.08;     // [H200] of the issue rate, beyond the data sheet's clock
constexpr double kWaitingThreads = 384;  // [H200] that hide memory's latency in a multiprocessor
constexpr double kCombineNanoseconds = 1000;  // [H200] of a launch with few cells to share
constexpr double kCopySlack = 1.1;            // [H200] more time of scans and transpositions
constexpr double kShortestNanoseconds = 300;  // [H200] of one, beside an access to memory
constexpr double kLevelNanoseconds = 100;     // [H200] of two levels of the scan of a block's lanes
constexpr double kIssueBeside = 0.1;          // [H200] of a scan's instructions, what nothing hides
constexpr double kNotComputed = 1e18;         // ns of what the form cannot compute
constexpr double kFewCells = 64;              // of a thread: blocks are small enough for two

// What is read and written beyond the elements, as a factor: where threads cover less than lines or
// take narrow accesses, or blocks are small. [H200]
double reduction_waste(const GpuReduction& g, double size) {
  double together =
      static_cast<double>((g.parallel_dims_fastest ? g.parallel_dims : g.lanes) * g.vector) * size;
  double waste = together < kSectorBytes ? 2
                 : together < kLineBytes ? 1.2 - 0.2 * together / kLineBytes
                                         : 1;
  if (static_cast<double>(g.vector) * size < kWideAccessBytes) waste *= 1.03;
  if (g.parallel_dims * g.lanes < 256) waste *= 1.02;
  return waste;
}

double reduction_ns(const GpuReduction& g, const Piece& piece, const Contraction& c,
                    const Kernel& kernel, const Target& target, CostTerm* into) {
  Work work = work_of(piece);
  double groups =
      std::ceil(work.cells / static_cast<double>(g.vector_parallel_dims ? g.vector : 1));
  double blocks =
      std::ceil(groups / static_cast<double>(g.parallel_dims)) * static_cast<double>(g.split);
  double threads = blocks * static_cast<double>(g.parallel_dims * g.lanes);
  double used = groups * static_cast<double>(g.lanes * g.split);
  double each = work.points / used / static_cast<double>(g.vector);
  FlatIndex fastest =
      g.parallel_dims_fastest ? flat_parallel_dims(piece, kernel) : flat_reductions(piece, kernel);
  double size = piece.loads.empty() ? 4 : element_bytes(piece.loads[0], kernel);
  CostTerm bounds;
  double issue = issue_ns({threads, std::max(each, 1.0), std::max(each, 1.0) / kInFlight}, work,
                          target, into == nullptr ? nullptr : &bounds)
                     .slowest();
  double memory = dram_ns(reduction_waste(g, size) * traffic(piece, kernel, fastest, work), target);
  double sums = target.gpu.memory_latency_ns * (1 + each / kReducing);
  double ns = std::max({issue, memory, sums}), cached = 0, tree = 0, parts_ns = 0;
  if (matrix_form(piece, c, kernel)) {  // a factor is read anew for each row of the other
    cached = work.points * size / (target.gpu.multiprocessors * target.l2_bytes_per_ns);
    ns = std::max(ns, cached);
  }
  if (g.lanes > 1) {
    double resident = target.gpu.multiprocessors *
                      std::max(1.0, target.gpu.threads_per_multiprocessor /
                                        static_cast<double>(g.parallel_dims * g.lanes));
    tree = target.gpu.tree_ns * std::max(1.0, blocks / resident);
    ns += tree;
  }
  if (g.split > 1) {  // the parts are written, and read by a launch with few cells to share
    double parts = static_cast<double>(g.split);
    parts_ns = target.gpu.launch_ns + kCombineNanoseconds + 4 * parts +
               8 * parts * work.cells / (target.l2_bytes_per_ns * target.gpu.multiprocessors);
    ns += parts_ns;
  }
  if (into != nullptr) {
    bounds.add("memory", memory);
    bounds.add("sums that wait for loads", sums);
    bounds.add("the second cache", cached);
    bounds.facts.emplace_back("blocks", blocks);
    add_bounds(*into, std::move(bounds), 1);
    into->add_if("combining lanes", tree);
    into->add_if("combining blocks in a second launch", parts_ns);
    into->add("launch", target.gpu.launch_ns);
  }
  return ns + target.gpu.launch_ns;
}

double operand_bytes(const Piece& piece, const Kernel& kernel) {
  double bytes = 0;
  for (const Access& a : piece.loads) {
    const Shape& shape = kernel.tensors[a.tensor].shape;
    bytes += static_cast<double>(element_count(shape)) * element_bytes(a, kernel);
  }
  return bytes;
}

// How a product's blocks occupy the multiprocessors.
struct Occupancy {
  double blocks = 1, threads = 1;  // of a block
  double cells = 1, edge = 1;      // of a thread, and what it reads for a term, in registers
  int copied = 0;                  // factors that pass no registers
  double resident = 1;             // blocks of a multiprocessor
  double each = 1;                 // on the busiest multiprocessor
  double active = 1;               // threads there at a time
};
Occupancy occupancy(const SimtGemm& g, const MatrixForm& f, const Piece& piece,
                    const Contraction& c, const Kernel& kernel, const Target& target) {
  auto tiles = [](int64_t count, int64_t tile) {
    return static_cast<double>(ceil_div(count, tile));
  };
  double bytes = static_cast<double>(byte_size(c.accumulator));
  Occupancy o;
  o.blocks =
      tiles(f.m.count, g.m) * tiles(f.n.count, g.n) * static_cast<double>(f.batch.count * g.split);
  o.threads = static_cast<double>((g.m / g.thread_m) * (g.n / g.thread_n));
  o.cells = static_cast<double>(g.thread_m * g.thread_n) * bytes / 4;
  o.edge = static_cast<double>(g.thread_m + g.thread_n) * bytes / 4;
  for (bool first : {true, false}) {
    o.copied += g.stages > 2 && copies_factor(first, f, piece, c, kernel, target) ? 1 : 0;
  }
  double registers =
      std::min(255.0, o.copied == 0 ? o.cells + 2 * o.edge + 48 : o.cells + o.edge + 36);
  double resident = std::min({target.gpu.threads_per_multiprocessor / o.threads,
                              target.gpu.registers_per_multiprocessor / (o.threads * registers),
                              static_cast<double>(target.gpu.shared_per_multiprocessor) /
                                  static_cast<double>(shared_bytes(g, c.accumulator))});
  o.resident = std::max(1.0, std::floor(resident));
  o.each = std::ceil(o.blocks / target.gpu.multiprocessors);
  o.active = std::min(o.each, o.resident) * o.threads;
  if (o.active <= kSchedulerLanes) o.copied = 0;  // a warp for each scheduler waits for its reads
  return o;
}

// Nanoseconds of the multiply-adds of the busiest multiprocessor, with barriers. Of the issue
// slots, those of products against those of reads and of moving tiles, fewer threads filling fewer:
// the figures are part of the fit of matrix_ns().
double multiplying_ns(const SimtGemm& g, const Occupancy& o, double depth, double bytes,
                      const Target& target) {
  double moving =
      o.copied == 0 ? 7 : (o.copied == 1 ? 3 : 1) + static_cast<double>(g.m + g.n) / o.threads;
  double issue =
      o.cells / (o.cells + 0.6 * o.edge + moving) * std::min(1.0, 0.72 + 0.28 * o.active / 288);
  issue *= std::min(1.0, o.active / kSchedulerLanes);
  double rate = kIssueClock * target.fma_per_ns * issue * (bytes > 4 ? 0.5 : 1);
  // Of what the threads wait at barriers for, what other blocks or terms that were read ahead hide.
  double waits = kStepPoints;
  if (o.copied > 0 && !g.ahead && o.cells <= kFewCells) waits *= 0.5;
  if (o.copied == 2 && g.ahead) waits *= 0.2;
  double barrier = 1 + waits / static_cast<double>(g.k);
  double turns =
      o.each <= o.resident ? o.each : (o.each + o.blocks / target.gpu.multiprocessors) / 2;
  return barrier * turns * static_cast<double>(g.m * g.n) * depth / rate;
}

// Fitted to products of f32 between 512^3 and 4096^3, square and skinny, on an H200.
double matrix_ns(const SimtGemm& g, const Piece& piece, const Contraction& c, const Kernel& kernel,
                 const Target& target, CostTerm* into) {
  MatrixForm f = *matrix_form(piece, c, kernel);
  double bytes = static_cast<double>(byte_size(c.accumulator)), sms = target.gpu.multiprocessors;
  Occupancy o = occupancy(g, f, piece, c, kernel, target);
  double steps =
      std::ceil(static_cast<double>(ceil_div(f.k.count, g.k)) / static_cast<double>(g.split));
  double depth = steps * static_cast<double>(g.k);
  double multiplying = multiplying_ns(g, o, depth, bytes, target), compute = multiplying;
  // Nobody computes while the first and last tiles of a block alone move.
  double alone = o.resident < 2 ? o.each * target.gpu.block_start_ns : 0;
  compute += alone;
  double latency = std::ceil(o.each / o.resident) *
                   (steps * target.gpu.cached_step_ns + 2 * target.gpu.memory_latency_ns);
  double l2 =
      o.blocks * static_cast<double>(g.m + g.n) * depth * bytes / (sms * target.l2_bytes_per_ns);
  double ns = std::max({compute, latency, l2}) + target.gpu.launch_ns, late = 0, parts_ns = 0;
  // What does not stay in the cache comes late where few threads wait for it.
  double once = operand_bytes(piece, kernel);
  if (once > static_cast<double>(target.l2_bytes)) {
    double waiting = std::min(o.each, o.resident) * o.threads;
    late = dram_ns(once, target) * std::clamp(kWaitingThreads / waiting, 1.0, 3.0);
    ns += late;
  }
  if (g.split > 1) {
    // All blocks write their parts at the same time, and the second launch reads them.
    double parts = static_cast<double>(f.m.count * f.n.count * f.batch.count * g.split) * bytes;
    parts_ns = 4 * parts / (sms * target.l2_bytes_per_ns);
    ns = ns + target.gpu.launch_ns + parts_ns;
  }
  if (into == nullptr) return ns;
  CostTerm computing =
      combine("computing", Combine::sum, 1, {cost_leaf("multiply-adds and barriers", multiplying)});
  computing.add_if("blocks alone on a multiprocessor", alone);
  computing.ns = compute;
  CostTerm bounds;
  bounds.parts = {std::move(computing), cost_leaf("waves of steps that wait", latency),
                  cost_leaf("the second cache", l2)};
  bounds.facts = {{"blocks", o.blocks},
                  {"resident", o.resident},
                  {"waves", std::ceil(o.each / o.resident)},
                  {"active threads", o.active}};
  add_bounds(*into, std::move(bounds), 1);
  into->add_if("operands that leave the cache", late);
  into->add("launch", target.gpu.launch_ns);
  if (g.split > 1)
    into->add("combining blocks in a second launch", target.gpu.launch_ns + parts_ns);
  return ns;
}

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
    return reduction_ns(g, piece, c, kernel, target, into);
  }
  double operator()(const SimtGemm& g) const {
    return matrix_ns(g, piece, c, kernel, target, into);
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
