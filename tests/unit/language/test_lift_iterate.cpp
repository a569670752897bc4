// Lift's Iterate: as many steps as single ones, of one size however many they are, without arrays
// of windows, and with gradients.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/autodiff/differentiate.h"
#include "core/interpret/interpret.h"
#include "core/ir/repeat.h"
#include "core/language/lift/lift.h"
#include "core/language/lift/views.h"
#include "core/passes/bind/bind.h"
#include "core/pipeline/pipeline.h"
#include "tests/random/random_iteration.h"

namespace tile::test {
namespace {

using ::testing::HasSubstr;

Program parse_text(const std::string& text) {
  return parse_lift(std::make_shared<const Source>(Source{"steps.lift", text}));
}

BoundProgram bound_for(const Program& program, const std::vector<HostTensor>& inputs) {
  std::vector<InputType> types;
  for (const HostTensor& t : inputs) types.push_back({t.type, t.shape});
  BoundProgram bound = tile::bind(program, types);
  verify(bound);
  return bound;
}

HostTensor result_of(const Program& program, const std::vector<HostTensor>& inputs) {
  return interpret(bound_for(program, inputs), inputs).outputs.at(0);
}

HostTensor random_tensor(RandomSource& random, const std::vector<int64_t>& shape) {
  HostTensor t(DType::f32, shape);
  for (int64_t i = 0; i < t.count(); ++i) {
    t.set(i, real_scalar(static_cast<double>(random.in(-16, 16)) / 16, DType::f32));
  }
  return t;
}

const Repeat* only_repeat(const Program& program) {
  const Repeat* found = nullptr;
  for (const Statement& s : program.statements) {
    const Repeat* repeat = std::get_if<Repeat>(&s.what);
    if (repeat == nullptr) continue;
    EXPECT_EQ(found, nullptr) << "two loops";
    found = repeat;
  }
  return found;
}

int64_t largest(const BoundProgram& program) {
  int64_t most = 0;
  for (const BoundTensor& t : program.tensors) most = std::max(most, element_count(t.shape));
  for (const BoundStatement& s : program.statements) {
    if (const auto* r = std::get_if<BoundRepeat>(&s)) most = std::max(most, largest(*r->step));
  }
  return most;
}

class LiftIterate : public ::testing::Test {
 protected:
  void check(const RandomIteration& it, RandomSource& random) {
    std::vector<HostTensor> inputs = {random_tensor(random, it.shape),
                                      random_tensor(random, it.shape)};
    Program single = parse_text(it.text(1));
    std::vector<HostTensor> chain = {inputs[0]};
    for (int64_t count : {0, 1, 2, 3, 4, 5, 6, 9, 17}) {
      while (chain.size() <= static_cast<size_t>(count)) {
        chain.push_back(result_of(single, {chain.back(), inputs[1]}));
      }
      Program program = parse_text(it.text(count));
      BoundProgram bound = bound_for(program, inputs);
      const HostTensor& expected = chain[static_cast<size_t>(count)];
      ASSERT_EQ(interpret(bound, inputs).outputs.at(0).bytes, expected.bytes) << count;
      EXPECT_LE(largest(bound), expected.count()) << "an array of windows, " << count;
      EXPECT_LE(program.statements.size(), 8u) << count;
      EXPECT_EQ(print(parse_bound(std::make_shared<const Source>(Source{"b", print(bound)}))),
                print(bound));
      Program written = with_repeats_written_out(program);
      EXPECT_EQ(only_repeat(written), nullptr);
      ASSERT_EQ(result_of(written, inputs).bytes, expected.bytes) << count << ", written out";
      run_pipeline(bound, Target{});
      ASSERT_EQ(interpret(bound, inputs).outputs.at(0).bytes, expected.bytes)
          << count << ", after the passes";
    }
  }
};

TEST_F(LiftIterate, IsAsManySteps) {
  for (uint64_t seed = 0; seed < 120; ++seed) {
    RandomSource random(seed);
    RandomIteration it = random_iteration(random);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + it.text(5));
    try {
      check(it, random);
    } catch (const Failure& failure) {
      FAIL() << failure.diagnostic().message;
    } catch (const InternalError& error) {
      FAIL() << error.what();
    }
    ASSERT_FALSE(HasFailure());
  }
}

TEST_F(LiftIterate, HasOneSizeForAnyCount) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    RandomSource random(seed);
    RandomIteration it = random_iteration(random);
    if (it.single_elements) continue;
    SCOPED_TRACE(it.text(7));
    Program few = parse_text(it.text(7)), many = parse_text(it.text(1'000'000));
    const Repeat *seven = only_repeat(few), *million = only_repeat(many);
    ASSERT_TRUE(seven != nullptr && million != nullptr);
    EXPECT_EQ(seven->trips, 7);
    EXPECT_EQ(million->trips, 1'000'000);
    EXPECT_EQ(print(*seven->step), print(*million->step));
    EXPECT_EQ(few.statements.size(), 1u) << "the loop alone";
    EXPECT_EQ(seven->step->statements.size(), 1u) << print(few);
    EXPECT_EQ(many.statements.size(), 1u);
    EXPECT_EQ(print_views(few), print_views(many));
    EXPECT_FALSE(print_views(few).empty());
  }
}

