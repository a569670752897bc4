// Issue 22, item 2: attention as one streamed kernel on the emulated GPU, by warps (sm_80) and by
// groups of warps whose factors descriptors name (sm_90a); races are found. Beside it the same
// nests on their interpreter, and programs that must not be streamed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "backends/cuda/source.h"
#include "core/fusion/group.h"
#include "core/kernel/stream.h"
#include "core/lower/lower.h"
#include "core/nest/passes/nest_passes.h"
#include "core/pipeline/pipeline.h"
#include "core/schedule/legality/legality.h"
#include "core/schedule/space/candidates.h"
#include "core/schedule/space/gpu_schedule.h"
#include "tests/emulation/cases.h"
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

using Shapes = std::vector<std::pair<DType, Shape>>;

struct Attention {
  const char* name;
  std::string text;
  Shapes inputs;
  bool masked = false;  // has skipped points
  size_t before = 0;    // kernels that make masks
};

// Scores in f32, weights rounded to bf16.
std::string attention(const std::string& scores, const std::string& condition,
                      const std::string& cast = "as_bf16(E / Sum)") {
  return "function (Q[B, S, D], K[B, T, D], V[B, T, C]) -> (O) {\n"
         "  L[b, s, t: B, S, T] = +(" +
         scores + ");\n  Z = as_float(L, 32) * 0.25;\n  Top[b, s, 0: B, S, 1] = >(Z[b, s, t])" +
         condition + ";\n  E = exp(Z - Top);\n  Sum[b, s, 0: B, S, 1] = +(E[b, s, t])" + condition +
         ";\n  P = " + cast + ";\n  O[b, s, c: B, S, C] = +(P[b, s, t] * V[b, t, c])" + condition +
         ";\n}\n";
}
const std::string kWide = "as_float(Q[b, s, d], 32) * as_float(K[b, t, d], 32)";
const std::string kNarrow = "Q[b, s, d] * K[b, t, d]";

Shapes shapes(DType type, int64_t rows, int64_t columns, int64_t depth, int64_t values) {
  return {{type, {2, rows, depth}}, {type, {2, columns, depth}}, {type, {2, columns, values}}};
}

// The scores have the condition, too.
std::string with_gaps() {
  std::string text = attention(kNarrow, ", s - t < S");
  return text.replace(text.find(kNarrow + ");"), kNarrow.size() + 2, kNarrow + "), s - t < S;");
}

// Scores that are divided or capped under a condition; masks and biases that are statements.
std::vector<Attention> attentions_of_other_terms() {
  std::string divided = with_gaps(), capped = divided;
  divided.replace(divided.find("as_float(L, 32) * 0.25"), 22, "as_float(L, 32) / 4.0");
  capped.replace(capped.find("as_float(L, 32) * 0.25"), 22, "5.0 * tanh(as_float(L, 32) / 20.0)");
  auto masked_by = [](const std::string& input, const std::string& statement,
                      const std::string& scores) {
    std::string text = attention(kWide, "");
    text.replace(text.find("V[B, T, C]"), 10, "V[B, T, C]" + input);
    text.replace(text.find("as_float(L, 32) * 0.25"), 22, scores);
    return text.replace(text.find("  Z = "), 0, "  " + statement + ";\n");
  };
  std::string lengths = masked_by(", N[B]", "M[b, 0, t: B, 1, T] = =(t < 40 + N[b])",
                                  "(M ? as_float(L, 32) * 0.25 : -1e30)");
  std::string far = masked_by("", "M[s, t: S, T] = =(s - t >= 20 && t >= 4)",
                              "(M ? -1e30 : as_float(L, 32) * 0.25)");
  std::string table =
      masked_by(", R[W]", "M[s, t: S, T] = =(R[s - t + T - 1])", "as_float(L, 32) * 0.25 + M");
  auto with = [](Shapes list, DType type, Shape shape) {
    list.emplace_back(type, std::move(shape));
    return list;
  };
  return {
      {"gaps_divided", divided, shapes(DType::bf16, 65, 65, 24, 40), true},
      {"gaps_capped", capped, shapes(DType::bf16, 70, 70, 32, 32), true},
      {"lengths", lengths, with(shapes(DType::bf16, 70, 90, 32, 32), DType::i32, {2}), false, 1},
      {"far_columns", far, shapes(DType::bf16, 70, 70, 32, 32)},
      {"relative_table", table, with(shapes(DType::bf16, 70, 90, 32, 32), DType::f32, {159})},
  };
}

