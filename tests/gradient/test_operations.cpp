// Every operation of the table, once and twice, against central differences (rule 7.1).
#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "core/autodiff/differentiate.h"
#include "core/language/tile/tile.h"
#include "tests/gradient/central_difference.h"

namespace tile::test {
namespace {

Program parse_text(const std::string& text) {
  return parse_tile(std::make_shared<const Source>(Source{"gradient.tile", text}));
}

// Arguments inside the domain and away from kinks and jumps.
struct Domain {
  double lo, hi;
};
Domain domain_of(Op op) {
  switch (op) {
    case Op::acosh:
      return {1.2, 2.8};
    case Op::acos:
    case Op::asin:
    case Op::atanh:
    case Op::floor:
    case Op::ceil:
    case Op::trunc:
      return {0.1, 0.9};
    case Op::round:
      return {0.6, 1.4};
    default:
      return {0.2, 1.4};
  }
}

HostTensor values_in(const Domain& domain, RandomSource& random) {
  HostTensor t(DType::f64, {5});
  for (int64_t i = 0; i < 5; ++i) {
    t.set(i, real_scalar(domain.lo + (domain.hi - domain.lo) * random.unit(), DType::f64));
  }
  return t;
}

// "O = op(A, B, C)" as programs spell it; empty for those that take or give no floats.
std::string expression(const OpInfo& row) {
  switch (row.rule) {
    case TypeRule::integral:
    case TypeRule::comparison:
    case TypeRule::logical:
    case TypeRule::predicate:
    case TypeRule::random:
    case TypeRule::packed:
      return "";
    case TypeRule::casting:
      return "as_float(A, 64)";
    default:
      break;
  }
  if (precedence(row.op) > 0) return "A " + std::string(row.spelling) + " B";
  if (row.arity == 1) return std::string(row.spelling) + "(A)";
  if (row.arity == 2) return std::string(row.spelling) + "(A, B)";
  return std::string(row.spelling) + "(A, B, C)";
}

void expect_agreement(const GradientCheck& check, const std::string& what) {
  RandomSource random(3);
  std::string report;
  EXPECT_EQ(compare_with_differences(check, random, report), Agreement::agrees)
      << what << ": " << report << "\n"
      << print(differentiate(check.program, check.of, check.wrt));
}

TEST(OperationGradients, EqualCentralDifferencesTwice) {
  int checked = 0;
  for (const OpInfo& row : operations()) {
    std::string value = expression(row);
    if (value.empty()) continue;
    RandomSource random(static_cast<uint64_t>(row.op) + 1);
    Program program = parse_text("function (A, B, C) -> (O) { O = " + value + "; }");
    std::vector<HostTensor> inputs;
    for (int i = 0; i < 3; ++i) inputs.push_back(values_in(domain_of(row.op), random));
    std::vector<std::string> wrt = {"A", "B", "C"};
    expect_agreement({program, "O", wrt, inputs}, value);
    Program first = differentiate(program, "O", wrt);
    inputs.push_back(values_in({0.5, 2}, random));
    wrt.push_back("DO");
    for (const char* of : {"DA", "DB", "DC"}) expect_agreement({first, of, wrt, inputs}, value);
    ++checked;
  }
  EXPECT_GE(checked, 45);
}

TEST(OperationGradients, ThreeTimes) {
  Program program = parse_text(
      "function (A[N], B[N, N]) -> (O) { T[i: N] = +(exp(A[j] * 0.5) * B[i, j]);"
      " P[] = *(T[i]); O = sin(P) * A; }");
  RandomSource random(5);
  std::vector<HostTensor> inputs = {random_reals(random, {3}), random_reals(random, {3, 3})};
  Program second = differentiate(differentiate(program, "O", {"A", "B"}), "DB", {"A"});
  std::string last = second.tensors[second.outputs.back()].name;
  inputs.push_back(random_reals(random, {3}));
  inputs.push_back(random_reals(random, {3, 3}));
  expect_agreement({second, last, {"A", "B", "DO"}, inputs}, "third derivative");
}

}  // namespace
}  // namespace tile::test