// Steps of single elements are composed as far as one statement's work goes, the rest repeats.
TEST_F(LiftIterate, ComposesStepsOfSingleElements) {
  const std::string head = "val f = fun(ArrayType(Float, N), u => Iterate(";
  auto program = [&](int64_t count) {
    return parse_text(head + std::to_string(count) + ", Map(v => v * 0.5f + 1.0f)) $ u)");
  };
  EXPECT_LE(program(50).statements.size(), 4u);
  EXPECT_EQ(only_repeat(program(50)), nullptr);
  Program many = program(100'001);
  const Repeat* repeat = only_repeat(many);
  ASSERT_NE(repeat, nullptr);
  EXPECT_LT(repeat->trips, 10'000);
  EXPECT_LE(many.statements.size(), 4u);
  HostTensor u(DType::f32, {3});
  for (int64_t i = 0; i < 3; ++i) u.set(i, real_scalar(static_cast<double>(i), DType::f32));
  HostTensor out = result_of(program(2001), {u});
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(out.at(i).f, 2) << "the fixed point";
}

// Iterate within Map: the state has the loops around it as further dimensions.
TEST_F(LiftIterate, InsideOfOtherPatterns) {
  const std::string types = "ArrayType(ArrayType(Float, M), N), ArrayType(Float, N)";
  const std::string step =
      "Map(w => (At(0) $ w) * 0.5f + (At(2) $ w) * 0.25f) o Slide(3, 1) o Pad(1, 1, Wrap)";
  const std::string scaled = "(v => Map(e => e * k + 0.5f) o " + step + " $ v)";
  struct Case {
    std::string iterated, composed;
  };
  auto six = [](const std::string& f) {
    return f + " o " + f + " o " + f + " o " + f + " o " + f + " o " + f;
  };
  const std::string twice = "(v => Iterate(5, " + step + ") o Gather(reverse) $ v)";
  const Case cases[] = {
      {"Map(Iterate(6, " + step + ")) $ x", "Map(" + six("(" + step + ")") + ") $ x"},
      {"Map((r, k) => Iterate(6, " + scaled + ") $ r) $ Zip(x, y)",
       "Map((r, k) => " + six(scaled) + " $ r) $ Zip(x, y)"},
      {"Map(Iterate(6, " + twice + ")) $ x", "Map(" + six(twice) + ") $ x"},
      {"Map(r => Iterate(6, " + step + ") o Map(e => e * e) $ r) $ x",
       "Map(r => " + six("(" + step + ")") + " o Map(e => e * e) $ r) $ x"},
      {"Reduce(add, 0.0f) o Join() o Map(Iterate(6, " + step + ")) $ x",
       "Reduce(add, 0.0f) o Join() o Map(" + six("(" + step + ")") + ") $ x"},
      {"Transpose() o Map(Iterate(6, Map(v => v + (At(0) $ y)) o " + step + ")) $ x",
       "Transpose() o Map(" + six("(Map(v => v + (At(0) $ y)) o " + step + ")") + ") $ x"},
  };
  RandomSource random(7);
  std::vector<HostTensor> inputs = {random_tensor(random, {4, 5}), random_tensor(random, {4})};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.iterated);
    Program loop = parse_text("val f = fun(" + types + ", (x, y) => " + c.iterated + ")");
    Program plain = parse_text("val f = fun(" + types + ", (x, y) => " + c.composed + ")");
    EXPECT_NE(only_repeat(loop), nullptr);
    EXPECT_EQ(result_of(loop, inputs).bytes, result_of(plain, inputs).bytes);
  }
}

