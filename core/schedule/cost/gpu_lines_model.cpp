// The analytic model of kernels whose rows are held in registers of threads.
#include <algorithm>
#include <cmath>
#include <set>

#include "core/kernel/forms/gpu_forms.h"
#include "core/schedule/cost/gpu_model.h"

namespace tile::gpu {
namespace {

constexpr double kOwnRegisters = 32;   // of a thread, beside those of its line
constexpr double kCluster = 1.03;      // its blocks begin and end together
constexpr double kClusterStage = 600;  // ns of a stage that waits for the cluster's other blocks

}  // namespace

double estimate_lines(const GpuLines& g, const Kernel& kernel, const Target& target) {
  std::optional<LineForm> f = line_form(kernel);
  if (!f) return 1e18;
  double bytes = 0;
  std::set<TensorId> seen;
  auto add = [&](TensorId id) {
    if (!seen.insert(id).second) return;
    const BoundTensor& t = kernel.tensors[static_cast<size_t>(id)];
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
      operations += info(n.op).rule == TypeRule::floating ? 12 : 1;
    }
  }
  double points = static_cast<double>(f->row_count) * static_cast<double>(f->count);
  double issue = points * (operations + 4) / (target.fma_per_ns * target.gpu.multiprocessors);
  double block = 900 + 250 * stages + held * 60;
  if (g.blocks > 1) block += kClusterStage * stages;
  double memory = bytes / (0.9 * target.dram_bytes_per_ns * target.gpu.multiprocessors);
  // Long walks hide less, and leave the compiler less choice.
  double most = static_cast<double>(most_registers(*f, g, kernel)) - 16;
  double slack = 1 + 0.1 * std::max(0.0, std::log2(most / 80));
  if (g.blocks > 1) slack *= kCluster;
  // A block alone on its multiprocessor has nobody to compute while it loads.
  if (resident < 2) memory += 0.9 * waves * block;
  return slack * std::max({memory, issue, waves * block}) + target.gpu.launch_ns;
}

}  // namespace tile::gpu
