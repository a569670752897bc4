// The analytic model of kernels whose rows are held in registers of threads.
#include <algorithm>
#include <cmath>
#include <set>

#include "core/ir/operation_cost.h"
#include "core/kernel/forms/gpu_forms.h"
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

}  // namespace

double estimate_lines(const GpuLines& g, const Kernel& kernel, const Target& target,
                      CostTerm* into) {
  std::optional<LineForm> f = line_form(kernel);
  if (!f) return 1e18;
  double bytes = 0;
  std::set<TensorId> seen;
  auto add = [&](TensorId id) {
    if (!seen.insert(id).second) return;
    const BoundTensor& t = kernel.tensors[id];
    bytes += static_cast<double>(element_count(t.shape)) * static_cast<double>(byte_size(t.type));
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
