#include "core/schedule/cost/time_bound.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/ir/analysis/operation_count.h"
#include "core/kernel/forms/window.h"
#include "core/kernel/geometry.h"
#include "core/schedule/facts/piece_facts.h"

namespace tile {
namespace {

// Bytes that the kernel must at least read and write: of each tensor what its largest access
// touches.
double moved_bytes(const Kernel& kernel, const Target& target) {
  std::map<TensorId, double> touched;
  for (const KernelStage& stage : kernel.stages) {
    for (const Piece& piece : stage.contraction.pieces) {
      PieceFacts facts(piece, stage.contraction, kernel, target);
      for (const AccessFacts& a : facts.accesses) {
        if (a.gathers) continue;
        double& bytes = touched[a.access->tensor];
        auto all = static_cast<double>(element_count(a.shape)) * a.bytes;
        bytes = std::max(bytes, std::min(all, a.footprint(piece.box)));
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
      bool shortened = carried_parallel_dim(piece, c, target).has_value();
      bool wide = std::all_of(piece.loads.begin(), piece.loads.end(), [&](const Access& load) {
        return kernel.tensors[load.tensor].type == DType::f32;
      });
      if (product && wide && !shortened) sum += count_points(piece);
    }
  }
  return sum;
}

}  // namespace

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
