// The model of products whose tiles pass through shared memory to the registers of threads.
#include <algorithm>
#include <cmath>

#include "core/schedule/cost/gpu_cost_parts.h"

namespace tile::gpu {
namespace {

// [H200]: gpu_model.h; fitted to the schedules that two studies of f32 measured (bench/studies).
constexpr double kIssueClock = 1.08;     // of the issue rate, beyond the data sheet's clock
constexpr double kWaitingThreads = 384;  // that hide memory's latency in a multiprocessor
constexpr double kSchedulerLanes = 128;  // a warp of 32 for each of 4 schedulers (CUDA guide)
// Instructions of a thread: for reading four neighbours in shared memory, whose port serves one of
// the four schedulers at a time; for a step beside its products; for moving four neighbours or one
// element through registers, or by an asynchronous copy; more for each further iterator of the rows
// and for each condition that is tested.
constexpr double kSharedRead = 4, kStepInstructions = 5;
constexpr double kMovedFour = 8, kMovedOne = 9.8, kCopiedFour = 6, kCopiedOne = 43;
constexpr double kDecoded = 9.1, kTested = 4;
constexpr double kTransposed = 1.4;  // times as many where neighbours are terms, not cells
// Nanoseconds of a step that nothing hides: of its barrier and first reads; where both factors are
// copied ahead; of each element that moves alone.
constexpr double kStepWait = 360, kCopiedStepWait = 230, kElementWait = 18;
// More instructions where a thread has so many cells that few registers are left.
constexpr double kManyCells = 64, kCrowded = 1.06;
constexpr double kCellNanoseconds = 0.067;    // of storing a cell, one after the other
constexpr double kStartNanoseconds = 500;     // beside the launch
constexpr double kCombineNanoseconds = 1900;  // of the second launch
constexpr double kPartBytes = 2030;           // of parts that are written and read in a nanosecond

double operand_bytes(const Piece& piece, const Kernel& kernel) {
  double bytes = 0;
  for (const Access& a : piece.loads) {
    const Shape& shape = kernel.tensors[a.tensor].shape;
    bytes += static_cast<double>(element_count(shape)) * element_bytes(a, kernel);
  }
  return bytes;
}

// What a thread does to move its part of a factor's tile in a step.
struct Moving {
  double instructions = 0, alone = 0;  // `alone`: elements that no neighbours come with
  bool copied = false;                 // they pass no registers
};
Moving moving(bool first, const SimtGemm& g, const MatrixForm& f, const Piece& piece,
              const Contraction& c, const Kernel& kernel, const Target& target) {
  bool along = first ? f.x_along_k : f.y_along_k;
  const FlatIndex& rows = first ? f.m : f.n;
  const FlatIndex& near = along ? f.k : rows;
  bool four = near.fastest % 4 == 0;
  auto threads = static_cast<double>((g.m / g.thread_m) * (g.n / g.thread_n));
  double count = static_cast<double>((first ? g.m : g.n) * g.k) / (four ? 4 : 1) / threads;
  auto more = std::count_if(rows.iterators.begin(), rows.iterators.end(),
                            [&](size_t u) { return piece.box[u] > 1; });
  size_t tests = (first ? f.x_conditions : f.y_conditions).size();
  Moving m;
  m.copied = g.stages > 2 && copies_factor(first, f, piece, c, kernel, target);
  double each = m.copied ? (four ? kCopiedFour : kCopiedOne) : (four ? kMovedFour : kMovedOne);
  each += kDecoded * std::max(0.0, static_cast<double>(more - 1));
  each += kTested * static_cast<double>(tests);
  m.instructions = count * each * (along ? kTransposed : 1);
  m.alone = four ? 0 : count;
  return m;
}

// How a product's blocks occupy the multiprocessors.
struct Occupancy {
  double blocks = 1, threads = 1;  // of a block
  double instructions = 0;         // of a thread, each step
  double wait = 0;                 // ns of a step that nothing hides
  double resident = 1;             // blocks of a multiprocessor
  double each = 1;                 // on the busiest multiprocessor
};
Occupancy occupancy(const SimtGemm& g, const MatrixForm& f, const Piece& piece,
                    const Contraction& c, const Kernel& kernel, const Target& target) {
  auto tiles = [](int64_t count, int64_t tile) {
    return static_cast<double>(ceil_div(count, tile));
  };
  double words = static_cast<double>(byte_size(c.accumulator)) / 4;
  Occupancy o;
  o.blocks =
      tiles(f.m.count, g.m) * tiles(f.n.count, g.n) * static_cast<double>(f.batch.count * g.split);
  o.threads = static_cast<double>((g.m / g.thread_m) * (g.n / g.thread_n));
  double cells = static_cast<double>(g.thread_m * g.thread_n) * words;
  double edge = static_cast<double>(g.thread_m + g.thread_n) * words;
  o.instructions = static_cast<double>(g.k) * (cells + kSharedRead * edge / 4) + kStepInstructions;
  if (cells > kManyCells) o.instructions *= kCrowded;
  int copied = 0;
  for (bool first : {true, false}) {
    Moving m = moving(first, g, f, piece, c, kernel, target);
    o.instructions += m.instructions;
    o.wait += kElementWait * m.alone;
    copied += m.copied ? 1 : 0;
  }
  o.wait += copied == 2 ? kCopiedStepWait : kStepWait;
  double registers = std::min(255.0, copied == 0 ? cells + 2 * edge + 48 : cells + edge + 36);
  double resident = std::min({target.gpu.threads_per_multiprocessor / o.threads,
                              target.gpu.registers_per_multiprocessor / (o.threads * registers),
                              static_cast<double>(target.gpu.shared_per_multiprocessor) /
                                  static_cast<double>(shared_bytes(g, c.accumulator))});
  o.resident = std::max(1.0, std::floor(resident));
  o.each = std::ceil(o.blocks / target.gpu.multiprocessors);
  return o;
}

// Nanoseconds in which a multiprocessor does `blocks` of its blocks side by side.
struct Wave {
  double issue = 0, wait = 0, stores = 0;
  double ns() const { return issue + wait + stores; }
};
Wave wave(const SimtGemm& g, const Occupancy& o, double blocks, double steps,
          const Target& target) {
  double active = blocks * o.threads;
  double share = std::min(1.0, active / kSchedulerLanes);
  Wave w;
  w.issue = steps * active * o.instructions / (kIssueClock * target.fma_per_ns * share);
  w.wait = steps * o.wait;
  w.stores = kCellNanoseconds * blocks * static_cast<double>(g.m * g.n);
  return w;
}

}  // namespace

double simt_gemm_ns(const SimtGemm& g, const Piece& piece, const Contraction& c,
                    const Kernel& kernel, const Target& target, CostTerm* into) {
  MatrixForm f = *matrix_form(piece, c, kernel);
  double bytes = static_cast<double>(byte_size(c.accumulator)), sms = target.gpu.multiprocessors;
  Occupancy o = occupancy(g, f, piece, c, kernel, target);
  double steps =
      std::ceil(static_cast<double>(ceil_div(f.k.count, g.k)) / static_cast<double>(g.split));
  double waves = std::floor(o.each / o.resident), rest = o.each - waves * o.resident;
  Wave full = wave(g, o, o.resident, steps, target), last = wave(g, o, rest, steps, target);
  if (rest == 0) last = {};
  double l2 = o.blocks * static_cast<double>(g.m + g.n) * steps * static_cast<double>(g.k) * bytes /
              (sms * target.l2_bytes_per_ns);
  double cells = static_cast<double>(f.m.count * f.n.count * f.batch.count) * bytes;
  double once = operand_bytes(piece, kernel), memory = dram_ns(once + cells, target);
  // Nobody computes while the first and last tiles of a block alone move.
  double alone = o.resident < 2 ? o.each * target.gpu.block_start_ns : 0;
  double computing = waves * full.ns() + last.ns() + alone;
  double ns = std::max({computing, l2, memory}), late = 0, parts_ns = 0;
  // What does not stay in the cache comes late where few threads wait for it.
  if (once > static_cast<double>(target.l2_bytes)) {
    double waiting = std::min(o.each, o.resident) * o.threads;
    late = dram_ns(once, target) * std::clamp(kWaitingThreads / waiting, 1.0, 3.0);
    ns += late;
  }
  if (g.split > 1) {
    // All blocks write their parts at the same time, and the second launch reads them.
    parts_ns = kCombineNanoseconds + cells * static_cast<double>(g.split) / kPartBytes;
    ns += parts_ns;
  }
  double start = target.gpu.launch_ns + kStartNanoseconds;
  if (into == nullptr) return ns + start;
  CostTerm tiles = combine("computing", Combine::sum, 1,
                           {cost_leaf("instructions", waves * full.issue + last.issue),
                            cost_leaf("steps that wait", waves * full.wait + last.wait),
                            cost_leaf("storing cells", waves * full.stores + last.stores)});
  tiles.add_if("blocks alone on a multiprocessor", alone);
  tiles.ns = computing;
  CostTerm bounds;
  bounds.parts = {std::move(tiles), cost_leaf("the second cache", l2), cost_leaf("memory", memory)};
  bounds.facts = {{"blocks", o.blocks},
                  {"resident", o.resident},
                  {"waves", std::ceil(o.each / o.resident)},
                  {"active threads", std::min(o.each, o.resident) * o.threads}};
  add_bounds(*into, std::move(bounds), 1);
  into->add_if("operands that leave the cache", late);
  into->add("launch", start);
  into->add_if("combining blocks in a second launch", parts_ns);
  return ns + start;
}

}  // namespace tile::gpu
