// Scalar expressions, and statements that are elementwise.
#include <algorithm>
#include <cmath>

#include "tests/random/draw/workshop.h"

namespace tile::test {
namespace {

std::string factor_text(const Term& t) { return t.simple ? t.text : "(" + t.text + ")"; }

Term number(const std::string& text, double value, double unit = 1) {
  return {text, std::fabs(value), unit, true, value >= 0};
}

Term either(const std::string& condition, const Term& a, const Term& b) {
  return {condition + " ? " + factor_text(a) + " : " + factor_text(b), std::max(a.bound, b.bound),
          std::min(a.unit, b.unit), a.exact && b.exact, false};
}

Term extremum(const char* name, const Term& a, const Term& b) {
  return {std::string(name) + "(" + a.text + ", " + b.text + ")", std::max(a.bound, b.bound),
          std::min(a.unit, b.unit), a.exact && b.exact};
}

// Steps that keep values small whole numbers (or halves).
Term exact_step(CompilerContext& shop, const Term& a) {
  RandomSource& random = shop.random;
  switch (random.in(0, 11)) {
    case 0:
      return call_of("relu", a, a.bound, a.exact);
    case 1:
      return call_of("abs", a, a.bound, a.exact);
    case 2:
      return {"-" + factor_text(a), a.bound, a.unit, a.exact, false};
    case 3:
      return product_of(a, number(std::to_string(random.in(2, 3)), 3));
    case 4:
      return sum_of(a, number(std::to_string(random.in(1, 3)), 3),
                    random.percent(50) ? " + " : " - ");
    case 5:
      return extremum(random.percent(50) ? "max" : "min", a, number("2", 2));
    case 6:
      return {"max(min(" + a.text + ", 3), -3)", 3, a.unit, a.exact};
    case 7:
      return product_of(a, number("0.5", 0.5, 0.5));
    case 8:
      if (!a.exact) return product_of(a, number("0.75", 0.75, 0.25));
      return {"sign(" + a.text + ")", 1, 1, true};
    case 9:
      if (!a.exact) return a;
      return either(factor_text(a) + (random.percent(50) ? " > 1" : " == 0"), a, number("-1", -1));
    case 10:
      if (!a.exact) return call_of("abs", a, a.bound);
      return {factor_text(a) + " % 5", 5, a.unit, true, false};
    default:
      if (!a.exact) return a;
      return call_of("floor", product_of(a, number("0.5", 0.5, 0.5)), a.bound, true);
  }
}

Term inexact_step(CompilerContext& shop, const Term& a) {
  switch (shop.random.in(0, 14)) {
    case 0:
      return call_of("exp", extremum("min", a, number("2", 2)), std::exp(2.0));
    case 1:
      return call_of("tanh", a, 1);
    case 2:
      return call_of("sigmoid", a, 1);
    case 3:
      return {"exp(-abs(" + a.text + "))", 1, 0x1p-30, false};
    case 4:
      return {"sqrt(abs(" + a.text + ") + 1)", std::sqrt(a.bound + 1), 0x1p-30, false};
    case 5:
      return {"rsqrt(square(" + a.text + ") + 0.5)", 2, 0x1p-30, false};
    case 6:
      return {"log1p(abs(" + a.text + "))", std::log1p(a.bound), 0x1p-30, false};
    case 7:
      return {factor_text(a) + " / (1 + square(" + a.text + "))", 1, 0x1p-30, false, false};
    case 8:
      return call_of("sin", a, 1);
    case 9:
      return call_of("gelu", a, a.bound);
    case 10:
      return call_of("softplus", a, a.bound + 1);
    case 11:
      return call_of("erf", a, 1);
    case 12:
      return {factor_text(a) + " / 3", a.bound / 3, 0x1p-30, false, false};
    case 13:
      return {"cos(" + a.text + ") * 0.3", 1, 0x1p-30, false, false};
    default:
      return {"pow(abs(" + a.text + ") + 0.5, 1.5)", std::pow(a.bound + 0.5, 1.5), 0x1p-30, false};
  }
}

Term two(CompilerContext& shop, const Term& a, const Term& b) {
  RandomSource& random = shop.random;
  switch (random.in(0, 9)) {
    case 0:
    case 1:
      return sum_of(a, b);
    case 2:
    case 3:
      return sum_of(a, b, " - ");
    case 4:
    case 5:
      return product_of(a, b);
    case 6:
      return extremum("max", a, b);
    case 7:
      return extremum("min", a, b);
    case 8:
      if (!a.exact || !b.exact) return product_of(a, b);
      return either(factor_text(a) +
                        random.pick(std::vector<std::string>{" < ", " >= ", " == ", " != "}) +
                        factor_text(b),
                    a, b);
    default:
      if (!shop.options.inexact) return sum_of(a, b);
      return {factor_text(a) + " / (1 + abs(" + b.text + "))", a.bound, 0x1p-30, false, false};
  }
}

// Whether y broadcasts to x's shape and rank, and the shape that both give.
bool broadcasts(const CompilerContext& shop, const Made& x, const Made& y,
                std::vector<std::string>& dims) {
  const Made &longer = x.rank() >= y.rank() ? x : y, &shorter = x.rank() >= y.rank() ? y : x;
  dims = longer.dims;
  size_t shift = longer.rank() - shorter.rank();
  for (size_t d = 0; d < shorter.rank(); ++d) {
    const std::string &a = longer.dims[shift + d], &b = shorter.dims[d];
    if (a == b || b == "1") continue;
    if (a != "1") return false;
    dims[shift + d] = b;
  }
  return element_count(x.values.shape) + element_count(y.values.shape) <= 2 * shop.options.elements;
}

}  // namespace

Term leaf_of(const Made& tensor, const std::string& text) {
  return {text, tensor.bound, tensor.unit, tensor.exact};
}

Term sum_of(const Term& a, const Term& b, const char* sign) {
  return {factor_text(a) + sign + factor_text(b), a.bound + b.bound, std::min(a.unit, b.unit),
          a.exact && b.exact, false};
}
Term product_of(const Term& a, const Term& b) {
  return {factor_text(a) + " * " + factor_text(b), a.bound * b.bound, a.unit * b.unit,
          a.exact && b.exact, false};
}
Term call_of(const std::string& function, const Term& a, double bound, bool exact) {
  return {function + "(" + a.text + ")", bound, exact ? a.unit : 0x1p-30, exact};
}

Term draw_term(CompilerContext& shop, const std::vector<Term>& leaves) {
  RandomSource& random = shop.random;
  auto stepped = [&](Term t) {
    while (random.percent(30)) {
      bool inexact = shop.options.inexact && random.percent(45);
      t = inexact ? inexact_step(shop, t) : exact_step(shop, t);
    }
    return t;
  };
  Term all = stepped(leaves.at(0));
  for (size_t i = 1; i < leaves.size(); ++i) {
    Term next = stepped(leaves[i]);
    all = stepped(random.percent(50) ? two(shop, all, next) : two(shop, next, all));
  }
  if (random.percent(15)) all = two(shop, all, leaves[0]);
  return all;
}

void draw_cells(CompilerContext& shop) {
  RandomSource& random = shop.random;
  Made x = shop.pick();
  std::vector<Term> leaves{leaf_of(x, x.name)};
  std::vector<std::string> dims = x.dims;
  while (random.percent(leaves.size() == 1 ? 60 : 25) && leaves.size() < 4) {
    Made whole = x;
    whole.dims = dims;
    std::vector<std::string> both;
    if (random.percent(12)) {
      size_t keep = static_cast<size_t>(random.in(0, std::ssize(dims)));
      const Made& y =
          shop.input(shop.any_type(), {dims.end() - static_cast<ptrdiff_t>(keep), dims.end()});
      leaves.push_back(leaf_of(y, y.name));
      continue;
    }
    const Made& y = shop.pick([&](const Made& m) { return broadcasts(shop, whole, m, both); });
    broadcasts(shop, whole, y, dims);
    leaves.push_back(leaf_of(y, y.name));
  }
  Term t = draw_term(shop, leaves);
  if (t.text == x.name) t = exact_step(shop, t);
  shop.assign(" = " + t.text, dims, t);
}

}  // namespace tile::test
