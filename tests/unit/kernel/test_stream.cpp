// Kernels with a streamed axis: rules, text form, shape, and every random schedule of
// attention-like programs against the reference interpreter.
#include <gtest/gtest.h>

#include "core/fusion/group.h"
#include "core/kernel/geometry.h"
#include "core/kernel/rows.h"
#include "core/kernel/stream.h"
#include "core/pipeline/pipeline.h"
#include "core/schedule/legality/legality.h"
#include "core/schedule/space/candidates.h"
#include "tests/support/run_tile.h"
#include "tests/support/schedule_kernels.h"
#include "tests/support/step_runner.h"

namespace tile::testing {
namespace {

using test::kInf;
using test::kNan;

constexpr const char* kAttention = R"(
function (Q[B, H, S, D], K[B, H, T, D], V[B, H, T, D], M[S, T]) -> (O) {
  L[b, h, s, t: B, H, S, T] = +(Q[b, h, s, d] * K[b, h, t, d]);
  Z = L * 0.125 + M;
  Top[b, h, s, 0: B, H, S, 1] = >(Z[b, h, s, t]);
  E = exp(Z - Top);
  Sum[b, h, s, 0: B, H, S, 1] = +(E[b, h, s, t]);
  P = E / Sum;
  O[b, h, s, d: B, H, S, D] = +(P[b, h, s, t] * V[b, h, t, d]);
})";

struct Sizes {
  int64_t b, h, s, t, d;
};

HostTensor noise(DType type, Shape shape, uint64_t seed) {
  std::mt19937_64 random(seed);
  HostTensor tensor(type, std::move(shape));
  for (int64_t i = 0; i < tensor.count(); ++i) {
    tensor.set(i, real_scalar(static_cast<double>(random() % 33) / 8 - 2, type));
  }
  return tensor;
}

std::vector<HostTensor> attention_inputs(const Sizes& n, DType type) {
  return {noise(type, {n.b, n.h, n.s, n.d}, 1), noise(type, {n.b, n.h, n.t, n.d}, 2),
          noise(type, {n.b, n.h, n.t, n.d}, 3), HostTensor(type, {n.s, n.t})};
}

size_t streamed(const std::vector<Step>& steps) {
  return static_cast<size_t>(std::count_if(steps.begin(), steps.end(), [](const Step& s) {
    const Kernel* k = std::get_if<Kernel>(&s);
    return k != nullptr && has_stream(*k);
  }));
}

// Runs the program under the analytic and `count` random schedules.
void expect_reference(const std::string& text, const std::vector<HostTensor>& inputs, int count,
                      double tolerance = 1e-5, size_t kernels = 1) {
  BoundProgram program = test::bind_text(text, test::types_of(inputs));
  std::vector<HostTensor> expected = interpret(program, inputs).outputs;
  run_pipeline(program, wide_target());
  std::vector<Step> steps = group(program, wide_target(), {.streams = true});
  ASSERT_EQ(streamed(steps), kernels);
  test::expect_steps_give(program, steps, inputs, expected, count, tolerance);
}

Kernel streamed_kernel(const std::string& text, const std::vector<InputType>& types) {
  BoundProgram program = test::bind_text(text, types);
  run_pipeline(program, wide_target());
  std::vector<Step> steps = group(program, wide_target(), {.streams = true});
  EXPECT_EQ(streamed(steps), 1U);
  EXPECT_EQ(steps.size(), 1U);
  return std::get<Kernel>(steps.at(0));
}
std::vector<InputType> attention_types(const Sizes& n) {
  return test::types_of(attention_inputs(n, DType::f32));
}

TEST(Stream, KernelsPrintAndParse) {
  Kernel kernel = streamed_kernel(kAttention, attention_types({1, 2, 7, 9, 4}));
  verify(kernel);
  auto source = std::make_shared<const Source>(Source{"k", print(kernel)});
  Kernel again = parse_kernel(source);
  EXPECT_EQ(print(again), source->text);
  EXPECT_TRUE(has_stream(again));
  verify(again);
}

TEST(Stream, WhatDoesNotFollowTheMaximumIsRefused) {
  Kernel kernel = streamed_kernel(kAttention, attention_types({1, 2, 7, 9, 4}));
  ASSERT_EQ(broken_stream(kernel), "");
  auto rescaled = [&](Kernel& k) {
    return std::find_if(k.stages.begin(), k.stages.end(),
                        [](auto& s) { return s.rescale.valid(); });
  };
  Kernel plain = kernel;
  rescaled(plain)->rescale = {};
  EXPECT_EQ(broken_stream(plain), "a sum that does not follow the maximum");
  Kernel squared = kernel;
  Body& body = rescaled(squared)->contraction.pieces[0].body;
  body.results = {body.operation(Op::square, {body.results[0]}, DType::f32)};
  EXPECT_EQ(broken_stream(squared), "a sum that does not follow the maximum");
  Kernel partly = kernel;
  KernelStage& last = partly.stages.back();
  (last.attach.valid() ? *rescaled(partly) : last).stream = {};
  EXPECT_EQ(broken_stream(partly), "a stage without the streamed axis");
}

TEST(Stream, SharedBlocksAreInnermostAndSerial) {
  Kernel kernel = streamed_kernel(kAttention, attention_types({1, 2, 7, 9, 4}));
  Schedule schedule = plain_schedule(kernel);
  ASSERT_EQ(illegal(schedule, kernel, wide_target()), "");
  Schedule turned = schedule;
  for (auto& pieces : turned.stages) {
    if (!pieces.empty()) std::swap(pieces[0].outer[0], pieces[0].outer[turned.shared - 1]);
  }
  EXPECT_EQ(illegal(turned, kernel, wide_target()), "a streamed axis not innermost");
}

// Worked example (d) of the design: no tensor, in memory or on chip, has both sequences.
TEST(Stream, NoTensorHasBothSequences) {
  constexpr int64_t kSequence = 512;
  BoundProgram program =
      test::bind_text(kAttention, attention_types({1, 2, kSequence, kSequence, 32}));
  run_pipeline(program, wide_target());
  std::vector<Step> steps = group(program, wide_target(), {.streams = true});
  ASSERT_EQ(steps.size(), 1U);
  const auto& kernel = std::get<Kernel>(steps[0]);
  EXPECT_EQ(kernel.writes.size(), 1U);
  Schedule schedule = analytic_schedule(kernel, wide_target());
  nest::Nest nest = lower(kernel, schedule, wide_target());
  for (const nest::Buffer& b : nest.buffers) {
    if (b.scope == nest::Scope::argument) continue;
    EXPECT_NE(b.scope, nest::Scope::workspace) << b.name;
    EXPECT_LT(element_count(b.shape), kSequence * kSequence / 2) << b.name;
  }
}

TEST(Stream, AttentionOfOddSizes) {
  for (const Sizes& n : {Sizes{1, 2, 7, 13, 5}, Sizes{2, 1, 19, 37, 6}, Sizes{1, 3, 33, 18, 16}}) {
    expect_reference(kAttention, attention_inputs(n, DType::f32), 24);
  }
}
TEST(Stream, SizesOfOne) {
  for (const Sizes& n : {Sizes{1, 5, 1, 9, 4}, Sizes{3, 1, 4, 11, 3}, Sizes{1, 1, 6, 2, 3}}) {
    expect_reference(kAttention, attention_inputs(n, DType::f32), 16);
  }
  // Nothing is left to stream.
  expect_reference(kAttention, attention_inputs({1, 2, 6, 1, 3}, DType::f32), 8, 1e-5, 0);
}
TEST(Stream, CausalMask) {
  std::vector<HostTensor> inputs = attention_inputs({1, 2, 21, 21, 4}, DType::f32);
  for (int64_t s = 0; s < 21; ++s) {
    for (int64_t t = s + 1; t < 21; ++t) inputs[3].set(s * 21 + t, real_scalar(-kInf, DType::f32));
  }
  expect_reference(kAttention, inputs, 30);
}
// Blocks, rows, and everything masked; infinite and undefined terms; values that a weight of zero
// meets.
TEST(Stream, InfinitiesAndNaN) {
  std::vector<HostTensor> inputs = attention_inputs({1, 1, 12, 29, 4}, DType::f32);
  auto mask = [&](int64_t s, int64_t t, double x) {
    inputs[3].set(s * 29 + t, real_scalar(x, DType::f32));
  };
  for (int64_t t = 0; t < 29; ++t) {
    if (t < 17) mask(0, t, -kInf);
    if (t > 3) mask(1, t, -kInf);
    mask(2, t, -kInf);
    mask(7, t, t == 9 ? 0 : -kInf);
  }
  mask(3, 11, kNan);
  mask(4, 20, kInf);
  mask(5, 0, kInf);
  mask(5, 1, kInf);
  mask(6, 28, 1e30);
  mask(8, 2, -1e30);
  expect_reference(kAttention, inputs, 40);
  inputs[2].set(5 * 4 + 1, real_scalar(kInf, DType::f32));
  inputs[2].set(25 * 4 + 2, real_scalar(kNan, DType::f32));
  expect_reference(kAttention, inputs, 40);
}
TEST(Stream, NarrowTypes) {
  expect_reference(kAttention, attention_inputs({1, 2, 9, 23, 8}, DType::bf16), 20, 0.05);
  expect_reference(kAttention, attention_inputs({1, 2, 9, 23, 8}, DType::f16), 20, 0.02);
}

// The same sums written otherwise: divided afterwards; weights of their own; the logarithm of the
// sum beside it; no product in the terms.
TEST(Stream, OtherForms) {
  std::vector<HostTensor> inputs = {noise(DType::f32, {11, 4}, 1), noise(DType::f32, {17, 4}, 2),
                                    noise(DType::f32, {17, 3}, 3)};
  expect_reference(
      "function (Q[S, D], K[T, D], V[T, C]) -> (O) { L[s, t: S, T] = +(Q[s, d] * K[t, d]);"
      " Top[s, 0: S, 1] = >(L[s, t]); E = exp(L - Top); Sum[s, 0: S, 1] = +(E[s, t]);"
      " R[s, c: S, C] = +(V[t, c] * E[s, t]); O = R / Sum; }",
      inputs, 24);
  expect_reference(
      "function (Q[S, D], K[T, D], V[T, C]) -> (O, LSE) { L[s, t: S, T] = +(Q[s, d] * K[t, d]);"
      " Top[s, 0: S, 1] = >(L[s, t]); E = exp(L - Top); Sum[s, 0: S, 1] = +(E[s, t]);"
      " LSE = log(Sum) + Top; P = E * (1.0 / Sum);"
      " O[s, c: S, C] = +(P[s, t] * V[t, c]); }",
      inputs, 24);
  expect_reference(
      "function (X[S, T], W[S, T], V[T, C]) -> (O) { Top[s, 0: S, 1] = >(X[s, t]);"
      " E = exp(X - Top) * W; O[s, c: S, C] = +(E[s, t] * V[t, c]); }",
      {noise(DType::f32, {9, 17}, 4), noise(DType::f32, {9, 17}, 5), inputs[2]}, 24);
}

// Conditions on the sums: a query sees the keys up to its own place.
std::string conditional_attention(const std::string& condition) {
  return "function (Q[S, D], K[T, D], V[T, C]) -> (O, LSE) { L[s, t: S, T] = +(Q[s, d] * K[t, d]);"
         " Top[s, 0: S, 1] = >(L[s, t])" +
         condition + "; E = exp(L - Top); Sum[s, 0: S, 1] = +(E[s, t])" + condition +
         "; LSE = log(Sum) + Top; R[s, c: S, C] = +(E[s, t] * V[t, c])" + condition +
         "; O = R / Sum; }";
}
std::vector<HostTensor> plain_inputs(int64_t queries, int64_t keys, DType type = DType::f32) {
  return {noise(type, {queries, 4}, 1), noise(type, {keys, 4}, 2), noise(type, {keys, 3}, 3)};
}
TEST(Stream, CausalConditions) {
  std::string text = conditional_attention(", s - t < S");
  for (int64_t n : {2, 7, 21, 37, 64}) expect_reference(text, plain_inputs(n, n), 30);
  expect_reference(text, plain_inputs(30, 9), 24);
  expect_reference(text, plain_inputs(19, 19, DType::bf16), 16, 0.05);
  // Steeper, and the other way round.
  expect_reference(conditional_attention(", s - 2 * t + 2 < S + 2"), plain_inputs(40, 20), 24);
  expect_reference(conditional_attention(", t - s < T"), plain_inputs(17, 25), 24);
}
// The scores have the condition, too, and are zero elsewhere: what is made of them cell by cell is
// made where the kernel has them.
std::string attention_with_gaps(const std::string& scaled) {
  return "function (Q[S, D], K[T, D], V[T, C]) -> (O) {"
         " L[s, t: S, T] = +(Q[s, d] * K[t, d]), s - t < S; Z = " +
         scaled +
         "; Top[s, 0: S, 1] = >(Z[s, t]), s - t < S; E = exp(Z - Top);"
         " Sum[s, 0: S, 1] = +(E[s, t]), s - t < S; P = E / Sum;"
         " O[s, c: S, C] = +(P[s, t] * V[t, c]), s - t < S; }";
}
TEST(Stream, ScoresUnderAConditionAreMadeWithWhatFollows) {
  for (const char* scaled : {"L * 0.5", "L / 3.0", "2.0 * tanh(L / 5.0)", "L / 3.0 + L * L"}) {
    SCOPED_TRACE(scaled);
    for (int64_t n : {2, 21, 37}) {
      expect_reference(attention_with_gaps(scaled), plain_inputs(n, n), 16);
    }
  }
  expect_reference(attention_with_gaps("L / 3.0"), plain_inputs(19, 19, DType::bf16), 16, 0.05);
}
// Others read the zeros between them.
TEST(Stream, ScoresThatOthersReadKeepTheirGaps) {
  std::string text = attention_with_gaps("L / 3.0");
  for (const char* read : {"N[t: T] = +(L[s, t])", "N[t: T] = +(Z[s, t] * Z[s, t])", "N = Z"}) {
    SCOPED_TRACE(read);
    std::string more = text;
    more.replace(more.find("(O)"), 3, "(O, N)");
    more.replace(more.rfind("}"), 1, std::string(read) + "; }");
    expect_reference(more, plain_inputs(21, 21), 8, 1e-5, 0);
  }
}
// Masks of keys, and values that distances name.
TEST(Stream, TermsOfMasksAndTables) {
  std::vector<HostTensor> inputs = plain_inputs(11, 17);
  inputs.push_back(noise(DType::f32, {27}, 4));
  auto terms = [](const std::string& made, const std::string& scores) {
    return "function (Q[S, D], K[T, D], V[T, C], R[W]) -> (O) {"
           " L[s, t: S, T] = +(Q[s, d] * K[t, d]); " +
           made + "; Z = " + scores +
           "; Top[s, 0: S, 1] = >(Z[s, t]); E = exp(Z - Top); Sum[s, 0: S, 1] = +(E[s, t]);"
           " P = E / Sum; O[s, c: S, C] = +(P[s, t] * V[t, c]); }";
  };
  expect_reference(terms("M[s, t: S, T] = =(R[s - t + T - 1])", "L + M"), inputs, 16);
  expect_reference(terms("M[0, t: 1, T] = =(t < 12 && R[t] < 1.0)", "M ? L : -1e30"), inputs, 16);
  expect_reference(terms("M[s, t: S, T] = =(t - s >= 3 && t >= 2)", "M ? -1e30 : L"), inputs, 16);
}
TEST(Stream, WhatAQueryDoesNotSeeIsNotRead) {
  std::vector<HostTensor> inputs = plain_inputs(29, 29);
  inputs[1].set(20 * 4, real_scalar(kNan, DType::f32));  // seen by queries from 20 on
  inputs[2].set(25 * 3, real_scalar(kInf, DType::f32));
  inputs[2].set(7 * 3 + 1, real_scalar(kNan, DType::f32));
  inputs[1].set(9 * 4 + 2, real_scalar(-kInf, DType::f32));
  expect_reference(conditional_attention(", s - t < S"), inputs, 40);
  expect_reference(attention_with_gaps("L / 3.0"), inputs, 40);
}

// Blocks of keys behind all queries of a block are not visited: the loop over them ends early.
TEST(Stream, BlocksBehindTheDiagonalAreNotVisited) {
  BoundProgram program =
      test::bind_text(conditional_attention(", s - t < S"), test::types_of(plain_inputs(512, 512)));
  run_pipeline(program, wide_target());
  std::vector<Step> steps = group(program, wide_target(), {.streams = true});
  ASSERT_EQ(steps.size(), 1U);
  const auto& kernel = std::get<Kernel>(steps[0]);
  EXPECT_NEAR(visited_share(kernel, {64, 64}), 4.5 / 8, 1e-9);
  EXPECT_EQ(visited_share(kernel, {512, 512}), 1);
  std::vector<std::vector<StreamBound>> bounds = stream_bounds(kernel, {64, 64});
  ASSERT_EQ(bounds.size(), 3U);
  EXPECT_EQ(bounds[0].at(0).rows, std::vector<int64_t>{1});
  EXPECT_EQ(bounds[0].at(0).constant, 63);
}

// A block of all keys would spare none, however well it fits a cache.
TEST(Stream, BlocksAreCutWhereConditionsSpareSome) {
  auto keys_at_a_time = [](const std::string& condition) {
    Kernel kernel =
        streamed_kernel(conditional_attention(condition), test::types_of(plain_inputs(256, 256)));
    Schedule pick = analytic_schedule(kernel, wide_target());
    return pick.stages[0][0].outer[pick.shared - 1].step;
  };
  EXPECT_EQ(keys_at_a_time(""), 256);
  EXPECT_LT(keys_at_a_time(", s - t < S"), 256);
}

// A maximum over some keys does not bound the exponentials of the others.
TEST(Stream, SumsOfTermsThatTheMaximumDoesNotCoverStay) {
  BoundProgram program = test::bind_text(
      "function (Q[S, D], K[T, D], V[T, C]) -> (O) { L[s, t: S, T] = +(Q[s, d] * K[t, d]);"
      " Top[s, 0: S, 1] = >(L[s, t]), s - t < S; E = exp(L - Top);"
      " O[s, c: S, C] = +(E[s, t] * V[t, c]); }",
      test::types_of(plain_inputs(11, 11)));
  run_pipeline(program, wide_target());
  EXPECT_EQ(streamed(group(program, wide_target(), {.streams = true})), 0U);
}

// Where the weights are wanted themselves nothing streams.
TEST(Stream, WeightsThatAreOutputsStay) {
  BoundProgram program = test::bind_text(
      "function (Q[S, D], K[T, D], V[T, C]) -> (P, O) { L[s, t: S, T] = +(Q[s, d] * K[t, d]);"
      " Top[s, 0: S, 1] = >(L[s, t]); E = exp(L - Top); Sum[s, 0: S, 1] = +(E[s, t]);"
      " P = E / Sum; O[s, c: S, C] = +(P[s, t] * V[t, c]); }",
      {{DType::f32, {11, 4}}, {DType::f32, {17, 4}}, {DType::f32, {17, 3}}});
  run_pipeline(program, wide_target());
  EXPECT_EQ(streamed(group(program, wide_target(), {.streams = true})), 0U);
}

}  // namespace
}  // namespace tile::testing
