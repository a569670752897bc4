#include "backends/cuda/print/print_expression.h"

#include <algorithm>
#include <limits>

#include "core/support/diagnostic.h"

namespace tile::cuda {
namespace {

constexpr int64_t kLimit = int64_t{1} << 62;
constexpr Interval kAnything{-kLimit, kLimit};

using Wide = __int128;

Interval clamped(Wide lo, Wide hi) {
  auto clamp = [](Wide v) {
    return static_cast<int64_t>(v < -kLimit ? -kLimit : v > kLimit ? kLimit : v);
  };
  return {clamp(lo), clamp(hi)};
}

Interval sum(const Interval& a, const Interval& b) {
  return clamped(Wide{a.lo} + b.lo, Wide{a.hi} + b.hi);
}
Interval negated(const Interval& a) { return {-a.hi, -a.lo}; }
Interval product(const Interval& a, const Interval& b) {
  Wide corners[4] = {Wide{a.lo} * b.lo, Wide{a.lo} * b.hi, Wide{a.hi} * b.lo, Wide{a.hi} * b.hi};
  return clamped(*std::min_element(corners, corners + 4), *std::max_element(corners, corners + 4));
}
int64_t floor_quotient(int64_t a, int64_t b) { return a / b - (a % b != 0 && a < 0 ? 1 : 0); }

Interval quotient(const Interval& a, const Interval& b, bool floors) {
  if (b.lo != b.hi || b.lo <= 0) {
    int64_t size = std::max(std::abs(a.lo), std::abs(a.hi));
    return {-size, size};
  }
  if (floors) return {floor_quotient(a.lo, b.lo), floor_quotient(a.hi, b.lo)};
  return {a.lo / b.lo, a.hi / b.lo};
}

Interval remainder(const Interval& a, const Interval& b, bool floors) {
  int64_t size = std::max(std::abs(b.lo), std::abs(b.hi)) - 1;
  if (b.lo > 0 && a.lo >= 0) return {0, std::min(a.hi, size)};
  if (floors && b.lo > 0) return {0, size};
  return {-std::max<int64_t>(size, 0), std::max<int64_t>(size, 0)};
}

class Printer {
 public:
  explicit Printer(const Variables& variables) : variables_(variables) {}

  ExpressionText print(const Expr& e) const {
    const std::vector<Expr>& args = e.args();
    switch (e.kind()) {
      case ExprKind::constant:
        return constant(e.value());
      case ExprKind::variable: {
        auto it = variables_.find(e.name());
        internal_check(it != variables_.end(), "cuda: a variable outside its loop");
        return {it->second.name, !it->second.range.narrow()};
      }
      case ExprKind::add:
        return folded(args, " + ", [](Interval a, Interval b) { return sum(a, b); });
      case ExprKind::mul:
        return folded(args, " * ", [](Interval a, Interval b) { return product(a, b); });
      case ExprKind::sub:
        return folded(args, " - ", [](Interval a, Interval b) { return sum(a, negated(b)); });
      case ExprKind::neg:
        return folded({Expr(0), args[0]}, " - ",
                      [](Interval a, Interval b) { return sum(a, negated(b)); });
      case ExprKind::exact_div:
      case ExprKind::trunc_div:
        return divided(e, "/", "quotient");
      case ExprKind::floor_div:
        return divided(e, "/", "floor_quotient");
      case ExprKind::trunc_mod:
        return divided(e, "%", "remainder");
      case ExprKind::floor_mod:
        return divided(e, "%", "floor_remainder");
      case ExprKind::min:
      case ExprKind::max:
        return extremum(args, e.kind() == ExprKind::min ? " < " : " > ");
      case ExprKind::less:
        return compared(args, " < ");
      case ExprKind::equal:
        return compared(args, " == ");
      case ExprKind::select: {
        auto [a, b, wide] = pair(args[1], args[2]);
        return {"(" + print(args[0]).text + " != 0 ? " + a + " : " + b + ")", wide};
      }
    }
    return {};
  }

 private:
  static ExpressionText constant(int64_t value) {
    bool wide =
        value < -std::numeric_limits<int32_t>::max() || value > std::numeric_limits<int32_t>::max();
    if (value == std::numeric_limits<int64_t>::min()) return {"(-9223372036854775807LL - 1)", true};
    std::string text = std::to_string(value) + (wide ? "LL" : "");
    return {value < 0 ? "(" + text + ")" : text, wide};
  }

  static std::string widened(const ExpressionText& t) {
    return t.wide ? t.text : "(long long)" + t.text;
  }

  template <class Combine>
  ExpressionText folded(const std::vector<Expr>& args, const char* sign, Combine combine) const {
    Interval range = interval(args[0], variables_);
    ExpressionText all = print(args[0]);
    for (size_t i = 1; i < args.size(); ++i) {
      range = combine(range, interval(args[i], variables_));
      ExpressionText next = print(args[i]);
      bool wide = all.wide || next.wide || !range.narrow();
      if (wide) {
        all.text = widened(all);
        next.text = widened(next);
      }
      all = {"(" + all.text + sign + next.text + ")", wide};
    }
    return all;
  }

