// The space of kernels whose rows are held in registers of threads.
#include <algorithm>

#include "core/kernel/forms/gpu_forms.h"
#include "core/schedule/cost/gpu_model.h"
#include "core/schedule/legality/legality.h"
#include "core/schedule/space/gpu_schedule.h"

namespace tile::gpu {
namespace {

constexpr int64_t kLeastRows = 4, kNeighbourRows = 32;  // of f32: 16 bytes, a line of the cache

}  // namespace

std::vector<Schedule> line_schedules(const Kernel& kernel, const Target& target) {
  std::optional<LineForm> f = line_form(kernel);
  if (!f) return {};
  std::vector<std::pair<double, Schedule>> found;
  auto consider = [&](const GpuLines& g) {
    Schedule s;
    for (const KernelStage& stage : kernel.stages) {
      s.stages.emplace_back(stage.attach.valid() ? 0 : stage.contraction.pieces.size());
    }
    s.gpu_lines = g;
    if (!illegal_lines(g, *f, kernel, target).empty()) return;
    double ns = estimate_lines(g, *f, kernel, target) * (g.vector == 4 ? 1 : 1.1);
    found.emplace_back(ns, std::move(s));
  };
  for (int64_t vector : {4, 2, 1}) {
    if (f->fastest % vector != 0) continue;
    for (int64_t lanes = 16; lanes <= 1024; lanes *= 2) {
      for (int64_t rows = 1; rows * lanes <= 512 || rows == 1; rows *= 2) {
        bool idle = lanes > 2 * f->count / vector || (lanes * rows < 64 && f->row_count > 4096);
        if (!idle) consider({lanes, rows, vector, 1});
      }
      for (int64_t blocks = 2; blocks <= kMostClusterBlocks; blocks *= 2) {
        int64_t most = f->rows_are_neighbours ? kNeighbourRows : 1;
        for (int64_t rows = 1; rows <= most; rows = rows == 1 ? kLeastRows : 2 * rows) {
          bool idle = lanes * rows < 128 || lanes * blocks > f->count / vector;
          if (!idle) consider({lanes, rows, vector, blocks});
        }
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
