// The analytic model of GPU schedules: the slowest of issue, latency, L2 and memory, and launches.
#include "core/schedule/cost/gpu_model.h"

#include <algorithm>
#include <cmath>

#include "core/kernel/forms/gpu_forms.h"
#include "core/kernel/forms/scan.h"

namespace tile::gpu {
namespace {

constexpr double kLatency = 600;   // ns of a dependent access to memory under load
constexpr double kInFlight = 4;    // accesses that one thread has under way
constexpr double kReducing = 1.8;  // likewise, of a thread whose sums depend on each other
constexpr double kSector = 32;     // bytes that memory moves at least
constexpr double kTreeNanoseconds = 250;
constexpr double kStepPoints = 1.4;   // of a product's depth, that the barriers of one step cost
constexpr double kIssueClock = 1.08;  // of the clock under such a load, over the data sheet's
constexpr double kLoneBlock = 2000;   // ns: nobody computes while its first and last tiles move
constexpr double kStepNanoseconds = 420;  // of a step whose operands come from the cache
constexpr double kWaitingThreads = 384;   // of a multiprocessor: enough to hide memory's latency
constexpr double kLanes = 128;            // of a multiprocessor, with a warp for each 32
constexpr double kFewTerms = 32;
constexpr double kFewCells = 64;    // of a thread: blocks are small enough for two
constexpr double kMostBlocks = 32;  // of a multiprocessor
constexpr double kWideAccess = 16;  // bytes of one thread's access
constexpr double kLine = 128;       // bytes that neighbouring threads should cover together

struct Work {
  double points = 1, cells = 1, terms = 1;
  double operations = 1;  // instructions of the body, for one point
};

Work work_of(const Piece& piece) {
  Work w;
  for (size_t u = 0; u < piece.box.size(); ++u) {
    auto extent = static_cast<double>(std::max<int64_t>(piece.box[u], 1));
    (u < piece.parallel_dims ? w.cells : w.terms) *= extent;
  }
  w.points = w.cells * w.terms;
  for (const Node& node : piece.body.nodes) {
    if (node.kind == NodeKind::load) w.operations += 3;
    if (node.kind == NodeKind::fold) w.operations += 64;
    if (node.kind != NodeKind::operation) continue;
    w.operations += info(node.op).rule == TypeRule::floating ? 12 : 1;
  }
  return w;
}

double element_bytes(const Access& a, const Kernel& kernel) {
  return static_cast<double>(byte_size(kernel.tensors[static_cast<size_t>(a.tensor)].type));
}

// Bytes that memory moves when neighbouring threads take neighbours of `fastest`: what each access
// covers once, more where it uses a part of each sector only.
double traffic(const Piece& piece, const Kernel& kernel, const FlatIndex& fastest,
               const Work& work) {
  double bytes = 0;
  auto add = [&](const Access& a, double points) {
    const Shape& shape = kernel.tensors[static_cast<size_t>(a.tensor)].shape;
    double size = element_bytes(a, kernel);
    double covered =
        std::min(points, static_cast<double>(std::max<int64_t>(element_count(shape), 1)));
    double waste = 1;
    if (!fastest.iterators.empty() && fastest.fastest > 1) {
      int64_t stride = std::abs(stride_of(a, fastest.iterators.back(), kernel));
      bool far = stride != 0 && stride != 1;
      if (far) waste = std::min(kSector / size, static_cast<double>(stride));
    }
    bytes += covered * size * waste;
  };
  for (const Access& a : piece.loads) add(a, work.points);
  for (const Access& a : piece.stores) add(a, work.cells);
  return bytes;
}

double dram_ns(double bytes, const Target& t) {
  return bytes / (0.9 * t.dram_bytes_per_ns * t.gpu.multiprocessors);
}

// `threads` of them, each doing `each` points one after another.
double issue_ns(double threads, double each, const Work& work, const Target& t) {
  double resident = t.gpu.multiprocessors * static_cast<double>(t.gpu.threads_per_multiprocessor);
  double waves = std::max(1.0, std::ceil(threads / resident));
  double lanes = t.gpu.multiprocessors * t.fma_per_ns;  // instructions per ns
  double issue = threads * each * work.operations / lanes;
  double latency = waves * (kLatency + each / kInFlight * kLatency);
  return std::max(issue, latency);
}

double loops_ns(const PieceSchedule& s, const Piece& piece, const Kernel& kernel,
                const Target& target) {
  Work work = work_of(piece);
  double cells_each = 1;
  for (const Loop& l : s.outer) cells_each *= static_cast<double>(l.step);
  if (s.carried >= 0) {
    cells_each *= static_cast<double>(piece.box[static_cast<size_t>(s.carried)]);
    work.terms = 1;
    work.points = work.cells;
  }
  double threads = std::max(1.0, work.cells / cells_each);
  FlatIndex parallel_dims = flat_parallel_dims(piece, kernel);
  double vector = s.tile.empty() ? 1 : cells_each;
  // A thread's neighbours share its accesses, which bound sums of few terms; of many terms each is
  // computed.
  double together = work.terms > kFewTerms ? 1 : vector;
  double ns = issue_ns(threads, cells_each * work.terms / together, work, target);
  double size = piece.stores.empty() ? 4 : element_bytes(piece.stores[0], kernel);
  double narrow = 1 + 0.1 * std::abs(std::log2(vector * size / kWideAccess)) / 2;
  return std::max(ns, narrow * dram_ns(traffic(piece, kernel, parallel_dims, work), target)) +
         target.gpu.launch_ns;
}

double reduction_ns(const GpuReduction& g, const Piece& piece, const Contraction& c,
                    const Kernel& kernel, const Target& target) {
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
  double together =
      static_cast<double>((g.parallel_dims_fastest ? g.parallel_dims : g.lanes) * g.vector) * size;
  double waste = together < kSector ? 2 : together < kLine ? 1.2 - 0.2 * together / kLine : 1;
  if (static_cast<double>(g.vector) * size < kWideAccess) waste *= 1.03;
  if (g.parallel_dims * g.lanes < 256) waste *= 1.02;
  double ns = std::max(issue_ns(threads, std::max(each, 1.0), work, target),
                       dram_ns(waste * traffic(piece, kernel, fastest, work), target));
  ns = std::max(ns, kLatency * (1 + each / kReducing));
  if (matrix_form(piece, c, kernel)) {  // a factor is read anew for each row of the other
    ns = std::max(ns, work.points * size / (target.gpu.multiprocessors * target.l2_bytes_per_ns));
  }
  if (g.lanes > 1) {
    double resident = target.gpu.multiprocessors *
                      std::max(1.0, target.gpu.threads_per_multiprocessor /
                                        static_cast<double>(g.parallel_dims * g.lanes));
    ns += kTreeNanoseconds * std::max(1.0, blocks / resident);
  }
  if (g.split > 1) {  // the parts are written, and read by a launch with few cells to share
    double parts = static_cast<double>(g.split);
    ns += target.gpu.launch_ns + 1000 + 4 * parts +
          8 * parts * work.cells / (target.l2_bytes_per_ns * target.gpu.multiprocessors);
  }
  return ns + target.gpu.launch_ns;
}

double operand_bytes(const Piece& piece, const Kernel& kernel) {
  double bytes = 0;
  for (const Access& a : piece.loads) {
    const Shape& shape = kernel.tensors[static_cast<size_t>(a.tensor)].shape;
    bytes += static_cast<double>(element_count(shape)) * element_bytes(a, kernel);
  }
  return bytes;
}

// Fitted to products of f32 between 512^3 and 4096^3, square and skinny, on an H200.
double matrix_ns(const SimtGemm& g, const Piece& piece, const Contraction& c, const Kernel& kernel,
                 const Target& target) {
  MatrixForm f = *matrix_form(piece, c, kernel);
  auto tiles = [](int64_t count, int64_t tile) {
    return static_cast<double>(ceil_div(count, tile));
  };
  double bytes = static_cast<double>(byte_size(c.accumulator)), sms = target.gpu.multiprocessors;
  double blocks =
      tiles(f.m.count, g.m) * tiles(f.n.count, g.n) * static_cast<double>(f.batch.count * g.split);
  double steps = std::ceil(tiles(f.k.count, g.k) / static_cast<double>(g.split));
  double threads = static_cast<double>((g.m / g.thread_m) * (g.n / g.thread_n));
  double cells = static_cast<double>(g.thread_m * g.thread_n) * bytes / 4;
  double edge = static_cast<double>(g.thread_m + g.thread_n) * bytes / 4;
  int copied = 0;  // factors that pass no registers
  for (bool first : {true, false}) {
    copied += g.stages > 2 && copies_factor(first, f, piece, c, kernel, target) ? 1 : 0;
  }
  double registers = std::min(255.0, copied == 0 ? cells + 2 * edge + 48 : cells + edge + 36);
  double resident = std::min({target.gpu.threads_per_multiprocessor / threads,
                              target.gpu.registers_per_multiprocessor / (threads * registers),
                              static_cast<double>(target.gpu.shared_per_multiprocessor) /
                                  static_cast<double>(shared_bytes(g, c.accumulator))});
  resident = std::max(1.0, std::floor(resident));
  double each = std::ceil(blocks / sms);  // on the busiest multiprocessor
  double active = std::min(each, resident) * threads;
  if (active <= kLanes) copied = 0;  // a warp for each scheduler waits for its own reads
  double moving =
      copied == 0 ? 7 : (copied == 1 ? 3 : 1) + static_cast<double>(g.m + g.n) / threads;
  double issue = cells / (cells + 0.6 * edge + moving) * std::min(1.0, 0.72 + 0.28 * active / 288);
  issue *= std::min(1.0, active / kLanes);
  double rate = kIssueClock * target.fma_per_ns * issue * (bytes > 4 ? 0.5 : 1);
  double depth = steps * static_cast<double>(g.k);
  // Of what the threads wait at barriers for, what other blocks or terms that were read ahead hide.
  double waits = kStepPoints;
  if (copied > 0 && !g.ahead && cells <= kFewCells) waits *= 0.5;
  if (copied == 2 && g.ahead) waits *= 0.2;
  double barrier = 1 + waits / static_cast<double>(g.k);
  double turns = each <= resident ? each : (each + blocks / sms) / 2;
  double compute = barrier * turns * static_cast<double>(g.m * g.n) * depth / rate;
  if (resident < 2) compute += each * kLoneBlock;
  double latency = std::ceil(each / resident) * (steps * kStepNanoseconds + 2 * kLatency);
  double l2 =
      blocks * static_cast<double>(g.m + g.n) * depth * bytes / (sms * target.l2_bytes_per_ns);
  double ns = std::max({compute, latency, l2}) + target.gpu.launch_ns;
  // What does not stay in the cache comes late where few threads wait for it.
  double once = operand_bytes(piece, kernel);
  if (once > static_cast<double>(target.l2_bytes)) {
    double waiting = std::min(each, resident) * threads;
    ns += dram_ns(once, target) * std::clamp(kWaitingThreads / waiting, 1.0, 3.0);
  }
  if (g.split == 1) return ns;
  // All blocks write their parts at the same time, and the second launch reads them.
  double parts = static_cast<double>(f.m.count * f.n.count * f.batch.count * g.split) * bytes;
  return ns + target.gpu.launch_ns + 4 * parts / (sms * target.l2_bytes_per_ns);
}

// Bytes once, or the steps of the longest line one after the other.
double streamed_ns(const Piece& piece, const Kernel& kernel, const Target& target, double blocks,
                   double steps) {
  Work work = work_of(piece);
  double bytes = work.cells * element_bytes(piece.stores[0], kernel);
  for (const Access& a : piece.loads) {
    const Shape& shape = kernel.tensors[static_cast<size_t>(a.tensor)].shape;
    bytes += static_cast<double>(element_count(shape)) * element_bytes(a, kernel);
  }
  double waves = std::max(1.0, blocks / (8.0 * target.gpu.multiprocessors));
  return std::max(1.1 * dram_ns(bytes, target), waves * steps * (kLatency + 300)) +
         target.gpu.launch_ns;
}

// A turn waits for the loads that the turn before it began, and for each level of the scan of its
// lanes.
double scan_ns(const GpuScan& g, const Piece& piece, const Contraction& c, const Kernel& kernel,
               const Target& target) {
  double line = static_cast<double>(piece.box[scan_form(piece, c)->parallel_dim]);
  auto lanes = static_cast<double>(g.lanes), each = static_cast<double>(g.vector);
  double turns = std::ceil(line / (lanes * each));
  double cells = 1;
  for (size_t u = 0; u < piece.parallel_dims; ++u) cells *= static_cast<double>(piece.box[u]);
  double lines = cells / line, levels = std::log2(lanes) / 2;
  double threads = std::min<double>(target.gpu.threads_per_multiprocessor,
                                    target.gpu.registers_per_multiprocessor / (30 + 2.5 * each));
  double resident = std::clamp(std::floor(threads / lanes), 1.0, kMostBlocks);
  double waves = std::ceil(lines / (resident * target.gpu.multiprocessors));
  double steps = 8 * each + levels * (2 * each + 40);
  double issue = lines * turns * lanes * steps / (target.gpu.multiprocessors * target.fma_per_ns);
  // The next turn's terms come during a turn's scan and stores; the first ones are waited for.
  double turn = std::max(2 * kLatency, kLatency + 100 * levels);
  double latency = waves * (turns * turn + kLatency);
  return std::max({streamed_ns(piece, kernel, target, 1, 1), issue, latency}) + 0.1 * issue;
}

}  // namespace

double estimate_piece(const PieceSchedule& s, const Piece& piece, const Contraction& c,
                      const Kernel& kernel, const Target& target) {
  if (s.gpu_reduction) return reduction_ns(*s.gpu_reduction, piece, c, kernel, target);
  if (s.simt_gemm) return matrix_ns(*s.simt_gemm, piece, c, kernel, target);
  if (s.gpu_scan) return scan_ns(*s.gpu_scan, piece, c, kernel, target);
  if (s.gpu_transpose) return streamed_ns(piece, kernel, target, 1, 1);
  return loops_ns(s, piece, kernel, target);
}

}  // namespace tile::gpu
