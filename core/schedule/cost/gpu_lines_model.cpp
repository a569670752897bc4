// The analytic models of kernels with row loops: rows that are held in registers of threads, and
// rows that blocks of a streamed axis pass by.
#include <algorithm>
#include <cmath>
#include <set>

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
// Of a step: waits for its blocks and its first products, which no other step hides.
constexpr double kStepNanoseconds = 100;
constexpr double kElementClocks = 0.4;  // [H200] as tensor_core_gemm_rank.cpp
// A block's second half hides the waits of its first: fewer warps hide less.
constexpr double kFewWarps = 1.25;
constexpr int64_t kEnoughRows = 128;

// What a tile computes in a step.
struct StreamStep {
  double products = 0, scores = 0, copied = 0;  // nanoseconds
};

// Elements of a line whose length is no multiple of 16 bytes are copied one by one.
double copied_elements(const StreamedFactor& f, const Access& a, const BoundTensors& tensors) {
  const Shape& shape = tensors[a.tensor].shape;
  int64_t line = shape.empty() ? 1 : shape.back();
  return line % 8 == 0 ? 0 : static_cast<double>(multiplied_elements(f.extent));
}

StreamStep stream_step(const GpuStream& g, const StreamForm& f, const Kernel& kernel,
                       const Target& target) {
  StreamStep step;
  auto rows = static_cast<double>(g.rows), columns = static_cast<double>(g.columns);
  double depth = 0, elements = 0;
  for (const StreamForm::Product& p : f.products) {
    depth += static_cast<double>(multiplied_elements(p.column.extent));
  }
  for (const StreamForm::Sum& sum : f.sums) {
    if (sum.column.valid()) depth += static_cast<double>(multiplied_elements(sum.value.extent));
  }
  for (const StreamForm::Block& b : f.blocks) {
    const Piece& p = kernel.stages[b.stage].contraction.pieces[0];
    if (!b.of_rows) elements += copied_elements(b.factor, p.loads[b.factor.load], kernel.tensors);
  }
  bool warpgroups = target.features.starts_with("sm_90a");
  step.products = rows * columns * depth /
                  (target.gpu.matrix_per_ns * (warpgroups ? kWarpgroupShare : kWarpShare));
  double operations = kScoreInstructions;
  for (const KernelStage& s : kernel.stages) {
    for (const Node& n : s.contraction.pieces[0].body.nodes) {
      if (n.kind == NodeKind::operation && !reduces_stream(s)) {
        operations += cost_of(n.op).instructions;
      }
    }
  }
  step.scores = rows * columns * operations / target.fma_per_ns;
  step.copied = columns * elements * kElementClocks / target.gpu.matrix_gigahertz;
  if (g.rows < kEnoughRows) step.products *= kFewWarps;
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
  double steps =
      static_cast<double>(ceil_div(f->columns, g.columns)) * visited_share(kernel, blocks);
  StreamStep step = stream_step(g, *f, kernel, target);
  double most = std::max(step.products, step.scores), least = std::min(step.products, step.scores);
  double each = most + kUnhiddenShare * least + step.copied + kStepNanoseconds;
  double turns = std::max(1.0, tiles / target.gpu.multiprocessors);
  // The last tiles are done by some of the multiprocessors.
  double waves = std::ceil(turns) * 0.5 + turns * 0.5;
  double work = waves * (steps * each + target.gpu.block_start_ns);
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
  double operations = 0;
  for (const KernelStage& s : kernel.stages) {
    for (const Node& n : s.contraction.pieces[0].body.nodes) {
      if (n.kind != NodeKind::operation) continue;
      operations += cost_of(n.op).instructions;
    }
  }
  double points = static_cast<double>(f->row_count) * static_cast<double>(f->count);
  double issue =
      points * (operations + kPointInstructions) / (target.fma_per_ns * target.gpu.multiprocessors);
  double block = kBlockNanoseconds + kStageNanoseconds * stages + held * kHeldNanoseconds;
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