std::vector<Attention> attentions() {
  std::string bias = attention(kWide, "");
  bias.replace(bias.find("V[B, T, C]"), 10, "V[B, T, C], M[S, T]");
  bias.replace(bias.find("* 0.25"), 6, "* 0.25 + M");
  std::string keys = attention(kWide, "");
  keys.replace(keys.find("V[B, T, C]"), 10, "V[B, T, C], M[B, 1, T], N[B, 1, T]");
  keys.replace(keys.find("* 0.25"), 6, "* 0.25 + M + N");
  // All scores of one row are masked by a number that is far beyond the exponents of f32, before
  // the scale and after it.
  const std::string kMask = "(index(L, 1) == 3 ? -1e30 : ";
  std::string masked = attention(kWide, "");
  std::string masked_last = attention(kWide, "", "as_float(E / Sum, 16)");
  masked.replace(masked.find("as_float(L, 32) * 0.25"), 22, kMask + "as_float(L, 32)) * 0.17");
  masked_last.replace(masked_last.find("as_float(L, 32) * 0.25"), 22,
                      kMask + "as_float(L, 32) * 0.25)");
  // Several heads of queries share one of keys.
  std::string grouped =
      "function (Q[G, R, S, D], K[G, T, D], V[G, T, C]) -> (O, Top, Sum) {\n"
      "  L[g, r, s, t: G, R, S, T] = +(as_float(Q[g, r, s, d], 32) * as_float(K[g, t, d], 32));\n"
      "  Top[g, r, s, 0: G, R, S, 1] = >(L[g, r, s, t]);\n  E = exp(L - Top);\n"
      "  Sum[g, r, s, 0: G, R, S, 1] = +(E[g, r, s, t]);\n  P = as_bf16(E / Sum);\n"
      "  O[g, r, s, c: G, R, S, C] = +(P[g, r, s, t] * V[g, t, c]);\n}\n";
  std::string gaps = with_gaps();
  std::vector<Attention> all = attentions_of_other_terms();
  std::vector<Attention> more = {
      {"full", attention(kWide, ""), shapes(DType::bf16, 70, 90, 32, 32)},
      {"rounded_scores", attention(kNarrow, ""), shapes(DType::bf16, 33, 65, 17, 31)},
      {"f16", attention(kWide, "", "as_float(E / Sum, 16)"), shapes(DType::f16, 130, 40, 64, 72)},
      {"causal", attention(kWide, ", s - t < S"), shapes(DType::bf16, 150, 150, 16, 16), true},
      {"behind", attention(kNarrow, ", t - s < T"), shapes(DType::bf16, 150, 150, 16, 16), true},
      {"scores_with_gaps", gaps, shapes(DType::bf16, 65, 65, 24, 40), true},
      {"bias",
       bias,
       {{DType::bf16, {2, 70, 32}},
        {DType::bf16, {2, 90, 32}},
        {DType::bf16, {2, 90, 32}},
        {DType::f32, {70, 90}}}},
      {"key_biases",
       keys,
       {{DType::bf16, {2, 70, 32}},
        {DType::bf16, {2, 90, 32}},
        {DType::bf16, {2, 90, 32}},
        {DType::f32, {2, 1, 90}},
        {DType::f32, {2, 1, 90}}}},
      {"masked_row", masked, shapes(DType::bf16, 33, 40, 32, 32)},
      {"masked_row_behind_the_scale", masked_last, shapes(DType::f16, 33, 40, 32, 32)},
      {"grouped",
       grouped,
       {{DType::bf16, {2, 3, 66, 32}}, {DType::bf16, {2, 34, 32}}, {DType::bf16, {2, 34, 32}}}},
  };
  all.insert(all.begin(), more.begin(), more.end());
  return all;
}

