// The space of kernels that blocks of a streamed axis pass by.
#include <algorithm>

#include "core/kernel/forms/gpu_stream.h"
#include "core/kernel/stream.h"
#include "core/schedule/cost/gpu_model.h"
#include "core/schedule/legality/legality.h"
#include "core/schedule/space/gpu_schedule.h"

namespace tile::gpu {

std::vector<Schedule> stream_schedules(const Kernel& kernel, const Target& target) {
  if (!is_gpu(target) || !has_stream(kernel)) return {};
  // Where products of the next block are issued before those of this one have ended, a third stage
  // is filled meanwhile. Of equal estimates the first is taken.
  std::optional<StreamForm> form = stream_form(kernel);
  bool by_threads = form && form->by_threads();
  bool overlaps = !by_threads && target.features.starts_with("sm_90a");
  const std::vector<int64_t> stage_counts =
      overlaps ? std::vector<int64_t>{3, 2} : std::vector<int64_t>{2, 3};
  std::vector<std::pair<double, Schedule>> found;
  using Sizes = std::vector<int64_t>;
  for (int64_t rows : by_threads ? Sizes{256, 128, 64} : Sizes{128, 192, 64}) {
    for (int64_t columns : by_threads ? Sizes{64, 32, 16} : Sizes{128, 96, 64, 32}) {
      for (int64_t stages : stage_counts) {
        Schedule s;
        for (const KernelStage& stage : kernel.stages) s.stages.emplace_back(!stage.attach.valid());
        s.gpu_stream = GpuStream{rows, columns, stages};
        if (!illegal_stream(s, kernel, target).empty()) continue;
        found.emplace_back(estimate_stream(*s.gpu_stream, kernel, target), std::move(s));
      }
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Schedule> list;
  for (auto& [ns, s] : found) list.push_back(std::move(s));
  return list;
}

}  // namespace tile::gpu