// A reduction within the step, states of integers and of tuples.
TEST_F(LiftIterate, StepsOfAnyKind) {
  auto same = [&](const std::string& type, const std::string& step, const HostTensor& x) {
    SCOPED_TRACE(step);
    std::string head = "val f = fun(" + type + ", x => ";
    Program loop = parse_text(head + "Iterate(7, " + step + ") $ x)");
    Program single = parse_text(head + "(" + step + ") $ x)");
    HostTensor expected = x;
    for (int k = 0; k < 7; ++k) expected = result_of(single, {expected});
    HostTensor got = result_of(loop, {x});
    EXPECT_EQ(got.shape, expected.shape);
    EXPECT_EQ(got.bytes, expected.bytes);
    return only_repeat(loop) != nullptr;
  };
  RandomSource random(3);
  HostTensor x = random_tensor(random, {9});
  HostTensor i(DType::i32, {9});
  for (int64_t at = 0; at < 9; ++at) i.set(at, integer_scalar(at * at - 7, DType::i32));
  const std::string floats = "ArrayType(Float, N)", ints = "ArrayType(Int, N)";
  EXPECT_TRUE(
      same(floats, "v => Map(e => e * 0.5f - (At(0) o Reduce(add, 0.0f) $ v) * 0.125f) $ v", x));
  EXPECT_TRUE(same(floats, "ScanSeq((a, e) => a * 0.5f + e, 0.0f)", x));
  EXPECT_TRUE(
      same(ints, "Map(w => (At(0) $ w) - 2 * (At(1) $ w)) o Slide(2, 1) o Pad(1, 0, Mirror)", i));
}

// Levels in time: a state of pairs is one tensor, a state of unlike scalars a statement for each
// step.
TEST_F(LiftIterate, StatesOfTuples) {
  RandomSource random(4);
  HostTensor x = random_tensor(random, {9});
  struct Case {
    std::string start, step;
    bool loop;
  };
  const Case cases[] = {
      {"Zip(x, x)",
       "(Map(w => Tuple((Get(0) o At(0) $ w) * 0.5f + (Get(1) o At(1) $ w), Get(0) o At(0) $ w)) o "
       "Slide(2, 1) o Pad(1, 0, Wrap))",
       true},
      {"Zip(x, Gather(reverse) $ x, x)",
       "(Map((p, q, r) => Tuple(p * 0.5f + q, r, p)) o Gather(shift(2)))", true},
      {"Zip(x, Gather(reverse) $ x, x)", "(Map((p, q, r) => Tuple(p * 0.5f + q, r, p)))", false},
      {"Map(v => Tuple(v, 1)) $ x",
       "(Map(w => Tuple(Get(0) o At(1) $ w, (Get(1) o At(0) $ w) + (Get(1) o At(1) $ w))) o "
       "Slide(2, 1) o Pad(1, 0, Clamp))",
       false},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.step);
    for (const char* after : {"Id()", "Map(t => Get(t, 1))"}) {
      const std::string head =
          "val f = fun(ArrayType(Float, N), x => " + std::string(after) + " $ ";
      std::string all = c.start;
      for (int k = 0; k < 7; ++k) all = "(" + c.step + " $ " + all + ")";
      Program loop = parse_text(head + "(Iterate(7, " + c.step + ") $ " + c.start + "))");
      Program plain = parse_text(head + all + ")");
      EXPECT_EQ(only_repeat(loop) != nullptr, c.loop);
      ASSERT_EQ(loop.outputs.size(), plain.outputs.size());
      Interpretation got = interpret(bound_for(loop, {x}), {x});
      Interpretation expected = interpret(bound_for(plain, {x}), {x});
      for (size_t i = 0; i < got.outputs.size(); ++i) {
        EXPECT_EQ(got.outputs[i].shape, expected.outputs[i].shape);
        EXPECT_EQ(got.outputs[i].bytes, expected.outputs[i].bytes);
      }
    }
  }
}

