// Products whose conditions leave out cells, terms or both, by tiles of threads (SimtGemm) on the
// emulated GPU beside the reference: tiles without points do no steps, those with some do the steps
// that hold points. Sizes are such that tiles are cut by borders and by the diagonal.
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "core/schedule/legality/legality.h"
#include "core/schedule/space/candidates.h"
#include "tests/emulation/cases.h"
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

struct Masked {
  const char* name;
  std::string text;
  Shape first, second;
};

// Of scores [s, t], sums over t and sums over s, in two batches.
std::vector<Masked> products(int64_t s, int64_t t, int64_t depth) {
  auto scores = [](const std::string& condition) {
    return "function (A[B, S, D], C[B, T, D]) -> (O) { O[b, s, t: B, S, T] = +(A[b, s, d] * "
           "C[b, t, d])" +
           condition + "; }";
  };
  auto weighted = [](const std::string& condition) {
    return "function (A[B, S, T], C[B, T, D]) -> (O) { O[b, s, d: B, S, D] = +(A[b, s, t] * "
           "C[b, t, d])" +
           condition + "; }";
  };
  auto gathered = [](const std::string& condition) {
    return "function (A[B, S, T], C[B, S, D]) -> (O) { O[b, t, d: B, T, D] = +(A[b, s, t] * "
           "C[b, s, d])" +
           condition + "; }";
  };
  Shape rows{2, s, depth}, columns{2, t, depth}, square{2, s, t};
  const std::string causal = ", s - t < S", window = ", s - t < 20", later = ", t - s < T",
                    batched = ", s - t + 7 * b < S", stride = ", s - 2 * t < S",
                    both = ", s - t < S, t + 40 - s < 50";
  return {
      {"scores", scores(causal), rows, columns},
      {"scores of a window", scores(window), rows, columns},
      {"scores above", scores(later), rows, columns},
      {"scores by batch", scores(batched), rows, columns},
      {"scores of steps", scores(stride), rows, columns},
      {"scores of two conditions", scores(both), rows, columns},
      {"weighted", weighted(causal), square, columns},
      {"weighted by a window", weighted(window), square, columns},
      {"weighted above", weighted(later), square, columns},
      {"weighted by steps", weighted(stride), square, columns},
      {"gathered", gathered(causal), square, rows},
      {"gathered from a window", gathered(window), square, rows},
      {"gathered above", gathered(later), square, rows},
      {"gathered by steps", gathered(stride), square, rows},
  };
}

RandomCase drawn(const Masked& m, uint64_t seed) {
  RandomCase c;
  c.text = m.text;
  std::mt19937 random(seed);
  for (const Shape& shape : {m.first, m.second}) {
    HostTensor t(DType::f32, shape);
    for (int64_t i = 0; i < t.count(); ++i) {
      t.set(i, real_scalar(static_cast<double>(random() % 9) - 4, DType::f32));
    }
    c.types.push_back({DType::f32, shape});
    c.inputs.push_back(std::move(t));
  }
  return c;
}

// Tiles by rows, columns, terms, a thread's cells, parts of a split and stages.
constexpr SimtGemm kTiles[] = {
    {32, 32, 16, 4, 4, 1, 2, false}, {64, 32, 16, 4, 4, 2, 2, false},
    {32, 64, 16, 4, 4, 1, 3, false}, {64, 64, 16, 8, 8, 1, 3, true},
    {64, 64, 8, 4, 4, 3, 2, false},  {128, 64, 16, 8, 8, 1, 2, false},
};

