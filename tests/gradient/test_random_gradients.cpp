// Property: generated gradients equal central differences (section 7).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>

#include "core/autodiff/differentiate.h"
#include "core/language/tile/tile.h"
#include "core/passes/bind/bind.h"
#include "tests/gradient/central_difference.h"
#include "tests/random/random_program.h"

namespace tile::test {
namespace {

Program parse_text(const std::string& text) {
  return parse_tile(std::make_shared<const Source>(Source{"gradient.tile", text}));
}

// Smooth and one-sided functions of T that are defined everywhere.
const std::vector<std::string> kFunctions = {"sin(T)",
                                             "cos(T)",
                                             "tan(T * 0.2)",
                                             "asin(tanh(T) * 0.9)",
                                             "acos(tanh(T) * 0.9)",
                                             "atan(T)",
                                             "sinh(T * 0.3)",
                                             "cosh(T * 0.3)",
                                             "tanh(T)",
                                             "asinh(T)",
                                             "acosh(1.5 + T * T)",
                                             "atanh(tanh(T) * 0.9)",
                                             "exp(T * 0.25)",
                                             "expm1(T * 0.25)",
                                             "exp2(T * 0.25)",
                                             "log(1.5 + T * T)",
                                             "log1p(T * T)",
                                             "log2(2 + T * T)",
                                             "sqrt(1 + T * T)",
                                             "rsqrt(1 + T * T)",
                                             "reciprocal(2 + T * T)",
                                             "pow(1.5 + T * T, 1.7)",
                                             "pow(T, 3)",
                                             "pow(2.5, T * 0.2)",
                                             "erf(T)",
                                             "gelu(T)",
                                             "sigmoid(T)",
                                             "softplus(T)",
                                             "relu(T) * T",
                                             "abs(T) * T",
                                             "square(T)",
                                             "max(T, 0.5 * T + 0.1)",
                                             "min(T, 1 - T)",
                                             "T / (2 + T * T)",
                                             "(1 + T) / (T * T + 1)",
                                             "T % 0.7",
                                             "atan2(T, 1.5 + T * T)",
                                             "fma(T, T, T)",
                                             "T > 0.2 ? T * T : sin(T)",
                                             "floor(T) * T",
                                             "round(T) + T",
                                             "sign(T) * T",
                                             "select(T < 0, T, exp(-T))",
                                             "ident(T)",
                                             "builtin_softmax(T)",
                                             "-T",
                                             "trunc(T) * T + ceil(T)"};

struct Case {
  std::string text;
  std::vector<HostTensor> inputs;
  std::vector<std::string> wrt;
  std::string of;
};

// A random program on f64 values with a function of its last result behind it; empty text if the
// program has no f64 result.
Case draw(uint64_t seed) {
  RandomSource random(seed * 7919 + 1);
  RandomCase drawn = random_case(seed);
  Case result;
  result.text = drawn.text;
  Program program = parse_text(drawn.text);
  std::string last = program.tensors[program.outputs.back()].name;
  if (random.percent(60)) {
    std::string function = random.pick(kFunctions);
    bool scalar = function.find("builtin") != std::string::npos;
    if (scalar) function = "sin(T)";
    for (size_t at = 0; (at = function.find('T', at)) != std::string::npos; at += last.size()) {
      function.replace(at, 1, last);
    }
    size_t arrow = result.text.find("-> (");
    size_t close = result.text.find(')', arrow);
    result.text.replace(arrow, close - arrow, "-> (Z");
    result.text.insert(result.text.rfind('}'), "  Z = " + function + ";\n");
    last = "Z";
  }
  result.of = last;
  program = parse_text(result.text);
  std::vector<bool> keeps = index_inputs(program);
  for (size_t i = 0; i < drawn.inputs.size(); ++i) {
    if (keeps[i]) {
      result.inputs.push_back(drawn.inputs[i]);
      continue;
    }
    result.inputs.push_back(random_reals(random, drawn.inputs[i].shape));
    result.wrt.push_back(program.tensors[program.inputs[i]].name);
  }
  return result;
}

// Whether the program runs on f64, its result is f64, and all its values are of moderate size:
// differences of the sine of a large number measure rounding.
bool usable(const Case& c, Program program) {
  if (c.wrt.empty()) return false;
  for (const Statement& s : program.statements) {
    if (std::find(program.outputs.begin(), program.outputs.end(), s.result) ==
        program.outputs.end()) {
      program.outputs.insert(program.outputs.begin(), s.result);
    }
  }
  try {
    std::vector<HostTensor> values = outputs_of(program, c.inputs);
    for (const HostTensor& t : values) {
      for (int64_t i = 0; i < t.count(); ++i) {
        if (!(std::abs(convert(t.at(i), DType::f64).f) < 1e3)) return false;
      }
    }
    return values.back().type == DType::f64;
  } catch (const Failure&) {
    return false;
  }
}

// Up to rounding: parsing may order the indices, and so a sum, anew.
bool same_values(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b) {
  if (a.size() != b.size()) return false;
  for (size_t k = 0; k < a.size(); ++k) {
    if (a[k].shape != b[k].shape || a[k].type != b[k].type) return false;
    for (int64_t i = 0; i < a[k].count(); ++i) {
      double x = convert(a[k].at(i), DType::f64).f, y = convert(b[k].at(i), DType::f64).f;
      bool equal = std::isnan(x) ? std::isnan(y) : std::abs(x - y) <= 1e-9 * (1 + std::abs(x));
      if (!equal && x != y) return false;
    }
  }
  return true;
}

// The printed gradient parses again and gives the same values.
void check_text(const Case& c, const Program& program) {
  Program derived = differentiate(program, c.of, c.wrt);
  std::string text = print(derived);
  std::vector<HostTensor> inputs = c.inputs;
  inputs.push_back(outputs_of(program, c.inputs).back());
  EXPECT_TRUE(same_values(outputs_of(derived, inputs), outputs_of(parse_text(text), inputs)))
      << c.text << text;
}

Agreement compare(const Program& program, const std::string& of, const Case& c, uint64_t seed) {
  RandomSource random(seed);
  std::string report;
  Agreement found = Agreement::differs;
  try {
    found = compare_with_differences({program, of, c.wrt, c.inputs}, random, report);
  } catch (const std::exception& e) {
    report = e.what();
  }
  EXPECT_NE(found, Agreement::differs)
      << "seed " << seed << ": " << report << "\n"
      << print(program) << print(differentiate(program, of, c.wrt));
  return found;
}

TEST(RandomGradients, EqualCentralDifferences) {
  int checked = 0, undecided = 0;
  for (uint64_t seed : seeds(1, 2600)) {
    Case c = draw(seed);
    Program program = parse_text(c.text);
    if (!usable(c, program)) continue;
    Agreement found = compare(program, c.of, c, seed);
    if (seed % 4 == 0) check_text(c, program);
    undecided += found == Agreement::undecided ? 1 : 0;
    ++checked;
    if (HasFailure()) return;
  }
  if (std::getenv("TILE_TEST_SEEDS") != nullptr) return;
  EXPECT_GE(checked, 500);
  EXPECT_LT(undecided, checked / 50);
  RecordProperty("undecided", undecided);
  RecordProperty("checked", checked);
}

TEST(RandomGradients, SecondDerivativesEqualCentralDifferences) {
  int checked = 0, undecided = 0;
  for (uint64_t seed : seeds(10001, 500)) {
    Case c = draw(seed);
    Program program = parse_text(c.text);
    if (!usable(c, program)) continue;
    RandomSource random(seed);
    Program first = differentiate(program, c.of, c.wrt);
    c.inputs.push_back(random_reals(random, outputs_of(program, c.inputs).back().shape));
    c.wrt.push_back(first.tensors[first.inputs.back()].name);
    if (!usable(c, first)) continue;
    std::string of = first.tensors[first.outputs.back()].name;
    Agreement found = compare(first, of, c, seed);
    undecided += found == Agreement::undecided ? 1 : 0;
    ++checked;
    if (HasFailure()) return;
  }
  if (std::getenv("TILE_TEST_SEEDS") != nullptr) return;
  EXPECT_GE(checked, 100);
  EXPECT_LT(undecided, checked / 50);
  RecordProperty("undecided", undecided);
  RecordProperty("checked", checked);
}

}  // namespace
}  // namespace tile::test