// As many steps as the product of the counts, however deep: no level doubles what is evaluated.
TEST_F(LiftIterate, OfIterates) {
  const std::string step =
      "Map(w => (At(0) $ w) * 0.5f + (At(2) $ w)) o Slide(3, 1) o Pad(1, 1, Clamp)";
  auto text = [](const std::string& f) {
    return print(parse_text("val f = fun(ArrayType(Float, N), x => " + f + " $ x)"));
  };
  auto times = [](int64_t count, const std::string& f) {
    return "Iterate(" + std::to_string(count) + ", " + f + ")";
  };
  EXPECT_EQ(text(times(3, times(5, step))), text(times(15, step)));
  EXPECT_EQ(text(times(1, times(2, times(1, step)))), text(times(2, step)));
  EXPECT_EQ(text(times(0, times(2, step))), text(times(0, step)));
  EXPECT_EQ(text(times(2, times(0, step))), text(times(0, step)));
  std::string deep = step;
  for (int level = 0; level < 20; ++level) deep = times(2, deep);
  EXPECT_EQ(text(deep), text(times(1 << 20, step)));
  const std::string most = times(1'000'000'000, step);
  EXPECT_NE(text(times(1000, most)), text(most)) << "more than a loop counts to: loops in loops";
}

TEST_F(LiftIterate, Limits) {
  auto message = [](const std::string& body) -> std::string {
    try {
      parse_text("val f = fun(ArrayType(Float, N), x => " + body + " $ x)");
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.diagnostic().code, "limit");
      return failure.diagnostic().message;
    }
    return "";
  };
  EXPECT_THAT(message("Iterate(2000000000, Map(v => v + 1.0f))"), HasSubstr("1000000000"));
  EXPECT_THAT(message("Iterate(10001, Slide(1, 1))"), HasSubstr("10000"));
  EXPECT_EQ(
      message(
          "Iterate(1000000000, Join() o Map(Reduce(add, 0.0f)) o Slide(2, 1) o Pad(0, 1, Wrap))"),
      "");
}

// The gradient of a loop is that of its steps, one after the other.
TEST_F(LiftIterate, Gradients) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    RandomSource random(seed + 1000);
    RandomIteration it = random_iteration(random);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + it.text(6));
    constexpr int64_t kCount = 6;
    HostTensor u = random_tensor(random, it.shape), c = random_tensor(random, it.shape);
    HostTensor seed_of_out = random_tensor(random, it.shape);
    Program single = parse_text(it.text(1));
    Program step = differentiate(single, "out", {"u"});
    std::vector<HostTensor> states = {u};
    for (int64_t k = 1; k < kCount; ++k) states.push_back(result_of(single, {states.back(), c}));
    HostTensor expected = seed_of_out;
    for (int64_t k = kCount; k-- > 0;) {
      std::vector<HostTensor> inputs = {states[static_cast<size_t>(k)], c, expected};
      expected = interpret(bound_for(step, inputs), inputs).outputs.at(1);
    }
    Program whole = differentiate(parse_text(it.text(kCount)), "out", {"u"});
    std::vector<HostTensor> inputs = {u, c, seed_of_out};
    HostTensor got = interpret(bound_for(whole, inputs), inputs).outputs.at(1);
    ASSERT_EQ(got.shape, expected.shape);
    for (int64_t i = 0; i < got.count(); ++i) {
      ASSERT_NEAR(got.at(i).f, expected.at(i).f, 1e-4 * (1 + std::fabs(expected.at(i).f))) << i;
    }
  }
}

TEST_F(LiftIterate, GradientsOfVeryLongLoopsAreRefused) {
  Program program = parse_text(
      "val f = fun(ArrayType(Float, N), x => Iterate(100000, Map(w => (At(0) $ w) * (At(1) $ w)) o "
      "Slide(2, 1) o Pad(1, 0, Wrap)) $ x)");
  try {
    differentiate(program, "out", {"x"});
    FAIL() << "a hundred thousand statements";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.diagnostic().code, "limit");
    EXPECT_LT(failure.diagnostic().span.begin, failure.diagnostic().span.end);
  }
}

// Each step reads both components of what the step before made of both.
TEST_F(LiftIterate, StepsThatSwapAreNoDoublings) {
  for (int count : {29, 30, 1000}) {
    Program program =
        parse_text("val f = fun(ArrayType(Float, N), x => Iterate(" + std::to_string(count) +
                   ", t => Zip(Get(1) $ Unzip() $ t, Get(0) $ Unzip() $ t)) $ Zip(x, Map(v => v * "
                   "2.0f) $ x))");
    RandomSource random(1);
    HostTensor x = random_tensor(random, {3}), out = result_of(program, {x});
    for (int64_t i = 0; i < 3; ++i) {
      EXPECT_EQ(out.at(2 * i).f, x.at(i).f * (count % 2 == 0 ? 1 : 2)) << count;
      EXPECT_EQ(out.at(2 * i + 1).f, x.at(i).f * (count % 2 == 0 ? 2 : 1)) << count;
    }
  }
}

}  // namespace
}  // namespace tile::test