TEST(MaskedProducts, AgreeUnderEveryTile) {
  const Target target = h200_target();
  std::vector<EmulatedCase> cases;
  size_t legal = 0;
  for (auto [s, t, depth] : {std::tuple{70, 70, 12}, {45, 133, 36}, {129, 64, 33}}) {
    for (const Masked& m : products(s, t, depth)) {
      SCOPED_TRACE(m.name);
      size_t next = cases.size();
      PickSchedule pick = [&](const Kernel& kernel) {
        Schedule schedule = analytic_schedule(kernel, target);
        if (kernel.stages.size() != 1) return schedule;
        for (size_t i = 0; i < std::size(kTiles); ++i) {
          Schedule tiles = schedule;
          tiles.stages[0][0] = PieceSchedule{};
          tiles.stages[0][0].gpu_form = kTiles[next++ % std::size(kTiles)];
          if (!illegal(tiles, kernel, target).empty()) continue;
          ++legal;
          return tiles;
        }
        return schedule;
      };
      for (int i = 0; i < 2; ++i) {
        RandomCase c = drawn(m, cases.size());
        BoundProgram program = bind_text(c.text, c.types);
        cases.push_back(lowered(cases.size(), pick, std::move(c), std::move(program), target));
      }
    }
  }
  EXPECT_GE(legal, cases.size() * 9 / 10);
  expect_emulated_agree(cases, target);
}

// A tile with an infinity is staged while the one before it is multiplied, which no point of a row
// before the infinity may see: each slot of tiles tells of its own.
TEST(MaskedProducts, InfinitiesBehindTheMaskAreNotSeenWhereThatIsForbidden) {
  Target target = h200_target();
  target.strict_skip = true;
  std::vector<EmulatedCase> cases;
  for (int64_t stages : {2, 3}) {
    RandomCase c = drawn({"weighted",
                          "function (A[S, T], C[T, D]) -> (O) { O[s, d: S, D] = +(A[s, t] * "
                          "C[t, d]), s - t < S; }",
                          {65, 65},
                          {65, 33}},
                         1);
    HostTensor& a = c.inputs[0];
    for (int64_t i = 0; i < a.count(); ++i) a.set(i, real_scalar(1, DType::f32));
    c.inputs[1].set(40 * 33 + 5, real_scalar(std::numeric_limits<double>::infinity(), DType::f32));
    BoundProgram program = bind_text(c.text, c.types);
    PickSchedule pick = [&](const Kernel& kernel) {
      Schedule s = analytic_schedule(kernel, target);
      s.stages[0][0] = PieceSchedule{};
      s.stages[0][0].gpu_form = SimtGemm{32, 32, 16, 4, 4, 1, stages, false};
      EXPECT_EQ(illegal(s, kernel, target), "");
      return s;
    };
    cases.push_back(lowered(cases.size(), pick, std::move(c), std::move(program), target));
  }
  expect_emulated_agree(cases, target);
}

// Steps of tiles behind the diagonal: what a factor holds there is not read.
TEST(MaskedProducts, PassByWhatNoPointReads) {
  const Target target = h200_target();
  Masked m{
      "scores",
      "function (A[S, D], C[T, D]) -> (O) { O[s, t: S, T] = +(A[s, d] * C[t, d]), s - t < 1; }",
      {256, 32},
      {256, 32}};
  RandomCase c = drawn(m, 1);
  BoundProgram program = bind_text(c.text, c.types);
  PickSchedule pick = [&](const Kernel& kernel) {
    Schedule s = analytic_schedule(kernel, target);
    s.stages[0][0] = PieceSchedule{};
    s.stages[0][0].gpu_form = SimtGemm{32, 32, 16, 4, 4, 1, 2, false};
    EXPECT_EQ(illegal(s, kernel, target), "");
    return s;
  };
  EmulatedCase one = lowered(1, pick, c, program, target);
  int steps = 0;
  const auto& launch = std::get<EmulatedLaunch>(one.steps.at(0));
  const std::string text = nest::print(launch.nest);
  for (size_t at = text.find("steps"); at != text.npos; at = text.find("steps", at + 1)) ++steps;
  EXPECT_GT(steps, 0) << text;
  expect_emulated_agree({one}, target);
}

}  // namespace
}  // namespace tile::test
