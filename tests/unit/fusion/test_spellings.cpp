// One contraction written in several ways reaches one class and one estimate: names, the order of
// factors, dimensions of one element and merged or split indices are spelling.
#include <gtest/gtest.h>

#include "core/fusion/group.h"
#include "core/pipeline/pipeline.h"
#include "core/schedule/cost/estimate.h"
#include "core/schedule/space/candidates.h"
#include "tests/support/run_tile.h"
#include "tests/support/schedule_kernels.h"

namespace tile::testing {
namespace {

struct Spelling {
  std::string text;
  Shape picture, filter;
};

// The kernel that the engine would schedule.
Kernel kernel_of(const Spelling& s, const Target& target) {
  BoundProgram program = test::bind_text(s.text, {{DType::f32, s.picture}, {DType::f32, s.filter}});
  run_pipeline(program, target);
  std::vector<Step> steps = group(program, target);
  EXPECT_EQ(steps.size(), 1U) << s.text;
  return std::get<Kernel>(steps[0]);
}

KernelClass class_of(const Kernel& kernel) {
  const Contraction& c = kernel.stages[0].contraction;
  return classify(c.pieces[0], c, kernel.tensors).kind;
}

// Estimates may differ by the 5 % that one convolution's spellings may differ in speed.
void expect_alike(const std::vector<Spelling>& spellings) {
  Target target = wide_target();
  std::optional<std::pair<KernelClass, double>> first;
  for (const Spelling& s : spellings) {
    SCOPED_TRACE(s.text);
    Kernel kernel = kernel_of(s, target);
    Schedule schedule = analytic_schedule(kernel, target);
    double time = estimate(schedule, kernel, target);
    if (!first) first = {class_of(kernel), time};
    EXPECT_EQ(class_of(kernel), first->first);
    EXPECT_LE(time, 1.05 * first->second) << print(kernel) << print(schedule);
    EXPECT_GE(time, 0.95 * first->second) << print(kernel) << print(schedule);
  }
}

const char* const kPlain =
    "function (I[N, H, W, CI], K[KH, KW, CI, CO]) -> (O) {"
    " O[n, y, x, co: N, H, W, CO] ="
    " +(I[n, y + j - (KH - 1) / 2, x + i - (KW - 1) / 2, ci] * K[j, i, ci, co]); }";
const char* const kRenamed =
    "function (I[N, H, W, CI], K[KH, KW, CI, CO]) -> (O) {"
    " O[d, b, c, a: N, H, W, CO] ="
    " +(K[z, e, f, a] * I[d, z + b - (KH - 1) / 2, e + c - (KW - 1) / 2, f]); }";
const char* const kVolume =
    "function (I[N, D, H, W, CI], K[KD, KH, KW, CI, CO]) -> (O) {"
    " O[n, z, y, x, co: N, D, H, W, CO] = +(I[n, z + l - (KD - 1) / 2, y + j - (KH - 1) / 2,"
    " x + i - (KW - 1) / 2, ci] * K[l, j, i, ci, co]); }";
const char* const kSplit =
    "function (I[N, H, W, CB, CI], K[KH, KW, CB, CI, DB, CO]) -> (O) {"
    " O[n, y, x, db, co: N, H, W, DB, CO] ="
    " +(I[n, y + j - (KH - 1) / 2, x + i - (KW - 1) / 2, cb, ci] * K[j, i, cb, ci, db, co]); }";
const char* const kPositions =
    "function (I[N, H, W, CI], K[KH, KW, CI, CO]) -> (O) {"
    " O[n, y - j + (KH - 1) / 2, x - i + (KW - 1) / 2, co: N, H, W, CO] ="
    " +(I[n, y, x, ci] * K[j, i, ci, co]); }";
const char* const kLine =
    "function (I[N, W, CI], K[KW, CI, CO]) -> (O) {"
    " O[n, x, co: N, W, CO] = +(I[n, x + i - (KW - 1) / 2, ci] * K[i, ci, co]); }";
const char* const kProduct =
    "function (I[P, CI], K[CI, CO]) -> (O) { O[p, co: P, CO] = +(I[p, ci] * K[ci, co]); }";

TEST(Spellings, WindowsOfTwoDimensions) {
  expect_alike({{kPlain, {4, 28, 28, 64}, {3, 3, 64, 64}},
                {kRenamed, {4, 28, 28, 64}, {3, 3, 64, 64}},
                {kPositions, {4, 28, 28, 64}, {3, 3, 64, 64}},
                {kVolume, {4, 1, 28, 28, 64}, {1, 3, 3, 64, 64}},
                {kSplit, {4, 28, 28, 4, 16}, {3, 3, 4, 16, 2, 32}}});
}

TEST(Spellings, WindowsOfOneDimension) {
  expect_alike({{kLine, {8, 4096, 32}, {5, 32, 32}},
                {kPlain, {8, 1, 4096, 32}, {1, 5, 32, 32}},
                {kRenamed, {8, 1, 4096, 32}, {1, 5, 32, 32}},
                {kPositions, {8, 1, 4096, 32}, {1, 5, 32, 32}},
                {kVolume, {8, 1, 1, 4096, 32}, {1, 1, 5, 32, 32}},
                {kSplit, {8, 1, 4096, 2, 16}, {1, 5, 2, 16, 2, 16}}});
}

TEST(Spellings, WindowsOfOnePointAreProducts) {
  expect_alike({{kProduct, {6272, 128}, {128, 256}},
                {kPlain, {8, 28, 28, 128}, {1, 1, 128, 256}},
                {kRenamed, {8, 28, 28, 128}, {1, 1, 128, 256}},
                {kPositions, {8, 28, 28, 128}, {1, 1, 128, 256}},
                {kVolume, {8, 1, 28, 28, 128}, {1, 1, 1, 128, 256}},
                {kSplit, {8, 28, 28, 8, 16}, {1, 1, 8, 16, 4, 64}}});
}

}  // namespace
}  // namespace tile::testing
