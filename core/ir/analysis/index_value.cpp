#include "core/ir/analysis/index_value.h"

#include <algorithm>
#include <limits>

#include "core/support/checked.h"

namespace tile {
namespace {

constexpr int kMostOperations = 64;
using Limits = std::numeric_limits<int64_t>;

struct Span64 {
  int64_t lo, hi;
};

Span64 limits_of(DType type) {
  int bits = bit_width(type);
  if (type == DType::bool_) return {0, 1};
  if (is_signed_integer(type)) return {Limits::min() >> (64 - bits), Limits::max() >> (64 - bits)};
  return {0, bits == 64 ? Limits::max() : (int64_t{1} << bits) - 1};
}

Span64 product(const IndexValue& a, const IndexValue& b) {
  int64_t c[4] = {checked_mul(a.lo, b.lo), checked_mul(a.lo, b.hi), checked_mul(a.hi, b.lo),
                  checked_mul(a.hi, b.hi)};
  return {*std::min_element(c, c + 4), *std::max_element(c, c + 4)};
}

// Of a divisor above zero.
Span64 quotient(const IndexValue& a, const IndexValue& b) {
  int64_t c[4] = {a.lo / b.lo, a.lo / b.hi, a.hi / b.lo, a.hi / b.hi};
  return {*std::min_element(c, c + 4), *std::max_element(c, c + 4)};
}
Span64 remainder(const IndexValue& a, const IndexValue& b) {
  int64_t most = b.hi - 1;
  return {a.lo >= 0 ? 0 : std::max(a.lo, -most), a.hi <= 0 ? 0 : std::min(a.hi, most)};
}

IndexValue truth(const IndexValue& x) {
  if (x.lo >= 0 && x.hi <= 1) return x;
  if (x.lo > 0 || x.hi < 0) return {Expr(1), 1, 1, 1};
  return {Expr(1) - equal(x.expr, 0), 0, 1, x.size + 2};
}

std::optional<Expr> comparison(Op op, const Expr& a, const Expr& b) {
  switch (op) {
    case Op::eq:
      return equal(a, b);
    case Op::ne:
      return Expr(1) - equal(a, b);
    case Op::lt:
      return less(a, b);
    case Op::le:
      return Expr(1) - less(b, a);
    case Op::gt:
      return less(b, a);
    case Op::ge:
      return Expr(1) - less(a, b);
    default:
      return std::nullopt;
  }
}

using Result = std::optional<std::pair<Expr, Span64>>;

Result made(const Expr& e, int64_t lo, int64_t hi) { return std::pair(e, Span64{lo, hi}); }

Result unary(Op op, const IndexValue& x) {
  switch (op) {
    case Op::neg:
      return made(-x.expr, checked_neg(x.hi), checked_neg(x.lo));
    case Op::abs: {
      int64_t most = std::max(checked_neg(x.lo), x.hi);
      return made(max(x.expr, -x.expr), 0, most);
    }
    case Op::square: {
      int64_t most = std::max(checked_mul(x.lo, x.lo), checked_mul(x.hi, x.hi));
      return made(x.expr * x.expr, 0, most);
    }
    case Op::relu:
      return made(max(x.expr, 0), std::max<int64_t>(x.lo, 0), std::max<int64_t>(x.hi, 0));
    case Op::ident:
    case Op::ceil:
    case Op::floor:
    case Op::round:
    case Op::trunc:
    case Op::cast:
      return made(x.expr, x.lo, x.hi);
    default:
      return std::nullopt;
  }
}

// Shifts by a constant, and masks of low bits.
Result bitwise(Op op, const IndexValue& a, const IndexValue& b) {
  if (b.lo != b.hi || b.lo < 0) return std::nullopt;
  if (op == Op::bit_and) {
    int64_t period = checked_add(b.lo, 1);
    if ((period & b.lo) != 0) return std::nullopt;
    return made(floor_mod(a.expr, Expr(period)), 0, b.lo);
  }
  if (b.lo >= 32) return std::nullopt;
  int64_t factor = int64_t{1} << b.lo;
  if (op == Op::shl) {
    return made(a.expr * Expr(factor), checked_mul(a.lo, factor), checked_mul(a.hi, factor));
  }
  return made(floor_div(a.expr, Expr(factor)), a.lo >> b.lo, a.hi >> b.lo);
}

Result binary(Op op, const IndexValue& a, const IndexValue& b) {
  switch (op) {
    case Op::add:
      return made(a.expr + b.expr, checked_add(a.lo, b.lo), checked_add(a.hi, b.hi));
    case Op::sub:
      return made(a.expr - b.expr, checked_sub(a.lo, b.hi), checked_sub(a.hi, b.lo));
    case Op::mul: {
      Span64 range = product(a, b);
      return made(a.expr * b.expr, range.lo, range.hi);
    }
    case Op::min:
      return made(min(a.expr, b.expr), std::min(a.lo, b.lo), std::min(a.hi, b.hi));
    case Op::max:
      return made(max(a.expr, b.expr), std::max(a.lo, b.lo), std::max(a.hi, b.hi));
    case Op::div:
    case Op::mod: {
      if (b.lo <= 0) return std::nullopt;
      bool natural = a.lo >= 0, quotient_asked = op == Op::div;
      Span64 range = quotient_asked ? quotient(a, b) : remainder(a, b);
      Expr down = quotient_asked ? floor_div(a.expr, b.expr) : floor_mod(a.expr, b.expr);
      Expr cut = quotient_asked ? trunc_div(a.expr, b.expr) : trunc_mod(a.expr, b.expr);
      return made(natural ? down : cut, range.lo, range.hi);
    }
    case Op::shl:
    case Op::shr:
    case Op::bit_and:
      return bitwise(op, a, b);
    default:
      return std::nullopt;
  }
}

Result logical(Op op, std::span<const IndexValue> x) {
  Expr a = truth(x[0]).expr;
  if (op == Op::logical_not) return made(Expr(1) - a, 0, 1);
  Expr b = truth(x[1]).expr;
  if (op == Op::logical_and) return made(a * b, 0, 1);
  return made(Expr(1) - (Expr(1) - a) * (Expr(1) - b), 0, 1);
}

Result applied(Op op, DType type, std::span<const IndexValue> x) {
  switch (info(op).rule) {
    case TypeRule::comparison:
      if (auto e = comparison(op, x[0].expr, x[1].expr)) return made(*e, 0, 1);
      return std::nullopt;
    case TypeRule::logical:
      return logical(op, x);
    case TypeRule::selection: {
      Expr e = select(truth(x[0]).expr, x[1].expr, x[2].expr);
      return made(e, std::min(x[1].lo, x[2].lo), std::max(x[1].hi, x[2].hi));
    }
    case TypeRule::arithmetic:
    case TypeRule::integral:
    case TypeRule::casting:
    case TypeRule::rounding:
    case TypeRule::identity:
      break;
    default:
      return std::nullopt;
  }
  if (op == Op::cast && type == DType::bool_) {
    IndexValue t = truth(x[0]);
    return made(t.expr, t.lo, t.hi);
  }
  if (x.size() > 2) return std::nullopt;
  return x.size() == 1 ? unary(op, x[0]) : binary(op, x[0], x[1]);
}

}  // namespace

bool fits(int64_t lo, int64_t hi, DType type) {
  Span64 all = limits_of(type);
  return lo >= all.lo && hi <= all.hi;
}

std::optional<IndexValue> index_literal(int64_t value, DType type) {
  if (type != DType::bool_ && !is_integer(type)) return std::nullopt;
  if (!fits(value, value, type)) return std::nullopt;
  return IndexValue{Expr(value), value, value, 1};
}

std::optional<IndexValue> index_operation(Op op, DType type, std::span<const IndexValue> x) {
  if (type != DType::bool_ && !is_integer(type)) return std::nullopt;
  try {
    int size = 1;
    for (const IndexValue& v : x) size += v.size;
    if (size > kMostOperations) return std::nullopt;
    Result r = applied(op, type, x);
    if (!r || !fits(r->second.lo, r->second.hi, type)) return std::nullopt;
    return IndexValue{r->first, r->second.lo, r->second.hi, size};
  } catch (const Overflow&) {
    return std::nullopt;
  }
}

}  // namespace tile
