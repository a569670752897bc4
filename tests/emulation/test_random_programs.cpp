// Issue 5, item 4: printed SIMT kernels are executed, on random programs, against the reference
// interpreter: index arithmetic, guards, barriers and operations.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/fusion/group.h"
#include "core/kernel/forms/gpu_forms.h"
#include "core/kernel/schedule.h"
#include "core/pipeline/pipeline.h"
#include "core/schedule/space/candidates.h"
#include "core/schedule/space/gpu_schedule.h"
#include "tests/emulation/cases.h"
#include "tests/random/random_elements.h"
#include "tests/random/random_program.h"
#include "tests/support/interior_cases.h"
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

void expect_seeds_agree(const std::vector<uint64_t>& list, bool random_schedules,
                        const RandomOptions& options) {
  std::vector<EmulatedCase> cases;
  for (uint64_t seed : list) {
    try {
      cases.push_back(lowered(seed, random_schedules ? seed + 1 : 0, random_case(seed, options),
                              h200_target()));
    } catch (const InternalError& error) {
      ADD_FAILURE() << "seed " << seed << ": " << error.what();
    }
  }
  expect_emulated_agree(cases, h200_target());
}

TEST(Emulation, AnalyticSchedules) { expect_seeds_agree(seeds(0, 60), false, {}); }

TEST(Emulation, RandomSchedules) { expect_seeds_agree(seeds(100, 60), true, {}); }

TEST(Emulation, RealsNanAndInfinities) {
  RandomOptions reals;
  reals.real_values = true;
  expect_seeds_agree(seeds(200, 40), false, reals);
}

// Boundary rules, conditions on indices, index values and folds.
TEST(Emulation, Elements) {
  std::vector<EmulatedCase> cases;
  for (uint64_t seed : seeds(0, 60)) {
    ElementOptions options;
    options.large = seed % 4 == 0;
    ElementProgram drawn = random_elements(seed, options);
    RandomCase c;
    c.inputs = drawn.inputs;
    c.exact = false;
    c.text = print(drawn.program);
    try {
      cases.push_back(lowered(seed, seed % 3, c, drawn.program, h200_target()));
    } catch (const InternalError& error) {
      ADD_FAILURE() << "seed " << seed << ": " << error.what();
    }
  }
  expect_emulated_agree(cases, h200_target());
}

// A program on reals between -2 and 2.
RandomCase example(const std::string& text, const std::vector<Shape>& shapes) {
  RandomCase c;
  c.text = text;
  c.exact = false;
  std::mt19937_64 random(17);
  for (const Shape& shape : shapes) {
    c.types.push_back({DType::f32, shape});
    HostTensor t(DType::f32, shape);
    for (int64_t i = 0; i < t.count(); ++i) {
      t.set(i, real_scalar(static_cast<double>(random() % 4001) / 1000 - 2, DType::f32));
    }
    c.inputs.push_back(std::move(t));
  }
  return c;
}

constexpr const char* kSoftmax = R"(function (I[N, M]) -> (O) {
  X[n, 0: N, 1] = >(I[n, m]);
  E = exp(I - X);
  S[n, 0: N, 1] = +(E[n, m]);
  O = E / S;
})";
constexpr const char* kLayerNorm = R"(function (I[N, M], G[M], B[M]) -> (O) {
  S[n, 0: N, 1] = +(I[n, m]);
  D = I - S / M;
  Q = D * D;
  V[n, 0: N, 1] = +(Q[n, m]);
  O = D * rsqrt(V / M + 0.00001) * G + B;
})";
constexpr const char* kTwoRows = R"(function (I[A, B, M]) -> (O, X) {
  X[a, b, 0: A, B, 1] = >(I[a, b, m]);
  O = I - X;
})";

// Blocks with an interior body and others: sizes that tiles divide and odd ones, of which some
// leave no interior.
TEST(Emulation, StencilsAndFilters) {
  const std::vector<Shape> sizes = {{40, 272, 4}, {37, 201, 4}, {3, 70, 4}, {1, 1, 4}};
  std::vector<EmulatedCase> cases;
  for (const InteriorCase& c : interior_cases()) {
    for (size_t s = 0; s < sizes.size(); ++s) {
      std::vector<Shape> shapes;
      for (const Shape& declared : c.shapes) {
        Shape shape = sizes[s];
        bool volume = declared.size() == 3 && declared[2] > 4;
        if (volume)
          shape = s == 0 ? Shape{6, 12, 200}
                         : Shape{3, 1 + 8 * static_cast<int64_t>(2 - s % 3), sizes[s][1]};
        shape.resize(declared.size());
        shapes.push_back(shape);
      }
      RandomCase drawn;
      drawn.text = c.path;
      drawn.exact = false;
      BoundProgram program = bound(c, shapes);
      drawn.inputs = random_inputs(c, program, s);
      cases.push_back(lowered(s, 0, std::move(drawn), std::move(program), h200_target()));
    }
  }
  expect_emulated_agree(cases, h200_target(), true);
}

