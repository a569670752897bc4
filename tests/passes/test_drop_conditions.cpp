// Pointwise statements under conditions that their readers have, too: every output keeps every bit.
#include <gtest/gtest.h>

#include <cmath>

#include "core/fusion/group.h"
#include "core/pipeline/pipeline.h"
#include "tests/random/random_program.h"
#include "tests/random/random_source.h"
#include "tests/support/run_tile.h"
#include "tests/support/schedule_kernels.h"

namespace tile::test {
namespace {

HostTensor special(RandomSource& random, const Shape& shape) {
  HostTensor t(DType::f32, shape);
  for (int64_t i = 0; i < t.count(); ++i) {
    double v = random.percent(10) ? random.pick<double>({kNan, kInf, -kInf, 1000, -0.0})
                                  : static_cast<double>(random.in(-3, 3));
    t.set(i, real_scalar(v, DType::f32));
  }
  return t;
}

// Maps of L and of the maps before, each under one of a few conditions or none, and sums of them.
std::string random_maps(RandomSource& random) {
  const std::vector<std::string> conditions{"",
                                            ", s - t < S",
                                            ", s - t < S",
                                            ", s - t < 3",
                                            ", t < 5, s - t < S",
                                            ", s + t < 6",
                                            ", t - s < S"};
  std::string text = "function (L[S, S], M[S]) -> (", outputs, body, last = "L";
  int64_t maps = random.in(1, 4);
  for (int64_t i = 0; i < maps; ++i) {
    std::string name = "E" + std::to_string(i), sum = "R" + std::to_string(i);
    body += "  " + name + "[s, t: S, S] = =(exp(" + last + "[s, t] - M[s])" +
            (random.percent(30) ? " * (s - t)" : "") + ")" + random.pick(conditions) + ";\n";
    body += "  " + sum + "[s: S] = " + random.pick<std::string>({"+", ">"}) + "(" + name +
            random.pick<std::string>({"[s, t]", "[s, t]", "[t, s]"}) +
            (random.percent(50) ? " * L[s, t]" : "") + ")" + random.pick(conditions) + ";\n";
    outputs += (i == 0 ? "" : ", ") + sum;
    if (random.percent(60)) last = name;
  }
  return text + outputs + ") {\n" + body + "}\n";
}

TEST(DropConditions, RandomMapsKeepEveryBit) {
  size_t dropped = 0;
  for (uint64_t seed : seeds(0, 600)) {
    RandomSource random(seed);
    int64_t n = random.in(1, 9);
    std::string text = random_maps(random);
    std::vector<HostTensor> inputs{special(random, {n, n}), special(random, {n})};
    BoundProgram program = bind_text(text, types_of(inputs));
    std::vector<HostTensor> before;
    std::string text_before;
    PipelineOptions options;
    options.after = [&](std::string_view name, const BoundProgram& now) {
      if (name == "choose-by-conditions") {
        before = interpret(now, inputs).outputs;
        text_before = print(now);
      }
      if (name != "drop-conditions") return;
      dropped += print(now) != text_before;
      std::vector<HostTensor> after = interpret(now, inputs).outputs;
      for (size_t o = 0; o < before.size(); ++o) {
        ASSERT_EQ(before[o].bytes, after[o].bytes) << "seed " << seed << ":\n" << text;
      }
    };
    run_pipeline(program, {}, options);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(dropped, 60U);
}

// Elements of the largest tensor that a kernel of causal attention writes.
int64_t most_stored(const std::string& statements, const std::vector<std::string>& skip = {}) {
  const InputType type{DType::f32, {8, 1024, 64}};
  BoundProgram program =
      bind_text("function (Q[H, S, D], K[H, S, D], V[H, S, D]) -> (O) {" + statements + " }",
                {type, type, type});
  PipelineOptions options;
  options.passes.skip = skip;
  run_pipeline(program, testing::wide_target(), options);
  int64_t most = 0;
  for (const Step& step : group(program, testing::wide_target())) {
    for (TensorId id : std::get<Kernel>(step).writes) {
      most = std::max(most, element_count(program.tensors[id].shape));
    }
  }
  return most;
}
constexpr int64_t kResult = 8 * 1024 * 64, kScores = 8 * 1024 * 1024;

// Causal attention whose every statement has the condition is streamed as that whose sums have it.
TEST(DropConditions, CausalAttentionStoresNoScores) {
  const std::string text =
      " L[h, s, t: H, S, S] = +(Q[h, s, d] * K[h, t, d]), s - t < S;"
      " Z[h, s, t: H, S, S] = =(L[h, s, t] * rsqrt(as_float(D, 32))), s - t < S;"
      " Top[h, s, 0: H, S, 1] = >(Z[h, s, t]), s - t < S;"
      " E[h, s, t: H, S, S] = =(exp(Z[h, s, t] - Top[h, s, 0])), s - t < S;"
      " Sum[h, s, 0: H, S, 1] = +(E[h, s, t]), s - t < S;"
      " P[h, s, t: H, S, S] = =(E[h, s, t] / Sum[h, s, 0]), s - t < S;"
      " O[h, s, d: H, S, D] = +(P[h, s, t] * V[h, t, d]), s - t < S;";
  EXPECT_EQ(most_stored(text), kResult);
  EXPECT_EQ(most_stored(text, {"drop-conditions"}), kScores);
}

// A statement between that has no condition passes on that of its own readers.
TEST(DropConditions, WeightsWithoutTheConditionAreStreamedToo) {
  const std::string scores =
      " L[h, s, t: H, S, S] = +(Q[h, s, d] * K[h, t, d]);"
      " Top[h, s, 0: H, S, 1] = >(L[h, s, t]), s - t < S;"
      " E[h, s, t: H, S, S] = =(exp(L[h, s, t] - Top[h, s, 0])), s - t < S;"
      " Sum[h, s, 0: H, S, 1] = +(E[h, s, t]), s - t < S;"
      " P = E / Sum;";
  const std::string product = " O[h, s, d: H, S, D] = +(P[h, s, t] * V[h, t, d])";
  EXPECT_EQ(most_stored(scores + product + ", s - t < S;"), kResult);
  EXPECT_EQ(most_stored(scores + product + ";"), kScores) << "zeros are products of all values";
}

}  // namespace
}  // namespace tile::test