  struct Pair {
    std::string a, b;
    bool wide;
  };
  Pair pair(const Expr& x, const Expr& y) const {
    ExpressionText a = print(x), b = print(y);
    bool wide = a.wide || b.wide;
    return {wide ? widened(a) : a.text, wide ? widened(b) : b.text, wide};
  }

  // Unsigned division by a constant is the cheapest.
  ExpressionText divided(const Expr& e, const char* sign, const char* function) const {
    const Expr& x = e.args()[0];
    const Expr& y = e.args()[1];
    auto [a, b, wide] = pair(x, y);
    std::string type = wide ? "long long" : "int";
    bool plain = interval(x, variables_).lo >= 0 && interval(y, variables_).lo > 0;
    if (plain) {
      std::string u = wide ? "(unsigned long long)" : "(unsigned)";
      return {"(" + type + ")(" + u + a + " " + sign + " " + u + b + ")", wide};
    }
    return {std::string(function) + "((" + type + ")" + a + ", (" + type + ")" + b + ")", wide};
  }

  ExpressionText extremum(const std::vector<Expr>& args, const char* sign) const {
    ExpressionText all = print(args[0]);
    for (size_t i = 1; i < args.size(); ++i) {
      ExpressionText next = print(args[i]);
      bool wide = all.wide || next.wide;
      std::string a = wide ? widened(all) : all.text, b = wide ? widened(next) : next.text;
      all = {"(" + a + sign + b + " ? " + a + " : " + b + ")", wide};
    }
    return all;
  }
  ExpressionText compared(const std::vector<Expr>& args, const char* sign) const {
    auto [a, b, wide] = pair(args[0], args[1]);
    return {"(" + a + sign + b + " ? 1 : 0)", false};
  }

  const Variables& variables_;
};

}  // namespace

bool Interval::narrow() const {
  return lo > std::numeric_limits<int32_t>::min() && hi < std::numeric_limits<int32_t>::max();
}

Interval interval(const Expr& e, const Variables& variables) {
  auto of = [&](size_t i) { return interval(e.args()[i], variables); };
  auto over = [&](auto combine) {
    Interval all = of(0);
    for (size_t i = 1; i < e.args().size(); ++i) all = combine(all, of(i));
    return all;
  };
  switch (e.kind()) {
    case ExprKind::constant:
      return clamped(e.value(), e.value());
    case ExprKind::variable: {
      auto it = variables.find(e.name());
      return it == variables.end() ? kAnything : it->second.range;
    }
    case ExprKind::add:
      return over([](Interval a, Interval b) { return sum(a, b); });
    case ExprKind::mul:
      return over([](Interval a, Interval b) { return product(a, b); });
    case ExprKind::sub:
      return sum(of(0), negated(of(1)));
    case ExprKind::neg:
      return negated(of(0));
    case ExprKind::exact_div:
    case ExprKind::trunc_div:
      return quotient(of(0), of(1), false);
    case ExprKind::floor_div:
      return quotient(of(0), of(1), true);
    case ExprKind::trunc_mod:
      return remainder(of(0), of(1), false);
    case ExprKind::floor_mod:
      return remainder(of(0), of(1), true);
    case ExprKind::min:
      return over([](Interval a, Interval b) {
        return Interval{std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
      });
    case ExprKind::max:
      return over([](Interval a, Interval b) {
        return Interval{std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
      });
    case ExprKind::less:
    case ExprKind::equal:
      return {0, 1};
    case ExprKind::select: {
      Interval a = of(1), b = of(2);
      return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)};
    }
  }
  return kAnything;
}

ExpressionText print_expression(const Expr& e, const Variables& variables) {
  return Printer(variables).print(e);
}

bool multiple_of(const Expr& e, int64_t factor) {
  if (factor == 1) return true;
  auto each = [&](const Expr& part) { return multiple_of(part, factor); };
  switch (e.kind()) {
    case ExprKind::constant:
      return e.value() % factor == 0;
    case ExprKind::mul: {
      int64_t left = factor;  // what the constant factors leave
      for (const Expr& part : e.args()) {
        if (!part.is_constant() || part.value() == 0) continue;
        int64_t a = std::abs(part.value()), b = left;
        while (b != 0) std::swap(a %= b, b);
        left /= a;
      }
      if (left == 1) return true;
      return std::any_of(e.args().begin(), e.args().end(), [&](const Expr& part) {
        return !part.is_constant() && multiple_of(part, left);
      });
    }
    case ExprKind::add:
    case ExprKind::sub:
    case ExprKind::neg:
      return std::all_of(e.args().begin(), e.args().end(), each);
    case ExprKind::min:
    case ExprKind::max:
      return std::all_of(e.args().begin(), e.args().end(), each);
    case ExprKind::select:
      return each(e.args()[1]) && each(e.args()[2]);
    case ExprKind::floor_mod:
    case ExprKind::trunc_mod:
      return each(e.args()[0]) && each(e.args()[1]);
    default:
      return false;
  }
}

}  // namespace tile::cuda
