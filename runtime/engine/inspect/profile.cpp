#include "runtime/engine/inspect/profile.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>

#include "core/ir/analysis/operation_count.h"
#include "core/kernel/forms/tensor_core_gemm.h"
#include "core/target/target.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/inspect/names.h"
#include "runtime/engine/steps/steps_in_blocks.h"

namespace tile {
namespace {

double bytes_of(const Executable& e, const Launch& launch) {
  double bytes = 0;
  for (TensorId id : launch.arguments) {
    const BoundTensor& t = launch.kernel ? launch.kernel->tensors[id] : e.program.tensors[id];
    bytes += static_cast<double>(element_count(t.shape)) * static_cast<double>(byte_size(t.type));
  }
  if (launch.loop) bytes *= static_cast<double>(launch.loop->trips);
  return bytes;
}

// Nullopt where they cannot be counted: there are too many points, or data set how often a loop
// inside the kernel runs.
std::optional<double> operations_of(const Kernel& kernel) {
  double operations = 0;
  for (const KernelStage& stage : kernel.stages) {
    for (const Piece& piece : stage.contraction.pieces) {
      std::optional<double> of_point = operations_with_folds(stage.contraction, piece);
      if (!of_point) return std::nullopt;
      try {
        operations += count_points(piece) * *of_point;
      } catch (const Failure&) {
        return std::nullopt;
      }
    }
  }
  return operations;
}

// A loop's: those of its step, for each of them. A sort counts none.
std::optional<double> operations_of(const Launch& launch) {
  if (launch.kernel) return operations_of(*launch.kernel);
  if (!launch.loop) return launch.sort ? std::optional(0.0) : std::nullopt;
  double operations = 0;
  for (const Launch& step : launch.loop->step->launches) {
    std::optional<double> of_step = operations_of(step);
    if (!of_step) return std::nullopt;
    operations += *of_step;
  }
  return operations * static_cast<double>(launch.loop->trips);
}

// Operations in a nanosecond at best: of the tensor cores where they multiply what the first stage
// reads.
double arithmetic_of(const Executable& e, const Launch& launch) {
  const Target& target = e.engine->target();
  double rate = target.fma_per_ns;
  if (is_gpu(target) && launch.kernel) {
    double matrix = std::numeric_limits<double>::infinity();
    for (const Piece& piece : launch.kernel->stages[0].contraction.pieces) {
      for (const Access& load : piece.loads) {
        DType type = e.program.tensors[load.tensor].type;
        matrix = std::min(matrix, tensor_core_rate(type, target));
      }
    }
    if (std::isfinite(matrix)) rate = std::max(rate, matrix);
  }
  return 2 * target.threads * rate;
}

}  // namespace

LaunchWork work_of(const Executable& e, const Launch& launch) {
  const Target& target = e.engine->target();
  LaunchWork work;
  work.bytes = bytes_of(e, launch);
  std::optional<double> operations = operations_of(launch);
  work.counted = operations.has_value();
  work.operations = operations.value_or(0);
  work.memory_ns = work.bytes / (target.dram_bytes_per_ns * target.threads);
  work.arithmetic_ns = work.operations / arithmetic_of(e, launch);
  return work;
}

std::vector<LaunchProfile> profile(const Executable& e, const std::vector<double>& ns) {
  if (e.restored) return profile(*compile_stages(e), ns);
  std::vector<LaunchProfile> launches;
  for (size_t i = 0; i < e.launches.size() && i < ns.size(); ++i) {
    LaunchProfile p;
    p.name = name_of(e.launches[i]);
    const std::optional<StepLoop>& loop = e.launches[i].loop;
    std::string way = loop && loop->blocks ? found_fastest(*loop->blocks) : "";
    if (!way.empty()) p.name += ", " + way;
    p.ns = ns[i];
    p.work = work_of(e, e.launches[i]);
    p.share = p.ns > 0 ? p.work.least_ns() / p.ns : 0;
    launches.push_back(p);
  }
  return launches;
}

namespace {

std::string rate_text(const LaunchProfile& p) {
  if (!p.work.counted) return "operations not counted ";
  char text[48];
  std::snprintf(text, sizeof text, "%10.1f GFLOP/s ", p.work.operations / p.ns);
  return text;
}

// The ceiling is that of the memory: what the caches hold is read faster.
std::string share_text(double share) {
  if (share > 1) return "(from the caches)  ";
  char text[32];
  std::snprintf(text, sizeof text, "%5.1f %% of the ceiling", 100 * share);
  return text;
}

}  // namespace

std::string to_text(const std::vector<LaunchProfile>& launches) {
  std::string out;
  double sum = 0;
  for (const LaunchProfile& p : launches) {
    char line[160];
    std::snprintf(line, sizeof line, "%12.3f us %9.1f GB/s ", p.ns / 1e3, p.work.bytes / p.ns);
    out += line + rate_text(p) + share_text(p.share) + "  " + p.name + "\n";
    sum += p.ns;
  }
  char line[64];
  std::snprintf(line, sizeof line, "%12.3f us in ", sum / 1e3);
  return out + line + std::to_string(launches.size()) + " launches\n";
}

}  // namespace tile