std::vector<Attention> attentions_of_f32() {
  std::vector<Attention> all = attentions();
  for (Attention& a : all) {
    a.text = unrounded(a.text);
    for (auto& [type, shape] : a.inputs) type = is_float(type) ? DType::f32 : type;
  }
  return all;
}

RandomCase drawn(const Attention& a) {
  RandomCase c;
  c.text = a.text;
  c.exact = false;
  std::mt19937_64 random(1);
  std::normal_distribution<double> value(0, 1);
  for (const auto& [type, shape] : a.inputs) {
    HostTensor t(type, shape);
    for (int64_t i = 0; i < t.count(); ++i) t.set(i, real_scalar(value(random), type));
    c.types.push_back({type, shape});
    c.inputs.push_back(std::move(t));
  }
  return c;
}

Target target_of(const std::string& architecture) {
  Target target = *gpu_target(architecture);
  target.strict_skip = false;
  return target;
}

// So much faster than its memory that few scores are not stored either.
Target fast_target_of(const std::string& architecture) {
  Target target = target_of(architecture);
  target.dram_bytes_per_ns /= 1000;
  target.fma_per_ns *= 100;
  return target;
}

std::string far(const EmulatedCase& c, const std::vector<HostTensor>& got) {
  // Two roundings to 8 bits, one of the weights and one of the result.
  return far_from_largest(c, got, [](DType) { return 0.012; });
}

std::string far_in_f32(const EmulatedCase& c, const std::vector<HostTensor>& got) {
  return far_from_largest(c, got, [](DType) { return 1e-5; });
}

std::vector<Kernel> kernels(const Attention& a, const Target& target) {
  RandomCase c = drawn(a);
  BoundProgram program = bind_text(c.text, c.types);
  run_pipeline(program, target);
  GroupOptions options;
  options.streams = true;
  std::vector<Kernel> list;
  for (Step& step : group(program, target, options))
    list.push_back(std::get<Kernel>(std::move(step)));
  return list;
}

class Streams : public ::testing::TestWithParam<const char*> {
 protected:
  template <class Far>
  static void expect_one_kernel_each(const std::vector<Attention>& all, const Target& target,
                                     Far is_far) {
    std::vector<EmulatedCase> cases;
    for (const Attention& a : all) {
      SCOPED_TRACE(a.name);
      std::vector<Kernel> list = kernels(a, target);
      ASSERT_EQ(list.size(), 1 + a.before);
      EXPECT_TRUE(has_stream(list.back()));
      cases.push_back(lowered(0, 0, drawn(a), target));
      ASSERT_EQ(cases.back().steps.size(), 1 + a.before);
    }
    expect_emulated(cases, target, is_far);
  }
};

TEST_P(Streams, EveryAttentionIsOneKernelAndAgrees) {
  expect_one_kernel_each(attentions(), target_of(GetParam()), far);
}
TEST_P(Streams, EveryAttentionOfF32IsOneKernelAndAgrees) {
  expect_one_kernel_each(attentions_of_f32(), fast_target_of(GetParam()), far_in_f32);
}

// A lane with four rows of each block, and with two.
TEST_P(Streams, EveryScheduleOfF32Agrees) {
  Target target = fast_target_of(GetParam());
  std::vector<EmulatedCase> cases;
  for (const Attention& a : attentions_of_f32()) {
    if (std::string(a.name) != "causal" && std::string(a.name) != "key_biases") continue;
    for (GpuStream g : {GpuStream{256, 64, 2}, GpuStream{64, 16, 3}, GpuStream{128, 128, 2},
                        GpuStream{64, 32, 2}}) {
      PickSchedule pick = [&](const Kernel& kernel) {
        Schedule s = analytic_schedule(kernel, target);
        EXPECT_TRUE(s.gpu_stream.has_value());
        if (!s.gpu_stream) return s;
        s.gpu_stream = g;
        EXPECT_EQ(illegal(s, kernel, target), "");
        return s;
      };
      RandomCase c = drawn(a);
      BoundProgram program = bind_text(c.text, c.types);
      cases.push_back(lowered(cases.size(), pick, std::move(c), std::move(program), target));
    }
  }
  expect_emulated(cases, target, far_in_f32);
}

