// The random programs themselves: they run, they cover what they promise, they are reproducible.
#include <cmath>
#include <iostream>
#include <map>

#include "core/ir/program.h"
#include "tests/random/agreement/whole_agreement.h"
#include "tests/random/random_program.h"
#include "tests/random/random_whole.h"
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

BoundProgram bind_case(const RandomCase& drawn) { return bind_text(drawn.text, drawn.types); }

TEST(RandomPrograms, AreDeterministic) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    RandomCase a = random_case(seed), b = random_case(seed);
    EXPECT_EQ(a.text, b.text);
    ASSERT_EQ(a.inputs.size(), b.inputs.size());
    for (size_t i = 0; i < a.inputs.size(); ++i) EXPECT_EQ(a.inputs[i].bytes, b.inputs[i].bytes);
  }
  EXPECT_NE(random_case(1).text, random_case(2).text);
}

TEST(RandomPrograms, CoverEveryFeatureAndMostlyGiveNonZeroOutputs) {
  constexpr uint64_t kCount = 600;
  std::map<std::string, int> histogram;
  int nonzero = 0, exact = 0;
  for (uint64_t seed = 0; seed < kCount; ++seed) {
    RandomCase drawn = random_case(seed);
    for (const std::string& feature : drawn.features) ++histogram[feature];
    exact += drawn.exact ? 1 : 0;
    BoundProgram program = bind_case(drawn);
    ASSERT_NO_THROW(check_assignments(program)) << drawn.text;
    Interpretation result = interpret(program, drawn.inputs);
    int64_t set = 0, total = 0;
    for (const HostTensor& output : result.outputs) {
      for (int64_t i = 0; i < output.count(); ++i) set += is_true(output.at(i)) ? 1 : 0;
      total += output.count();
    }
    nonzero += 2 * set > total ? 1 : 0;
  }
  auto percent = [&](int n) { return 100.0 * n / static_cast<double>(kCount); };
  for (const auto& [feature, n] : histogram) {
    std::cout << "  " << feature << ": " << percent(n) << " %\n";
  }
  std::cout << "  mostly non-zero: " << percent(nonzero) << " %, exact: " << percent(exact)
            << " %\n";
  for (const char* feature :
       {"aggregation +",   "aggregation *",  "aggregation >",     "aggregation <", "aggregation =",
        "type bool",       "type i8",        "type i16",          "type i32",      "type i64",
        "type u8",         "type u16",       "type u32",          "type u64",      "type f16",
        "type bf16",       "type f8e4m3",    "type f8e5m2",       "type f32",      "type f64",
        "rational access", "coupled output", "constraint",        "empty set",     "size 1",
        "elementwise",     "broadcast",      "whole-tensor call", "default",       "body access",
        "body product",    "body sum",       "body expression"}) {
    EXPECT_GE(percent(histogram[feature]), 4) << feature;
  }
  EXPECT_GE(percent(nonzero), 80);
  EXPECT_GE(percent(exact), 50);
}

TEST(RandomPrograms, TextFormsRoundTrip) {  // rule 2.5, and the bound text
  for (uint64_t seed = 1000; seed < 1200; ++seed) {
    RandomCase drawn = random_case(seed);
    BoundProgram program = bind_case(drawn);
    std::string text = print(program);
    BoundProgram again = parse_bound(std::make_shared<const Source>(Source{"bound", text}));
    ASSERT_EQ(print(again), text);
    Program symbolic =
        parse_tile(std::make_shared<const Source>(Source{"random.tile", drawn.text}));
    BoundProgram reprinted = bind_text(print(symbolic), drawn.types);
    ASSERT_EQ(print(reprinted), text) << drawn.text;
  }
}

TEST(RandomPrograms, LargeAndRealModes) {
  RandomOptions large;
  large.large = true;
  RandomOptions real;
  real.real_values = true;
  int64_t most = 0;
  bool nan = false;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    RandomCase big = random_case(seed, large);
    InterpretOptions limits;
    limits.point_limit = int64_t{1} << 22;
    most = std::max(most, interpret(bind_case(big), big.inputs, limits).points);
    RandomCase wild = random_case(seed, real);
    EXPECT_FALSE(wild.exact);
    for (const HostTensor& input : wild.inputs) {
      for (int64_t i = 0; i < input.count(); ++i) nan = nan || std::isnan(input.at(i).f);
    }
  }
  EXPECT_GT(most, 4096);
  EXPECT_TRUE(nan);
}

// The results in double precision; none where the program's types do not go together then.
std::vector<HostTensor> without_rounding(const WholeCase& drawn) {
  WholeCase wide = in_double(drawn);
  try {
    return evaluated(wide, wide.drawn.inputs);
  } catch (const Failure&) {
    return {};
  }
}

// What is drawn as the same in every order of aggregation has no rounding in it.
void expect_nothing_rounded(uint64_t seed, int& compared) {
  WholeProgram drawn = random_whole(seed);
  drawn.gradients.clear();
  for (const WholeInput& input : drawn.inputs) {
    if (is_float(input.type) && bit_width(input.type) < 32) return;  // rounded to their own type
  }
  WholeCase c = case_of(drawn);
  std::vector<HostTensor> outputs = evaluated(c, c.drawn.inputs), exact = without_rounding(c);
  for (size_t o = 0; o < exact.size(); ++o) {
    if (!c.exact[o] || outputs[o].type != DType::f32) continue;
    ++compared;
    for (int64_t i = 0; i < outputs[o].count(); ++i) {
      double got = outputs[o].at(i).f, want = exact[o].at(i).f;
      ASSERT_TRUE(got == want || (std::isnan(got) && std::isnan(want)))
          << "seed " << seed << ", " << drawn.outputs[o] << ", element " << i << ": " << got
          << " for " << want << "\n"
          << text_of(drawn);
    }
  }
}

TEST(RandomPrograms, ExactOutputsHaveNoRounding) {
  int compared = 0;
  // Products of fractions, whose digits add up.
  for (uint64_t seed : {85000386}) expect_nothing_rounded(seed, compared);
  std::vector<uint64_t> drawn = seeds(0, 150);
  for (uint64_t seed : drawn) expect_nothing_rounded(seed, compared);
  EXPECT_GT(compared, static_cast<int>(drawn.size() / 4));
}

// A gradient that the compiler refuses is no reason to draw another program: it is found.
TEST(RandomPrograms, OnlyLimitsMakeAProgramDrawnAnew) {
  WholeProgram program;
  program.sizes = {{"N", 3}};
  HostTensor values(DType::f32, {3});
  program.inputs = {{"A", DType::f32, {"N"}, values}};
  program.statements = {{"T", "T[i: N] = +(A[i])", {"N"}}};
  program.outputs = {"T"};
  program.gradients = {{"T", {"A"}}};
  EXPECT_TRUE(within_limits(program));
  EXPECT_NO_THROW(case_of(program));
  program.gradients = {{"T", {"B"}}};
  EXPECT_TRUE(within_limits(program));
  EXPECT_THROW(case_of(program), Failure);
  program.gradients.clear();
  program.statements[0].text = "T[i: N] = +(A[i + 0 * j]), j < 1000000";
  EXPECT_FALSE(within_limits(program));
}

}  // namespace
}  // namespace tile::test
