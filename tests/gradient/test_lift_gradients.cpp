// Gradients of Lift programs against central differences (issue 6, item 5).
#include <gtest/gtest.h>

#include "core/autodiff/differentiate.h"
#include "core/language/lift/lift.h"
#include "tests/gradient/central_difference.h"
#include "tests/random/agreement/double_precision.h"
#include "tests/random/random_lift.h"
#include "tests/random/random_program.h"

namespace tile::test {
namespace {

Program parse(const std::string& text) {
  return in_double(parse_lift(std::make_shared<const Source>(Source{"gradient.lift", text})));
}

Agreement compare(const Program& program, const std::vector<HostTensor>& inputs,
                  RandomSource& random, std::string& report) {
  std::vector<std::string> wrt;
  for (TensorId id : program.inputs) wrt.push_back(program.tensors[id].name);
  const std::string& of = program.tensors[program.outputs[0]].name;
  return compare_with_differences({program, of, wrt, inputs}, random, report);
}

void expect_gradient(const std::string& text, const std::vector<Shape>& shapes) {
  Program program = parse(text);
  RandomSource random(text.size());
  std::vector<HostTensor> inputs;
  for (const Shape& shape : shapes) inputs.push_back(random_reals(random, shape));
  std::string report;
  EXPECT_EQ(compare(program, inputs, random, report), Agreement::agrees) << report << "\n" << text;
  // The gradient of the first input is a program like any other.
  const std::string& of = program.tensors[program.outputs[0]].name;
  const std::string& first = program.tensors[program.inputs[0]].name;
  Program derived = differentiate(program, of, {first});
  HostTensor seed = random_reals(random, outputs_of(program, inputs).at(0).shape);
  inputs.push_back(seed);
  std::vector<std::string> wrt;
  for (TensorId id : program.inputs) wrt.push_back(program.tensors[id].name);
  EXPECT_NE(compare_with_differences({derived, "D" + first, wrt, inputs}, random, report),
            Agreement::differs)
      << report << "\n"
      << text;
}

// Pads of pads have hundreds of boundary cases for each access, and these have as many again in the
// second derivative: what is more than a derivation has statements for is scattered.
TEST(LiftGradients, PadsOfPads) {
  Program program = parse(
      "val f = fun(ArrayType(ArrayType(Float, 7), 7), ArrayType(ArrayType(Float, 1), 13), (x, z) =>"
      " Map(Map((w => (At(0) o At(1) $ w) * 0.5f + (At(2) o At(0) $ w)))) o Slide2D(3, 1) o"
      " Pad2D(1, 1, clamp) $ (Map((a2, b2) => Map((p, q) => p * p + q * 0.25f) $ Zip(a2, b2)) $"
      " Zip((Pad(1, 1, Mirror) o Pad(3, 1, Wrap) o"
      " MapGlb(0)(Map(t => Get(t, 0) - Get(t, 1)) o ReduceSeq((a, t) => Get(t, 0) > Get(a, 0) ? t "
      ": a,"
      " Tuple(-1000.0f, 0.0f)) o (x => Zip(x, Gather(shift(1)) $ x)) o Reduce(add, 0.5f)) $ x), "
      "z)))");
  Program first = differentiate(program, "out", {"x", "z"});
  Program second = differentiate(first, "Dx", {"x"});
  EXPECT_LT(second.statements.size(), 10000U);
}

TEST(LiftGradients, ReductionsAndTuples) {
  expect_gradient(
      "val f = fun( ArrayType(Float, N), ArrayType(Float, N), (A, B) =>"
      " Reduce(add, 0.0f) o Map(mult) $ Zip(A, B))",
      {{7}, {7}});
  expect_gradient(
      "val f = fun( ArrayType(Float, N), ArrayType(Float, N), (A, B) =>"
      " Map((a, b) => Tuple(a * b, a + b * b)) $ Zip(A, B))",
      {{5}, {5}});
  expect_gradient(
      "val f = fun( ArrayType(Float, N), A =>"
      " Map(Reduce(max, -100.0f)) o Slide(3, 1) o Pad(1, 1, mirror) $ A)",
      {{6}});
  expect_gradient(
      "val f = fun( ArrayType(ArrayType(Float, K), M), ArrayType(ArrayType(Float, N), K), (A, B) =>"
      " Map(row => Map(col => Reduce(add, 0.0f) o Map(mult) $ Zip(row, col)) $"
      " Transpose() $ B) $ A)",
      {{3, 4}, {4, 2}});
}

TEST(LiftGradients, OrderedFolds) {
  expect_gradient(
      "val f = fun( ArrayType(Float, N), A =>"
      " Map(a => ReduceSeq((acc, x) => acc * 0.5f + x * a, a) $ A) $ A)",
      {{5}});
  expect_gradient(
      "val f = fun( ArrayType(Float, N), A =>"
      " ScanSeq((acc, x) => acc * 0.5f + x * x, 0.0f) $ A)",
      {{6}});
  expect_gradient(
      "val f = fun( ArrayType(Float, N), A =>"
      " ReduceSeq((acc, x) => acc * acc * 0.3f + x, 0.0f) o Pad(2, 2, clamp) $ A)",
      {{40}});
}

void expect_random_gradients(LiftTrial (*draw)(unsigned), uint64_t count) {
  int agreed = 0, programs = 0;
  for (uint64_t seed : seeds(0, count)) {
    LiftTrial trial = draw(static_cast<unsigned>(seed));
    SCOPED_TRACE("seed " + std::to_string(seed) + ":\n" + trial.text);
    try {
      RandomSource random(seed);
      HostTensor x = random_reals(random, Shape(trial.dims.begin(), trial.dims.end()));
      std::string report;
      Agreement agreement = compare(parse(trial.text), {x}, random, report);
      ASSERT_NE(agreement, Agreement::differs) << report;
      agreed += agreement == Agreement::agrees ? 1 : 0;
      ++programs;
    } catch (const Failure& f) {
      FAIL() << to_string(f.diagnostic().stage) << ": " << f.what();
    } catch (const InternalError& error) {
      FAIL() << error.what();
    }
  }
  EXPECT_GT(agreed, programs * 3 / 4);
}

TEST(LiftGradients, RandomCompositions) { expect_random_gradients(lift_trial, 150); }
TEST(LiftGradients, RandomViews) { expect_random_gradients(lift_view_trial, 60); }

}  // namespace
}  // namespace tile::test