// Issue 5, item 2 (f): prefixes and suffixes along lines, of one line and of several.
TEST(Emulation, Scans) {
  std::vector<RandomCase> programs = {
      example("function (I[N]) -> (O) { O[i: N] = +(I[j]), i - j < N; }", {{1500}}),
      example("function (I[A, N]) -> (O) { O[a, i: A, N] = +(I[a, j]), i - j < N; }", {{3, 260}}),
      example("function (I[A, N]) -> (O) { O[a, i: A, N] = >(I[a, j]), j - i < N; }", {{4, 64}}),
      example("function (I[A, N]) -> (O) { O[a, i: A, N] = +(I[a, j]), i - j - 1 < N; }",
              {{2, 100}}),
      example("function (I[A, N]) -> (O) { O[a, i: A, N] = +(I[a, j]), i - j < N; }", {{2, 2500}})};
  std::vector<EmulatedCase> cases;
  for (const RandomCase& program : programs) {
    for (uint64_t seed = 0; seed <= 4; ++seed) {
      cases.push_back(lowered(seed, seed, program, h200_target()));
    }
  }
  expect_emulated_agree(cases, h200_target());
}

// Issue 5, item 2 (b): a row is read once and stays on chip.
TEST(Emulation, RowKernels) {
  std::vector<RandomCase> programs = {example(kSoftmax, {{6, 96}}),
                                      example(kSoftmax, {{5, 131}}),
                                      example(kSoftmax, {{3, 3000}}),
                                      example(kSoftmax, {{64, 33}}),
                                      example(kLayerNorm, {{7, 200}, {200}, {200}}),
                                      example(kLayerNorm, {{4, 77}, {77}, {77}}),
                                      example(kTwoRows, {{3, 4, 64}})};
  std::vector<EmulatedCase> cases;
  for (const RandomCase& program : programs) {
    cases.push_back(lowered(0, 0, program, h200_target()));
    EXPECT_EQ(cases.back().steps.size(), 1U) << program.text;
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      cases.push_back(lowered(seed, seed, program, h200_target()));
    }
  }
  expect_emulated_agree(cases, h200_target(), true);
}

// A row that a cluster of blocks holds, each a part of it.
TEST(Emulation, RowsOfClusters) {
  Target target = h200_target();
  std::vector<RandomCase> programs = {
      example(kSoftmax, {{3, 2052}}), example(kSoftmax, {{2, 9001}}),
      example(kLayerNorm, {{2, 3000}, {3000}, {3000}}), example(kTwoRows, {{2, 2, 4096}})};
  std::vector<EmulatedCase> cases;
  for (const RandomCase& program : programs) {
    for (int64_t blocks : {2, 4, 8}) {
      PickSchedule pick = [&](const Kernel& kernel) {
        std::vector<Schedule> list = gpu::line_schedules(kernel, target);
        auto found = std::find_if(list.begin(), list.end(),
                                  [&](const Schedule& s) { return s.gpu_lines->blocks == blocks; });
        EXPECT_NE(found, list.end()) << blocks;
        if (found == list.end()) return analytic_schedule(kernel, target);
        EXPECT_EQ(parse_schedule(print(*found)), *found);
        return *found;
      };
      BoundProgram bound = bind_text(program.text, program.types);
      cases.push_back(lowered(0, pick, program, std::move(bound), target));
    }
  }
  expect_emulated_agree(cases, target, true);
}

// A row larger than what a block's threads hold is one kernel all the same.
TEST(Emulation, LongRowsTakeClusters) {
  Target target = h200_target();
  BoundProgram program = bind_text(kSoftmax, {{DType::f32, {512, 131072}}});
  run_pipeline(program, target);
  std::vector<Step> steps = group(program, target);
  ASSERT_EQ(steps.size(), 1U);
  Schedule s = analytic_schedule(std::get<Kernel>(steps[0]), target);
  ASSERT_TRUE(s.gpu_lines);
  EXPECT_GT(s.gpu_lines->blocks, 1);
  // GPUs without clusters read the row more than once.
  Target older = a100_target();
  BoundProgram again = bind_text(kSoftmax, {{DType::f32, {512, 131072}}});
  run_pipeline(again, older);
  EXPECT_GT(group(again, older).size(), 1U);
}

}  // namespace
}  // namespace tile::test