// Blocks of every size, and copies that run further ahead.
TEST_P(Streams, EveryScheduleAgrees) {
  Target target = target_of(GetParam());
  std::vector<EmulatedCase> cases;
  for (const Attention& a : attentions()) {
    if (std::string(a.name) != "causal" && std::string(a.name) != "f16") continue;
    for (GpuStream g : {GpuStream{64, 32, 2}, GpuStream{128, 96, 3}, GpuStream{192, 64, 2}}) {
      PickSchedule pick = [&](const Kernel& kernel) {
        Schedule s = analytic_schedule(kernel, target);
        EXPECT_TRUE(s.gpu_stream.has_value());
        s.gpu_stream = g;
        EXPECT_EQ(illegal(s, kernel, target), "");
        EXPECT_EQ(parse_schedule(print(s)), s);
        return s;
      };
      RandomCase c = drawn(a);
      BoundProgram program = bind_text(c.text, c.types);
      cases.push_back(lowered(cases.size(), pick, std::move(c), std::move(program), target));
    }
  }
  expect_emulated(cases, target, far);
}

INSTANTIATE_TEST_SUITE_P(Architectures, Streams, ::testing::Values("sm_80", "sm_90a"),
                         [](const auto& tested) { return std::string(tested.param); });

// Fewer multiprocessors than tiles: blocks stay and take tiles in turns.
class StreamsInTurns : public Streams {};
TEST_P(StreamsInTurns, EveryAttentionAgrees) {
  Target target = target_of(GetParam());
  target.gpu.multiprocessors = 2;
  expect_one_kernel_each(attentions(), target, far);
}
INSTANTIATE_TEST_SUITE_P(Hopper, StreamsInTurns, ::testing::Values("sm_90a"));

// A skipped point may hold an infinity that a weight of zero does not silence.
TEST(StreamRules, SkippedPointsAreNotComputedWhereThatIsForbidden) {
  Target strict = target_of("sm_90a");
  strict.strict_skip = true;
  for (const Attention& a : attentions()) {
    SCOPED_TRACE(a.name);
    std::vector<Kernel> list = kernels(a, strict);
    bool streamed = std::any_of(list.begin(), list.end(), has_stream);
    EXPECT_EQ(streamed, !a.masked);
  }
}

// Factors of f64 have no form, and no GPU before sm_80 has the copies.
TEST(StreamRules, OthersStayApart) {
  std::string text = attention("Q[b, s, d] * K[b, t, d]", "", "E / Sum");
  text.replace(text.find("as_float(L, 32)"), 15, "as_float(L, 64)");
  Attention wide{"f64", text, shapes(DType::f64, 70, 90, 32, 32)};
  for (const Kernel& k : kernels(wide, target_of("sm_90a"))) EXPECT_FALSE(has_stream(k));
  for (const Kernel& k : kernels(attentions()[0], target_of("sm_75"))) EXPECT_FALSE(has_stream(k));
}

// Values of one column are no product: nothing is left that tensor cores multiply weights with.
TEST(StreamRules, SumsOfSingleCellsStayApart) {
  std::string text = attention(kWide, "");
  text.replace(text.find("(O)"), 3, "(O, Sum)");
  Attention single{"single", text, shapes(DType::bf16, 70, 90, 32, 1)};
  for (const char* architecture : {"sm_80", "sm_90a"}) {
    for (const Kernel& k : kernels(single, target_of(architecture))) EXPECT_FALSE(has_stream(k));
  }
}

// The next block's scores are on their way, and this block's products too, while weights are made.
TEST(StreamRules, ProductsRunBesideWhatIsMadeOfOthers) {
  Target target = target_of("sm_90a");
  size_t overlapped = 0;
  for (const Attention& a : attentions()) {
    SCOPED_TRACE(a.name);
    EmulatedCase c = lowered(0, 0, drawn(a), target);
    const auto& launch = std::get<EmulatedLaunch>(c.steps.at(0));
    const std::string text = cuda::print_cuda(launch.nest, target).text;
    if (text.find("box_load(") == text.npos) continue;
    ++overlapped;
    size_t loop = text.find("for (int step = g", text.find("__global__"));
    size_t next = text.find("_first(", loop), sums = text.find("_registers(", next);
    size_t wait = text.find("group_wait<1>();", sums);
    EXPECT_NE(wait, text.npos) << text.substr(loop);
    // Weights in registers are made while nothing runs.
    size_t idle = text.find("group_wait<0>();", loop);
    EXPECT_LT(idle, next);
    EXPECT_LT(idle, text.find("stream_pair(", loop));
  }
  EXPECT_GT(overlapped, 0U);
}

