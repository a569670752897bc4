// Threads that compute several cells whose windows overlap (stencils, depthwise convolutions,
// windows with strides), on the emulated GPU beside the reference: borders on all sides, extents
// that leave some cells alone, sums, maxima, and what is empty.
#include <gtest/gtest.h>

#include "core/schedule/space/candidates.h"
#include "core/schedule/space/gpu_schedule.h"
#include "tests/emulation/cases.h"
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

const char* const kDepthwise =
    "function (I[N, H, W, C], K[A, B, C]) -> (O) {\n"
    "  O[n, y, x, c: N, H, W, C] = +(I[n, y + i - 1, x + j - 1, c] * K[i, j, c]);\n}\n";
const char* const kStrided =
    "function (I[N, H, W, C], K[A, B, C]) -> (O) {\n"
    "  O[n, y, x, c: N, (H + 1) / 2, (W + 1) / 2, C] = +(I[n, 2 * y + i - 2, 2 * x + j - 1, c] * "
    "K[i, j, c]);\n}\n";
const char* const kLargest =
    "function (I[H, W]) -> (O) {\n"
    "  O[y, x: H + 3, W] = >(I[y + i - 3, x + j - 1]), i < 3, j < 4;\n}\n";
const char* const kStencil =
    "function (U[X, Y, Z]) -> (V) {\n"
    "  V[i, j, k: X - 2, Y - 2, Z - 2] = =(0.4 * U[i + 1, j + 1, k + 1] + 0.1 * (U[i, j + 1, k + "
    "1] "
    "+ U[i + 2, j + 1, k + 1] + U[i + 1, j, k + 1] + U[i + 1, j + 2, k + 1] + U[i + 1, j + 1, k] + "
    "U[i + 1, j + 1, k + 2]));\n}\n";

// Whether a thread has cells of more than the dimension that neighbouring threads walk.
bool has_register_tile(const Schedule& schedule) {
  for (const std::vector<PieceSchedule>& stage : schedule.stages) {
    for (const PieceSchedule& piece : stage) {
      bool unrolled = !piece.tile.empty() && piece.tile.front().binding == Binding::unroll;
      if (unrolled) return true;
    }
  }
  return false;
}

TEST(RegisterTiles, AgreeWhereWindowsOverlap) {
  const Target target = h200_target();
  const std::vector<RandomCase> programs{
      random_inputs(4711, kDepthwise, {{2, 8, 12, 5}, {3, 3, 5}}),
      random_inputs(4711, kDepthwise, {{1, 4, 16, 8}, {3, 5, 8}}),
      random_inputs(4711, kDepthwise, {{3, 2, 2, 4}, {3, 3, 4}}),
      random_inputs(4711, kStrided, {{1, 15, 16, 4}, {5, 3, 4}}),
      random_inputs(4711, kLargest, {{14, 33}}),
      random_inputs(4711, kDepthwise, {{1, 19, 35, 3}, {3, 3, 3}}),
      random_inputs(4711, kStencil, {{10, 14, 19}})};
  std::vector<EmulatedCase> cases;
  size_t tiled = 0;
  for (const RandomCase& program : programs) {
    for (size_t turn = 0; turn < 4; ++turn) {
      PickSchedule pick = [&](const Kernel& kernel) {
        std::vector<Schedule> list = gpu::candidate_schedules(kernel, target, 1000);
        std::erase_if(list, [](const Schedule& s) { return !has_register_tile(s); });
        EXPECT_FALSE(list.empty()) << program.text;
        if (list.empty()) return analytic_schedule(kernel, target);
        ++tiled;
        const Schedule& s = list[turn * list.size() / 4];
        EXPECT_EQ(parse_schedule(print(s)), s);
        return s;
      };
      BoundProgram bound = bind_text(program.text, program.types);
      cases.push_back(lowered(cases.size(), pick, program, std::move(bound), target));
    }
  }
  EXPECT_EQ(tiled, cases.size());
  expect_emulated_agree(cases, target, true);
}

}  // namespace
}  // namespace tile::test
