// The model of reductions that lanes of a block share, and that blocks may share.
#include <algorithm>
#include <cmath>

#include "core/schedule/cost/gpu_cost_parts.h"
#include "core/schedule/facts/warp_reads.h"

namespace tile::gpu {
namespace {

// [H200]: gpu_model.h; fitted to the schedules that three studies measured (bench/studies), whose
// parts add up: warps that wait for loads are too few to hide what others do.
constexpr double kWait = 200;                   // ns until the loads of a turn are there
constexpr double kTurns = 7.5, kWideTurns = 2;  // loads that a thread has under way, each of one
                                                // element or of neighbours
// Of the instructions, what other parts do not hide; of windows.
constexpr double kIssueShare = 0.23, kWindowIssueShare = 0.45;
constexpr double kLineShare = 0.75;    // likewise of what the first cache is asked for
constexpr double kCachedShare = 0.68;  // of memory's time: most operands were in the second cache
constexpr double kTreeNanoseconds = 660, kTreeStepNanoseconds = 1.3;  // of combining lanes
constexpr double kBlockNanoseconds = 9;     // of a block, one after the other
constexpr double kThreadNanoseconds = 0.8;  // of a block's threads beyond a scheduler's each
constexpr double kIdleNanoseconds = 550;    // where lanes have no term
constexpr double kSplitNanoseconds = 600;   // of a second launch, beside the launch
constexpr double kTreeWidth = 16;           // core/lower/gpu/spread_lowering.cpp
constexpr double kFewThreads = 128;

double instructions(const GpuReduction& g, const Piece& piece, const Kernel& kernel,
                    const Work& work) {
  double loads = kLoadInstructions * static_cast<double>(piece.loads.size());
  double widened = 0;
  for (const Access& a : piece.loads) widened += element_bytes(a, kernel) < 4 ? 1 : 0;
  return loads + static_cast<double>(g.vector) * (work.operations - loads + widened);
}

}  // namespace

double reduction_ns(const GpuReduction& g, const Piece& piece, const Kernel& kernel,
                    const Target& target, CostTerm* into) {
  Work work = work_of(piece);
  const double sms = target.gpu.multiprocessors, most = target.gpu.threads_per_multiprocessor;
  double groups =
      std::ceil(work.cells / static_cast<double>(g.vector_parallel_dims ? g.vector : 1));
  auto of_block = static_cast<double>(g.parallel_dims * g.lanes);
  double blocks =
      std::ceil(groups / static_cast<double>(g.parallel_dims)) * static_cast<double>(g.split);
  double threads = blocks * of_block;
  double each = work.points / (groups * static_cast<double>(g.lanes * g.split)) /
                static_cast<double>(g.vector);
  double share = sums_windows(piece) ? kWindowIssueShare : kIssueShare;
  double issue =
      share * threads * each * instructions(g, piece, kernel, work) / (sms * target.fma_per_ns);
  double waves = std::max(1.0, std::ceil(threads / (sms * most)));
  double waits = waves * kWait * (1 + each / (g.vector > 1 ? kWideTurns : kTurns));
  WarpReads reads = warp_reads(g, piece, kernel, target);
  double lines = kLineShare * threads / target.gpu.warp_size * each * reads.lines /
                 (sms * target.gpu.gigahertz);
  double bytes = traffic(piece, kernel, FlatIndex{}, work), once = dram_ns(bytes, target);
  double memory = kCachedShare * once, tree = 0, parts = 0;
  if (g.lanes > 1) {
    auto lanes = static_cast<double>(g.lanes);
    double steps = lanes > kTreeWidth ? lanes / kTreeWidth + kTreeWidth - 2 : lanes - 1;
    if (g.vector_parallel_dims) steps *= static_cast<double>(g.vector);
    double rounds = std::max(1.0, blocks / (sms * std::max(1.0, std::floor(most / of_block))));
    tree = (kTreeNanoseconds + kTreeStepNanoseconds * steps) * rounds;
  }
  if (g.split > 1) {  // the parts are written, and read by a launch with few cells to share
    auto split = static_cast<double>(g.split);
    parts = target.gpu.launch_ns + kSplitNanoseconds + 4 * split +
            8 * split * work.cells / (target.l2_bytes_per_ns * sms);
  }
  double beside = kBlockNanoseconds * blocks / sms + kThreadNanoseconds * (of_block - kFewThreads) +
                  kIdleNanoseconds * std::max(0.0, 1 - each);
  double ns = issue + waits + lines + memory + tree + beside;
  // What is larger than the cache comes from memory.
  double outside = bytes > static_cast<double>(target.l2_bytes) ? std::max(0.0, once - ns) : 0;
  if (into != nullptr) {
    into->add("instructions", issue);
    into->add("threads that wait for loads", waits);
    into->add("the first cache", lines);
    into->add("memory", memory + outside);
    into->add_if("combining lanes", tree);
    into->add("blocks and their threads", beside);
    into->add_if("combining blocks in a second launch", parts);
    into->add("launch", target.gpu.launch_ns);
    into->facts = {{"blocks", blocks}, {"waves", waves}, {"turns", each}};
  }
  return ns + outside + parts + target.gpu.launch_ns;
}

}  // namespace tile::gpu