// One block for each multiprocessor where there are more tiles, and none that waits for its turn at
// a barrier that suspends it ahead of its exponentials.
TEST(StreamRules, BlocksStayWhereThereAreMoreTilesThanMultiprocessors) {
  Target target = target_of("sm_90a");
  const Attention a = attentions()[0];
  auto source = [&](int multiprocessors) {
    target.gpu.multiprocessors = multiprocessors;
    EmulatedCase c = lowered(0, 0, drawn(a), target);
    return cuda::print_cuda(std::get<EmulatedLaunch>(c.steps.at(0)).nest, target);
  };
  cuda::CudaSource many = source(132), few = source(1);
  EXPECT_EQ(many.text.find("for (int round"), many.text.npos);
  EXPECT_GT(many.kernels.at(0).grid.value(), 1);
  EXPECT_NE(few.text.find("for (int round"), few.text.npos);
  EXPECT_EQ(few.kernels.at(0).grid.value(), 1);
  size_t turn = few.text.find("barrier_wait(turns");
  EXPECT_NE(few.text.rfind("if (!barrier_passed(turns", turn), few.text.npos);
}

TEST(StreamRules, BlocksThatDoNotFitAreRefused) {
  Target target = target_of("sm_90a");
  Kernel kernel = kernels(attentions()[0], target)[0];
  Schedule s = analytic_schedule(kernel, target);
  auto refused = [&](int64_t rows, int64_t columns, int64_t stages) {
    s.gpu_stream = GpuStream{rows, columns, stages};
    return illegal(s, kernel, target);
  };
  EXPECT_EQ(refused(128, 64, 2), "");
  EXPECT_EQ(refused(100, 64, 2), "a block of another size");
  EXPECT_EQ(refused(0, 64, 2), "a block of another size");
  EXPECT_EQ(refused(128, 24, 2), "a block of another size");
  EXPECT_EQ(refused(128, 64, 1), "a stream with another number of stages");
  EXPECT_EQ(refused(1024, 128, 2), "a block of another size");
  s.gpu_stream.reset();
  EXPECT_EQ(illegal(s, kernel, target), "a streamed axis among loops on a GPU");
}

// Values of columns come to shared memory where the block leaves room for them.
TEST(StreamRules, ValuesOfColumnsFitBesideBlocks) {
  std::vector<Attention> all = attentions();
  Attention keys = *std::find_if(all.begin(), all.end(),
                                 [](const auto& a) { return a.name == std::string("key_biases"); });
  for (size_t i = 0; i < 3; ++i) keys.inputs[i].second = {2, 512, 128};
  keys.inputs[3].second = {2, 1, 512};
  keys.inputs[4].second = {2, 1, 512};
  for (const char* architecture : {"sm_80", "sm_90a"}) {
    Target target = target_of(architecture);
    Kernel kernel = kernels(keys, target).at(0);
    size_t held = 0, loaded = 0;
    for (const Schedule& s : gpu::stream_schedules(kernel, target)) {
      nest::Nest nest = nest::run_passes(lower(kernel, s, target), target);
      cuda::CudaSource source = cuda::print_cuda(nest, target);
      for (const cuda::CudaKernel& k : source.kernels) {
        EXPECT_LE(static_cast<int64_t>(k.shared_bytes), target.gpu.shared_per_block) << print(s);
      }
      bool holds = source.text.find("* const values = ") != std::string::npos;
      ++(holds ? held : loaded);
    }
    EXPECT_GT(held, 0U);
    EXPECT_GT(loaded, 0U);
  }
}

}  // namespace
}  // namespace tile::test
