// Gradients of MFG programs with tuples and folds against central differences (issue 6, item 5).
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "core/autodiff/differentiate.h"
#include "core/language/mfg/mfg.h"
#include "core/passes/bind/bind.h"
#include "tests/gradient/central_difference.h"
#include "tests/random/agreement/double_precision.h"
#include "tests/random/random_filter.h"
#include "tests/random/random_program.h"

namespace tile::test {
namespace {

Program parse(const std::string& text) {
  return in_double(parse_mfg(std::make_shared<const Source>(Source{"gradient.mfg", text})));
}

// Against differences, and the gradient of the first input, a program like any other, too.
void expect_gradient(const Program& program, const std::string& of, const Shape& picture,
                     const std::string& text) {
  RandomSource random(text.size());
  std::vector<HostTensor> inputs = filter_inputs(text.size(), program, picture, true);
  std::vector<std::string> wrt;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& t = program.tensors[program.inputs[i]];
    if (is_float(inputs[i].type)) wrt.push_back(t.name);
  }
  ASSERT_FALSE(wrt.empty());
  std::string report;
  EXPECT_EQ(compare_with_differences({program, of, wrt, inputs}, random, report), Agreement::agrees)
      << report << "\n"
      << text << "\n"
      << print(differentiate(program, of, wrt));
  Program first = differentiate(program, of, {wrt[0]});
  inputs.push_back(random_reals(random, outputs_of(program, inputs).at(0).shape));
  EXPECT_NE(compare_with_differences({first, "D" + wrt[0], wrt, inputs}, random, report),
            Agreement::differs)
      << "second derivative: " << report << "\n"
      << text;
}

void expect_gradient(const std::string& text, const Shape& picture = {4, 5}) {
  expect_gradient(parse(text), "result_f32", picture, text);
}

const std::string kClamped = "let s = sampler<input_f32>(address=.ClampToEdge)\n";

TEST(FilterGradients, Tuples) {
  expect_gradient(
      "@bounds(5, 4)\n"
      "def f |x, y| { let v = input_f32(x, y)\n [v, v*v, 2.0*input_f32(4-x, y)] }\n"
      "def result_f32 |x, y| { let c = f(x, y)\n c.x*c.y + c.z^2 + f(x+1, y).y }\n");
}

TEST(FilterGradients, SumsOfAnyLength) {
  const std::string radius = "@param_i32 r(SLIDER, label=\"r\", min=1, max=9, init=2)\n";
  for (const char* sum :
       {"rsum(0..<40)|i| { s(x+i, y)*f32(i) }", "rsum(-r..<r+1)|i| { s(x+i, y)^2 }",
        "rsum(-r..<r+1, -2..<r)|i, j| { s(x+i, y+j)*f32(i+2*j) }", "rsum(0..<x+1)|i| { s(i, y)^2 }",
        "rsum(x..<max(x+2, r))|i| { s(i, y)^2 }",
        "rsum(0..<r)|i| { rsum(0..<i)|j| { s(x+i, y+j)^2 } }",
        "rsum(0..<r)|i| { exp(rsum(0..<i+1)|j| { s(x+i, y+j) }) }",
        "rsum(0..<input_f32.extent(0))|i| { s(i, y)*s(x, i) }"}) {
    expect_gradient(radius + kClamped + "def result_f32 |x, y| { " + sum + " }\n");
  }
}

TEST(FilterGradients, SumsOfTuples) {
  expect_gradient(kClamped +
                  "@param_f32 scale(SLIDER, label=\"s\", min=0.5, max=4.0, init=1.5)\n"
                  "def result_f32 |x, y| {\n"
                  "  let c = s(x, y)\n"
                  "  let [n, w] = rsum(-4..<5, -4..<5)|i, j| {\n"
                  "    let v = s(x+i, y+j)\n"
                  "    let w = exp(-(v-c)^2/scale - f32(i*i+j*j)/8.0)\n"
                  "    [w*v, w] }\n"
                  "  n/w }\n");
}

TEST(FilterGradients, ReductionsWrittenAsFolds) {
  for (const char* fold :
       {"reduce(init=1.0, 0..<40)|i, a| { a + s(x+i, y)*f32(i) }",
        "reduce(init=s(x, y), 0..<40)|i, a| { s(x-i, y)^2 + a - 1.0 }",
        "reduce(init=0.5, 0..<36)|i, a| { a*(1.0 + 0.1*s(i, y)) }",
        "reduce(init=-9.0, 0..<40)|i, a| { max(a, s(x+i, y)*f32(i+1)) }",
        "reduce(init=9.0, 0..<8, 0..<8)|i, j, a| { min(a, s(x+i, y)*f32(i+j+1)) }",
        "reduce(init=[0.0, 1.0], 0..<40)|i, a| { [a.x + s(i, y), max(a.y, s(x, i))] }.y",
        "reduce(init=-7.0, 0..<x)|i, a| { max(a, s(i, y)) }"}) {
    expect_gradient(kClamped + "def result_f32 |x, y| { " + fold + " }\n");
  }
}

TEST(FilterGradients, OrderedFolds) {
  const std::string radius = "@param_i32 r(SLIDER, label=\"r\", min=1, max=9, init=2)\n";
  for (const char* fold :
       {"reduce(init=0.5, 0..<40)|i, a| { sin(a) + s(x+i, y)*a }",
        "reduce(init=s(x, y), 0..<r)|i, a| { a*a*0.5 + s(x+i, y) }",
        "reduce(init=0.3, 0..<x+1)|i, a| { a*a + s(i, y) }",
        "reduce(init=0.3, 0..<r, 0..<r)|i, j, a| { a*a*0.25 + s(x+i, y+j)*0.5 }",
        "reduce(init=[1.0, s(x, y)], 0..<r+2)|i, a| { [a.y*0.5, a.x*s(x+i, y) - a.y] }.x",
        "f32(reduce(init=[1.0, 2], 0..<r+2)|i, a| { [a.x*0.9 + s(x+a.y, y), (a.y+i)%5] }.x)",
        "reduce(init=0.1, 0..<r)|i, a| { cos(a) + rsum(0..<r)|j| { a*s(x+j, y+i) } }",
        "reduce(init=0.1, 0..<r)|i, a| { cos(a) + reduce(init=a, 0..<r)|j, b| { b*b*0.1 + "
        "s(x+j, y+i)*a } }"}) {
    expect_gradient(radius + kClamped + "def result_f32 |x, y| { " + fold + " }\n", {3, 4});
  }
}

// States are kept in blocks of blocks.
TEST(FilterGradients, LongOrderedFolds) {
  Program program = parse(
      "def out_f32 by reduce<input_f32>.accumulate(dim=0, init=[0.2, 1.0]) |x, y, v, a| {"
      " [sin(a.x)*0.8 + v*a.y, cos(a.x + v)] }\n"
      "@bounds(1, input_f32.extent(1))\n"
      "def result_f32 |x, y| { let [a, b] = out_f32(y)\n a + b }\n");
  for (int64_t length : {1, 16, 17, 255, 257, 600}) {
    std::vector<HostTensor> inputs = filter_inputs(1, program, {2, length}, true);
    RandomSource random(1);
    std::string report;
    EXPECT_EQ(
        compare_with_differences({program, "result_f32", {"input_f32"}, inputs}, random, report),
        Agreement::agrees)
        << length << " trips: " << report;
  }
}

TEST(FilterGradients, ReadsAtPlacesThatDataDecide) {
  expect_gradient(
      "let s = sampler<input_f32>(address=.ClampToEdge, coord=.NormalizedLinear)\n"
      "@param_f32 turn(SLIDER, label=\"t\", min=-6.0, max=6.0, init=2.0)\n"
      "def result_f32 |x, y| { let p = to_ncoord([x, y])\n"
      "  s(p.x*cos(turn) - 0.3*p.y, p.y*p.y + 0.2*sin(p.x)) }\n");
}

TEST(FilterGradients, RandomFilters) {
  int agreed = 0, programs = 0;
  for (uint64_t seed : seeds(0, 250)) {
    std::string text = random_filter(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + ":\n" + text);
    try {
      Program program = parse(text);
      std::vector<HostTensor> inputs = filter_inputs(seed, program, {3, 4}, true);
      std::vector<std::string> wrt;
      for (TensorId id : program.inputs) {
        const Tensor& t = program.tensors[id];
        if (t.type == DType::f64) wrt.push_back(t.name);
      }
      RandomSource random(seed);
      std::string report;
      Agreement agreement =
          compare_with_differences({program, "result_f32", wrt, inputs}, random, report);
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

// The gradient of result_f32 with respect to input_f32 where every seed is 1.
std::vector<double> gradient_of_sum(const std::string& text, const HostTensor& picture, int r) {
  Program program = parse(text);
  Program derived = differentiate(program, "result_f32", {"input_f32"});
  std::vector<HostTensor> inputs;
  std::vector<InputType> types;
  for (TensorId id : derived.inputs) {
    const Tensor& t = derived.tensors[id];
    HostTensor value = picture;
    if (t.parameter) {
      value = HostTensor(DType::i32, {});
      value.set(0, integer_scalar(r, DType::i32));
    } else if (t.name != "input_f32") {
      for (int64_t i = 0; i < value.count(); ++i) value.set(i, real_scalar(1, DType::f64));
    }
    types.push_back({value.type, value.shape, std::nullopt});
    if (t.parameter) types.back().value = r;
    inputs.push_back(std::move(value));
  }
  HostTensor d = interpret(tile::bind(derived, types), inputs).outputs.back();
  std::vector<double> values;
  for (int64_t i = 0; i < d.count(); ++i) values.push_back(d.at(i).f);
  return values;
}

HostTensor row_of(const std::vector<double>& values) {
  HostTensor row(DType::f64, {1, static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i)
    row.set(static_cast<int64_t>(i), real_scalar(values[i], DType::f64));
  return row;
}

TEST(FilterGradients, ClampedReadsAddAtTheClampedIndex) {
  std::string text = "@param_i32 r(SLIDER, label=\"r\", min=0, max=9, init=3)\n" + kClamped +
                     "def result_f32 |x, y| { rsum(-r..<r+1)|i| { s(x+i, y) } }\n";
  HostTensor row = row_of({1, 2, 3});
  // Another radius is another program to bind.
  EXPECT_EQ(gradient_of_sum(text, row, 0), std::vector<double>({1, 1, 1}));
  EXPECT_EQ(gradient_of_sum(text, row, 1), std::vector<double>({3, 3, 3}));
  EXPECT_EQ(gradient_of_sum(text, row, 2), std::vector<double>({6, 3, 6}));
}

TEST(FilterGradients, TiesShare) {
  std::string text = kClamped +
                     "def result_f32 |x, y| {"
                     " reduce(init=-9.0, 0..<input_f32.extent(0))|i, a| { max(a, s(i, y)) } }\n";
  EXPECT_EQ(gradient_of_sum(text, row_of({1, 3, 2, 3}), 0), std::vector<double>({0, 2, 0, 2}));
  // The start is larger.
  EXPECT_EQ(gradient_of_sum(text, row_of({-11, -12}), 0), std::vector<double>({0, 0}));
}

TEST(FilterGradients, LoopsBoundedByDataOnlyAreRefusedWhereTheyStand) {
  auto message = [](const std::string& range) {
    std::string text =
        "def result_f32 |x, y| {\n  rsum(" + range + ")|i| { input_f32(x+i, y) }\n}\n";
    Program program = parse(text);
    try {
      differentiate(program, "result_f32", {"input_f32"});
    } catch (const Failure& f) {
      Position at = position_of(*program.source, f.diagnostic().span.begin);
      return std::to_string(at.line) + " " + f.diagnostic().code;
    }
    return std::string("known");
  };
  EXPECT_EQ(message("0..<i32(input_f32(x, y))"), "2 gradient");
  EXPECT_EQ(message("0..<i32(input_k_u8(x, y))"), "known");
  EXPECT_EQ(message("0..<min(i32(input_f32(x, y)), 40)"), "known");
}

TEST(FilterGradients, LoopsBoundedByData) {
  expect_gradient(kClamped +
                  "def result_f32 |x, y| { let n = min(input_k_u8(x, y), 37)\n"
                  "  rsum(0..<n)|i| { s(x+i, y)^2 }"
                  " + reduce(init=0.5, 0..<n%4)|i, a| { sin(a) + s(x, y+i)*a } }\n");
}

std::string file_text(const std::string& name) {
  std::ifstream file(std::string(TILE_SOURCE_DIR) + "/runtime/examples/filters/" + name + ".mfg");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}
std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

// Those of floats as they are; of the others what they compute before it becomes bytes.
TEST(FilterGradients, ExampleFilters) {
  for (const char* name : {"box_plane", "gaussian_plane"}) expect_gradient(file_text(name));
  for (const char* name : {"bilateral", "unsharp_mask", "tone_curve", "sobel"}) {
    std::string text = file_text(name);
    text =
        replaced(text, "def result_u8", "@bounds(input_u8.extent(0), input_u8.extent(1))\ndef out");
    text = replaced(replaced(text, "u8[", "f32["), "round(", "f32(");
    text = replaced(text, "|> lbgra_to_u8color(...)", "");
    std::vector<std::string> out = {"out"};
    expect_gradient(with_outputs(parse(text), out), "out", {3, 4}, text);
  }
}

}  // namespace
}  // namespace tile::test
