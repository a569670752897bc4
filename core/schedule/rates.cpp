#include "core/schedule/rates.h"

#include <algorithm>
#include <set>

#include "core/schedule/cost.h"
#include "core/schedule/window.h"
#include "core/schedule/work.h"

namespace tile {
namespace {

// Of the first-level bandwidth, what the second gives while the core computes.
constexpr double kUsefulBandwidth = 2.0 / 3;

// Bytes that the kernel must at least read and write: of each tensor what its largest access
// touches.
double moved_bytes(const Kernel& kernel, const Target& target) {
  std::map<TensorId, double> touched;
  for (const KernelStage& stage : kernel.stages) {
    for (const Piece& piece : stage.contraction.pieces) {
      PieceModel model(piece, stage.contraction, kernel, target);
      for (const PieceModel::AccessModel& a : model.accesses()) {
        if (a.gathers) continue;
        double& bytes = touched[a.access->tensor];
        auto all = static_cast<double>(element_count(a.shape)) * a.bytes;
        bytes = std::max(bytes, std::min(all, model.footprint(a, piece.box)));
      }
    }
  }
  double sum = 0;
  std::set<TensorId> global(kernel.reads.begin(), kernel.reads.end());
  global.insert(kernel.writes.begin(), kernel.writes.end());
  for (TensorId id : global) sum += touched[id];
  return sum;
}

// f32 multiply-adds of sums of products in floats; other kernels' instructions are not counted.
double multiply_adds(const Kernel& kernel, const Target& target) {
  double sum = 0;
  for (const KernelStage& stage : kernel.stages) {
    const Contraction& c = stage.contraction;
    if (c.accumulator != DType::f32) continue;
    for (const Piece& piece : c.pieces) {
      PieceClass kind = classify(piece, c, kernel.tensors);
      bool product = kind.kind == KernelClass::matrix || kind.kind == KernelClass::windowed;
      bool shortened = carried_owner(piece, c, target).has_value();
      bool wide = std::all_of(piece.loads.begin(), piece.loads.end(), [&](const Access& load) {
        return kernel.tensors[static_cast<size_t>(load.tensor)].type == DType::f32;
      });
      if (product && wide && !shortened) sum += count_points(piece);
    }
  }
  return sum;
}

}  // namespace

void apply(const MachineRates& rates, Target& target) {
  auto fma = rates.fma_per_ns.find(target.vector_bits);
  if (fma != rates.fma_per_ns.end() && fma->second > 0) {
    double change = fma->second / target.fma_per_ns;
    target.fma_per_ns = fma->second;
    target.dot_bf16_per_ns *= change;
    target.dot_i16_per_ns *= change;
    target.dot_i8_per_ns *= change;
  }
  auto take = [](double measured, double& constant) {
    if (measured > 0) constant = measured;
  };
  if (target.tiles.bf16_per_ns > 0) take(rates.tile_bf16_per_ns, target.tiles.bf16_per_ns);
  if (target.tiles.i8_per_ns > 0) take(rates.tile_i8_per_ns, target.tiles.i8_per_ns);
  take(kUsefulBandwidth * rates.l2_bytes_per_ns, target.l2_bytes_per_ns);
  take(kUsefulBandwidth * rates.l3_bytes_per_ns, target.l3_bytes_per_ns);
  take(rates.dram_bytes_per_ns, target.dram_bytes_per_ns);
  if (rates.l3_bytes > 0) target.l3_bytes = std::max(rates.l3_bytes, target.l2_bytes);
}

Target without_rates(const Target& target) {
  Target plain = target;
  const Target defaults;
  plain.fma_per_ns = defaults.fma_per_ns;
  plain.dot_bf16_per_ns = defaults.dot_bf16_per_ns;
  plain.dot_i16_per_ns = defaults.dot_i16_per_ns;
  plain.dot_i8_per_ns = defaults.dot_i8_per_ns;
  plain.tiles.bf16_per_ns = defaults.tiles.bf16_per_ns;
  plain.tiles.i8_per_ns = defaults.tiles.i8_per_ns;
  plain.l2_bytes_per_ns = defaults.l2_bytes_per_ns;
  plain.l3_bytes_per_ns = defaults.l3_bytes_per_ns;
  plain.dram_bytes_per_ns = defaults.dram_bytes_per_ns;
  plain.l3_bytes = defaults.l3_bytes;
  return plain;
}

double bound_ns(const Kernel& kernel, const Target& target, const MachineRates& rates) {
  if (is_gpu(target)) return 0;
  auto fma = rates.fma_per_ns.find(target.vector_bits);
  if (fma == rates.fma_per_ns.end() || fma->second <= 0) return 0;
  double threads = target.threads;
  double arithmetic = 0;
  try {
    arithmetic = multiply_adds(kernel, target) / (threads * fma->second);
  } catch (const Failure&) {  // too many points to count
    return 0;
  }
  double bytes = moved_bytes(kernel, target);
  double near = threads * static_cast<double>(target.l2_bytes);
  double rate = 0;
  if (bytes > near) rate = std::max(rates.all_l3_bytes_per_ns, rates.l3_bytes_per_ns * threads);
  if (bytes > near + static_cast<double>(target.l3_bytes)) {
    rate = std::max(rates.all_dram_bytes_per_ns, rates.dram_bytes_per_ns);
  }
  return std::max(arithmetic, rate > 0 ? bytes / rate : 0);
}

}  // namespace tile
