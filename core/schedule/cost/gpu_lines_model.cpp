// The analytic models of kernels with row loops: rows that are held in registers of threads, and
// rows that blocks of a streamed axis pass by.
#include <algorithm>
#include <cmath>
#include <set>

#include "core/ir/analysis/uses.h"
#include "core/ir/operation_cost.h"
#include "core/kernel/forms/gpu_forms.h"
#include "core/kernel/forms/gpu_stream.h"
#include "core/kernel/stream.h"
#include "core/schedule/cost/gpu_model.h"

namespace tile::gpu {
namespace {

// [H200]: gpu_model.h.
constexpr double kOwnRegisters = 32;  // [H200] of a thread, beside those of its line
constexpr double kCluster = 1.03;     // [H200] its blocks begin and end together
// [H200] Nanoseconds of a block: once, for each stage, and for each vector that a thread holds.
constexpr double kBlockNanoseconds = 900;
constexpr double kStageNanoseconds = 250;
constexpr double kHeldNanoseconds = 60;
// An operation on a value of a row, which one thread computes while the others wait.
constexpr double kInTurnNanoseconds = 3;  // [guide] four to six clocks until the next can begin
// [H200] Long walks hide less, and leave the compiler less choice: for each doubling of a thread's
// registers beyond these.
constexpr double kRegisterSlack = 0.1;
constexpr double kShortWalkRegisters = 80;
constexpr double kLoneShare = 0.9;        // [H200] of its time, what a block alone does not hide
constexpr double kPointInstructions = 4;  // of addresses and conversions, beside the operations

// Of a stream: what the products reach of the tensor cores' rate where warps feed them by mma, and
// where groups of warps do by wgmma; what a block does not hide of the shorter of products and
// arithmetic; instructions of a score beside its operations (masks, conversions, sums); clocks of
// an element that a thread copies by itself.
constexpr double kWarpShare = 0.55;       // [guide] of sm_80's rate; mma has 0.6 of sm_90's
constexpr double kWarpgroupShare = 0.85;  // [guide] FlashAttention-3, products alone
constexpr double kUnhiddenShare = 0.6;    // [guide] the same, without ping-pong of warpgroups
constexpr double kScoreInstructions = 4;
// [H200] Of streams of groups that keep a running maximum, whose scores are scaled, summed and
// rounded among their exponentials: attention of 64x4096 keys of 64 and 128 took 1.66 us for a
// block of 192 by 128 scores (64), 1.75 (128 by 128, 128), and from 64 to 128 columns 10 ns more
// for each of them, beside 0.5 us that did not depend on them.
constexpr double kAmongExponentials = 0.4;
constexpr double kUnhiddenAmong = 0.15;
constexpr double kTurnNanoseconds = 500;
// Blocks that conditions divide cost so much more: each cell tests them, apart from exponentials.
constexpr double kDividedBlock = 1;
// Of a step: waits for its blocks and its first products, which no other step hides.
constexpr double kStepNanoseconds = 100;
constexpr int64_t kCopiedBytes = 16;    // of one asynchronous copy
constexpr double kElementClocks = 0.4;  // [H200] as tensor_core_gemm_rank.cpp
// A block's second half hides the waits of its first: fewer warps hide less.
constexpr double kFewWarps = 1.25;
constexpr int64_t kEnoughRows = 128;
// What products reach of the multiply-adds' rate where threads make them, by the rows of a lane:
// with two of them, elements come from shared memory half as fast as they are multiplied. Eight
// warps on a multiprocessor hide their own waits.
constexpr double kFourRowShare = 0.62;  // [H200] 37 TFLOP/s of 67 with head sizes 64 and 128
constexpr double kTwoRowShare = 0.42;   // [H200] 26 TFLOP/s
constexpr double kEnoughWarps = 8;
constexpr int64_t kReservedBytes = 1024;   // [CUDA] of shared memory, by each block for itself
constexpr double kStepInstructions = 200;  // of a thread in a step, beside its scores and sums
constexpr double kCopyInstructions = 8;    // of a copy of 16 bytes

// What a tile computes in a step.
struct StreamStep {
  double products = 0, scores = 0, copied = 0;  // nanoseconds
  double once = 0;                              // of a tile: what stays is copied
  double unhidden = 1;                          // share of the lesser of products and scores
  double fixed = 0;                             // nanoseconds, whatever the block's size
  bool among = false;                           // exponentials, whatever else is made of scores
};

// Elements of a line that are copied one by one: where its length is no multiple of 16 bytes, or
// neighbours in it are none in memory.
double copied_elements(const StreamedFactor& f, const Access& a, const BoundTensors& tensors) {
  const Shape& shape = tensors[a.tensor].shape;
  int64_t line = shape.empty() ? 1 : shape.back();
  auto bytes = static_cast<int64_t>(byte_size(tensors[a.tensor].type));
  bool neighbours = shape.empty() || !a.index.back().affine.coefficient(f.inner).is_zero();
  bool whole = neighbours && line * bytes % kCopiedBytes == 0;
  return whole ? 0 : static_cast<double>(multiplied_elements(f.extent));
}

// Of products that threads make: nanoseconds of a block of rows and columns. `tiles`: of the
// kernel.
double threads_products(const GpuStream& g, const StreamForm& f, double multiply_adds, double tiles,
                        const Target& target) {
  int64_t lane_rows = rows_of_a_lane(multiplied_columns(g, f));
  double share = lane_rows == 4 ? kFourRowShare : kTwoRowShare;
  double warps = static_cast<double>(g.rows) / static_cast<double>(kRowLanes * lane_rows);
  double fit = std::floor(static_cast<double>(target.gpu.shared_per_multiprocessor) /
                          static_cast<double>(shared_bytes(g, f) + kReservedBytes));
  double blocks = std::min(fit, std::floor(tiles / target.gpu.multiprocessors));
  double resident = warps * std::max(1.0, std::min(blocks, kEnoughWarps / warps));
  double hidden = std::min(1.0, resident / kEnoughWarps);
  return multiply_adds / (target.fma_per_ns * share * hidden);
}

// Instructions of a step of all lanes that do not grow with its columns, or copy them: sums are
// multiplied by what a maximum has grown by.
double threads_overhead(const GpuStream& g, const StreamForm& f) {
  double lane_rows = static_cast<double>(rows_of_a_lane(multiplied_columns(g, f)));
  double threads = static_cast<double>(g.rows) / (static_cast<double>(kRowLanes) * lane_rows) * 32;
  double instructions = threads * kStepInstructions;
  for (const StreamForm::Sum& sum : f.sums) {
    bool grows = f.running > 0 && sum.column.valid();
    auto columns = static_cast<double>(grows ? multiplied_elements(sum.value.extent) : 1);
    instructions += static_cast<double>(g.rows) * columns;
  }
  for (const StreamForm::Block& b : f.blocks) {
    if (b.of_rows) continue;
    auto elements = static_cast<double>(g.columns * multiplied_elements(b.factor.extent));
    instructions += kCopyInstructions * elements / 4;
  }
  return instructions;
}

StreamStep stream_step(const GpuStream& g, const StreamForm& f, const Kernel& kernel, double tiles,
                       const Target& target) {
  StreamStep step;
  auto rows = static_cast<double>(g.rows), columns = static_cast<double>(g.columns);
  double depth = 0, elements = 0, row_elements = 0;
  for (const StreamForm::Product& p : f.products) {
    depth += static_cast<double>(multiplied_elements(p.column.extent));
  }
  for (const StreamForm::Sum& sum : f.sums) {
    if (sum.column.valid()) depth += static_cast<double>(multiplied_elements(sum.value.extent));
  }
  for (const StreamForm::Block& b : f.blocks) {
    const Piece& p = kernel.stages[b.stage].contraction.pieces[0];
    double each = copied_elements(b.factor, p.loads[b.factor.load], kernel.tensors);
    (b.of_rows ? row_elements : elements) += each;
  }
  bool warpgroups = target.features.starts_with("sm_90a");
  double multiply_adds = rows * columns * depth;
  step.products = f.by_threads() ? threads_products(g, f, multiply_adds, tiles, target)
                                 : multiply_adds / (target.gpu.matrix_per_ns *
                                                    (warpgroups ? kWarpgroupShare : kWarpShare));
  double operations = kScoreInstructions;
  for (const KernelStage& s : kernel.stages) {
    for (const Node& n : s.contraction.pieces[0].body.nodes) {
      if (n.kind == NodeKind::operation && !reduces_stream(s)) {
        operations += cost_of(n.op).instructions;
      }
    }
  }
  step.scores = rows * columns * operations / target.fma_per_ns;
  step.among = warpgroups && !f.by_threads() && f.running > 0;
  if (step.among) step.scores *= kAmongExponentials;
  step.unhidden = f.by_threads() ? 1 : step.among ? kUnhiddenAmong : kUnhiddenShare;
  step.fixed = step.among ? kTurnNanoseconds : kStepNanoseconds;
  if (f.by_threads()) step.scores += threads_overhead(g, f) / target.fma_per_ns;
  step.copied = columns * elements * kElementClocks / target.gpu.matrix_gigahertz;
  step.once = rows * row_elements * kElementClocks / target.gpu.matrix_gigahertz;
  if (!f.by_threads() && g.rows < kEnoughRows) step.products *= kFewWarps;
  return step;
}

}  // namespace

double estimate_stream(const GpuStream& g, const Kernel& kernel, const Target& target,
                       CostTerm* into) {
  std::optional<StreamForm> f = stream_form(kernel);
  if (!f) return 1e18;
  const KernelStage& first = kernel.stages[0];
  std::vector<int64_t> blocks(first.rows.size() + 1, 1);
  blocks[f->row.index()] = g.rows;
  blocks.back() = g.columns;
  double tiles = static_cast<double>(ceil_div(f->rows, g.rows));
  for (RowId r : first.rows.ids()) {
    IteratorId u = first.rows[r];
    if (r != f->row) tiles *= static_cast<double>(first.contraction.pieces[0].box[u]);
  }
  double columns = static_cast<double>(ceil_div(f->columns, g.columns));
  double visited = visited_share(kernel, blocks), steps = columns * visited;
  StreamStep step = stream_step(g, *f, kernel, tiles, target);
  if (step.among && visited < 1) {  // conditions leave one half of such blocks in the mean
    double of_points = visited_share(kernel, std::vector<int64_t>(blocks.size(), 1));
    steps += kDividedBlock * 2 * columns * std::max(0.0, visited - of_points);
  }
  double most = std::max(step.products, step.scores), least = std::min(step.products, step.scores);
  double each = most + step.unhidden * least + step.copied + step.fixed;
  double turns = std::max(1.0, tiles / target.gpu.multiprocessors);
  // The last tiles are done by some of the multiprocessors.
  double waves = std::ceil(turns) * 0.5 + turns * 0.5;
  double work = waves * (steps * each + step.once + target.gpu.block_start_ns);
  if (into != nullptr) {
    into->add("blocks of the axis", work);
    into->parts.back().facts = {{"tiles", tiles}, {"steps", steps}, {"step ns", each}};
    into->add("launch", target.gpu.launch_ns);
  }
  return work + target.gpu.launch_ns;
}

namespace {

// How many times the bytes of its elements a line moves: neighbouring threads hold neighbours of
// the line, or of the rows, which may lie in different sectors of memory.
double line_waste(const GpuLines& g, const LineForm& f, const Kernel& kernel) {
  double most = 1;
  for (size_t s = 0; s < kernel.stages.size(); ++s) {
    if (f.lines[s].iterators.empty()) continue;
    const Piece& piece = kernel.stages[s].contraction.pieces[0];
    for (const Access& load : piece.loads) {
      auto stride = std::abs(stride_of(load, f.lines[s].iterators.back(), kernel));
      auto size = static_cast<double>(byte_size(kernel.tensors[load.tensor].type));
      double together = f.rows_are_neighbours ? static_cast<double>(g.rows) : 1;
      double waste = std::min(kSectorBytes / size / together, static_cast<double>(stride));
      if (stride > 1) most = std::max(most, waste);
    }
  }
  return most;
}

// Instructions for each cell of a line, and for what is computed once for a row.
struct LineOperations {
  double of_cells = 0, of_rows = 0;
};

LineOperations line_operations(const LineForm& f, const Kernel& kernel) {
  LineOperations operations;
  for (const KernelStage& s : kernel.stages) {
    const Piece& piece = s.contraction.pieces[0];
    bool row = point_count(piece) <= static_cast<double>(f.row_count);
    double& of = row ? operations.of_rows : operations.of_cells;
    for (const Node& n : piece.body.nodes) {
      if (n.kind == NodeKind::operation) of += cost_of(n.op).instructions;
    }
  }
  return operations;
}

}  // namespace

double estimate_lines(const GpuLines& g, const Kernel& kernel, const Target& target,
                      CostTerm* into) {
  std::optional<LineForm> f = line_form(kernel);
  return f ? estimate_lines(g, *f, kernel, target, into) : 1e18;
}

double estimate_lines(const GpuLines& g, const LineForm& form, const Kernel& kernel,
                      const Target& target, CostTerm* into) {
  const LineForm* f = &form;
  double bytes = 0, waste = line_waste(g, *f, kernel);
  std::set<TensorId> seen;
  auto add = [&](TensorId id) {
    if (!seen.insert(id).second) return;
    const BoundTensor& t = kernel.tensors[id];
    auto count = static_cast<double>(element_count(t.shape));
    bool line = count >= static_cast<double>(f->row_count) * static_cast<double>(f->count);
    bytes += count * static_cast<double>(byte_size(t.type)) * (line ? waste : 1);
  };
  for (TensorId id : kernel.reads) add(id);
  for (TensorId id : kernel.writes) add(id);
  double held = static_cast<double>(cells_of_a_lane(*f, g) / g.vector);
  double threads = static_cast<double>(g.lanes * g.rows);
  double registers =
      static_cast<double>(words_of_a_cell(*f, kernel) * cells_of_a_lane(*f, g)) + kOwnRegisters;
  double resident =
      std::floor(std::min(target.gpu.threads_per_multiprocessor / threads,
                          target.gpu.registers_per_multiprocessor / (threads * registers)));
  double blocks = static_cast<double>(f->row_count / g.rows * g.blocks);
  double waves = std::ceil(blocks / (std::max(1.0, resident) * target.gpu.multiprocessors));
  double stages = static_cast<double>(kernel.stages.size());
  LineOperations operations = line_operations(*f, kernel);
  double points = static_cast<double>(f->row_count) * static_cast<double>(f->count);
  double issue = points * (operations.of_cells + kPointInstructions) /
                 (target.fma_per_ns * target.gpu.multiprocessors);
  double block = kBlockNanoseconds + kStageNanoseconds * stages + held * kHeldNanoseconds +
                 kInTurnNanoseconds * operations.of_rows;
  if (g.blocks > 1) block += target.gpu.cluster_wait_ns * stages;
  double memory = bytes / (kMemoryShare * target.dram_bytes_per_ns * target.gpu.multiprocessors);
  double most = static_cast<double>(most_registers(*f, g, kernel)) - 16;
  double slack = 1 + kRegisterSlack * std::max(0.0, std::log2(most / kShortWalkRegisters));
  if (g.blocks > 1) slack *= kCluster;
  // A block alone on its multiprocessor has nobody to compute while it loads.
  double alone = resident < 2 ? kLoneShare * waves * block : 0;
  if (into != nullptr) {
    CostTerm moving = combine("memory", Combine::sum, 1, {cost_leaf("bytes", memory)});
    moving.add_if("blocks alone on a multiprocessor", alone);
    moving.ns += alone;
    into->add(combine("the slowest, with long walks", Combine::largest, slack,
                      {std::move(moving), cost_leaf("instructions", issue),
                       cost_leaf("waves of blocks", waves * block)}));
    into->parts.back().facts = {
        {"blocks", blocks}, {"resident", resident}, {"waves", waves}, {"bytes", bytes}};
    into->add("launch", target.gpu.launch_ns);
  }
  memory += alone;
  return slack * std::max({memory, issue, waves * block}) + target.gpu.launch_ns;
}

}  // namespace tile::gpu
