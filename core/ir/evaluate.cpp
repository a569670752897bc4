// The table's operations on values: one row of operations.def, one case here.
#include <array>
#include <cmath>
#include <limits>

#include "core/ir/scalar.h"
#include "core/support/diagnostic.h"
#include "core/support/extrema.h"

namespace tile {
namespace {

double sigmoid(double x) {
  if (x >= 0) return 1 / (1 + std::exp(-x));
  double e = std::exp(x);
  return e / (1 + e);
}
double softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }
// erfc keeps the relative accuracy of the negative tail; the limit at -inf is -0.
double gelu(double x) {
  if (x == -std::numeric_limits<double>::infinity()) return -0.0;
  return 0.5 * x * std::erfc(-x * 0.70710678118654752440);
}
double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : x == 0 ? 0 : x; }
double relu(double x) { return x > 0 || std::isnan(x) ? x : 0; }

std::optional<double> function(Op op, double x) {
  switch (op) {
    case Op::acos:
      return std::acos(x);
    case Op::acosh:
      return std::acosh(x);
    case Op::asin:
      return std::asin(x);
    case Op::asinh:
      return std::asinh(x);
    case Op::atan:
      return std::atan(x);
    case Op::atanh:
      return std::atanh(x);
    case Op::cos:
      return std::cos(x);
    case Op::cosh:
      return std::cosh(x);
    case Op::erf:
      return std::erf(x);
    case Op::exp:
      return std::exp(x);
    case Op::exp2:
      return std::exp2(x);
    case Op::expm1:
      return std::expm1(x);
    case Op::gelu:
      return gelu(x);
    case Op::log:
      return std::log(x);
    case Op::log1p:
      return std::log1p(x);
    case Op::log2:
      return std::log2(x);
    case Op::reciprocal:
      return 1 / x;
    case Op::rsqrt:
      return 1 / std::sqrt(x);
    case Op::sigmoid:
      return sigmoid(x);
    case Op::sin:
      return std::sin(x);
    case Op::sinh:
      return std::sinh(x);
    case Op::softplus:
      return softplus(x);
    case Op::sqrt:
      return std::sqrt(x);
    case Op::tan:
      return std::tan(x);
    case Op::tanh:
      return std::tanh(x);
    default:
      return std::nullopt;
  }
}

std::optional<double> float_unary(Op op, double x) {
  switch (op) {
    case Op::neg:
      return -x;
    case Op::abs:
      return std::fabs(x);
    case Op::ceil:
      return std::ceil(x);
    case Op::floor:
      return std::floor(x);
    case Op::round:
      return std::nearbyint(x);
    case Op::trunc:
      return std::trunc(x);
    case Op::ident:
      return x;
    case Op::relu:
      return relu(x);
    case Op::sign:
      return sign(x);
    case Op::square:
      return x * x;
    default:
      return function(op, x);
  }
}

// In double; the caller rounds to f32, which for + - * / of f32 operands is the IEEE result (double
// has more than twice the digits).
double float_binary(Op op, double x, double y) {
  switch (op) {
    case Op::add:
      return x + y;
    case Op::sub:
      return x - y;
    case Op::mul:
      return x * y;
    case Op::div:
      return x / y;
    case Op::mod:
      return std::fmod(x, y);
    case Op::max:
      return maximum(x, y);
    case Op::min:
      return minimum(x, y);
    case Op::atan2:
      return std::atan2(x, y);
    case Op::pow:
      return std::pow(x, y);
    default:
      throw InternalError("evaluate: not an operation on floats");
  }
}

double fused(DType type, double x, double y, double z) {
  if (type == DType::f64) return std::fma(x, y, z);
  return static_cast<double>(
      std::fma(static_cast<float>(x), static_cast<float>(y), static_cast<float>(z)));
}

Scalar evaluate_float(Op op, DType type, std::span<const Scalar> x) {
  if (op == Op::fma) return real_scalar(fused(type, x[0].f, x[1].f, x[2].f), type);
  if (x.size() == 1) {
    std::optional<double> r = float_unary(op, x[0].f);
    internal_check(r.has_value(), "evaluate: not an operation on floats");
    return real_scalar(*r, type);
  }
  return real_scalar(float_binary(op, x[0].f, x[1].f), type);
}

// Rule 5.5. Operands of types below 64 bits are extended, so only 64-bit division can overflow.
int64_t divide(DType type, int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (is_unsigned_integer(type)) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) / static_cast<uint64_t>(b));
  }
  return b == -1 ? static_cast<int64_t>(-static_cast<uint64_t>(a)) : a / b;
}
int64_t remainder(DType type, int64_t a, int64_t b) {
  if (b == 0 || b == -1) {
    if (b == -1 && type == DType::u64) return a == -1 ? 0 : a;
    return 0;
  }
  if (is_unsigned_integer(type)) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) % static_cast<uint64_t>(b));
  }
  return a % b;
}
int64_t shift(Op op, DType type, int64_t a, int64_t b) {
  bool wide = b < 0 || b >= bit_width(type);  // a negative count, and a u64 one past 2^63, too
  if (op == Op::shl) return wide ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) << b);
  if (is_unsigned_integer(type)) {
    return wide ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) >> b);
  }
  return a >> (wide ? 63 : b);
}

bool less(DType type, int64_t a, int64_t b) {
  return type == DType::u64 ? static_cast<uint64_t>(a) < static_cast<uint64_t>(b) : a < b;
}

int64_t integer_unary(Op op, DType type, int64_t a) {
  auto u = static_cast<uint64_t>(a);
  bool negative = !is_unsigned_integer(type) && a < 0;
  switch (op) {
    case Op::neg:
      return static_cast<int64_t>(-u);
    case Op::bit_not:
      return static_cast<int64_t>(~u);
    case Op::abs:
      return negative ? static_cast<int64_t>(-u) : a;
    case Op::relu:
      return negative ? 0 : a;
    case Op::sign:
      return negative ? -1 : a != 0 ? 1 : 0;
    case Op::square:
      return static_cast<int64_t>(u * u);
    case Op::ident:
    case Op::ceil:
    case Op::floor:
    case Op::round:
    case Op::trunc:
      return a;
    default:
      throw InternalError("evaluate: not an operation on integers");
  }
}

int64_t integer_binary(Op op, DType type, int64_t a, int64_t b) {
  auto u = static_cast<uint64_t>(a), v = static_cast<uint64_t>(b);
  switch (op) {
    case Op::add:
      return static_cast<int64_t>(u + v);
    case Op::sub:
      return static_cast<int64_t>(u - v);
    case Op::mul:
      return static_cast<int64_t>(u * v);
    case Op::div:
      return divide(type, a, b);
    case Op::mod:
      return remainder(type, a, b);
    case Op::shl:
    case Op::shr:
      return shift(op, type, a, b);
    case Op::bit_and:
      return a & b;
    case Op::bit_or:
      return a | b;
    case Op::bit_xor:
      return a ^ b;
    case Op::max:
      return less(type, a, b) ? b : a;
    case Op::min:
      return less(type, b, a) ? b : a;
    default:
      throw InternalError("evaluate: not an operation on integers");
  }
}

Scalar evaluate_integer(Op op, DType type, std::span<const Scalar> x) {
  if (op == Op::fma) {
    int64_t product = integer_binary(Op::mul, type, x[0].i, x[1].i);
    return integer_scalar(integer_binary(Op::add, type, product, x[2].i), type);
  }
  if (x.size() == 1) return integer_scalar(integer_unary(op, type, x[0].i), type);
  return integer_scalar(integer_binary(op, type, x[0].i, x[1].i), type);
}

bool compare(Op op, const Scalar& a, const Scalar& b) {
  bool real = is_float(a.type);
  bool lt = real ? a.f < b.f : less(a.type, a.i, b.i);
  bool gt = real ? a.f > b.f : less(a.type, b.i, a.i);
  bool eq = real ? a.f == b.f : a.i == b.i;
  switch (op) {
    case Op::eq:
      return eq;
    case Op::ne:
      return !eq;
    case Op::lt:
      return lt;
    case Op::le:
      return lt || eq;
    case Op::gt:
      return gt;
    default:
      return gt || eq;
  }
}

// Elements side by side in a u32.
using PackedBytes = std::array<std::byte, 4>;

Scalar pack(std::span<const Scalar> x) {
  PackedBytes bytes{};
  size_t at = 0;
  for (const Scalar& element : x) {
    internal_check(at + byte_size(element.type) <= bytes.size(), "evaluate: too wide to pack");
    store_element(&bytes[at], element);
    at += byte_size(element.type);
  }
  return load_element(bytes.data(), DType::u32);
}

Scalar packed_element(const Scalar& value, size_t at, DType type) {
  PackedBytes bytes{};
  store_element(bytes.data(), value);
  return load_element(&bytes[at * byte_size(type)], type);
}

Scalar dot(Op op, DType type, std::span<const Scalar> x) {
  DType left = op == Op::dot2_bf16 ? DType::bf16 : op == Op::dot2_i16 ? DType::i16 : DType::u8;
  DType right = op == Op::dot4_u8i8 ? DType::i8 : left;
  Scalar sum = x[2];
  for (size_t i = sizeof(PackedBytes) / byte_size(left); i-- > 0;) {
    Scalar a = packed_element(x[0], i, left), b = packed_element(x[1], i, right);
    Scalar operands[3] = {convert(a, type), convert(b, type), sum};
    sum = is_float(type) ? evaluate_float(Op::fma, type, operands)
                         : evaluate_integer(Op::fma, type, operands);
  }
  return sum;
}

Scalar evaluate_packed(Op op, DType type, std::span<const Scalar> x) {
  return op == Op::pack2 || op == Op::pack4 ? pack(x) : dot(op, type, x);
}

uint64_t scramble(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

bool evaluate_bool(Op op, std::span<const Scalar> x) {
  switch (op) {
    case Op::logical_and:
      return is_true(x[0]) && is_true(x[1]);
    case Op::logical_or:
      return is_true(x[0]) || is_true(x[1]);
    case Op::logical_not:
      return !is_true(x[0]);
    case Op::isnan:
      return is_float(x[0].type) && std::isnan(x[0].f);
    case Op::isinf:
      return is_float(x[0].type) && std::isinf(x[0].f);
    case Op::ident:
      return is_true(x[0]);
    default:
      throw InternalError("evaluate: not an operation with a bool result");
  }
}

}  // namespace

uint64_t uniform_bits(int64_t seed, int64_t counter) {
  constexpr uint64_t kStep = 0x9E3779B97F4A7C15u;  // 2^64 / golden ratio, odd
  uint64_t first = scramble(static_cast<uint64_t>(seed) + kStep);
  uint64_t second = scramble(first + kStep);
  return scramble(scramble(static_cast<uint64_t>(counter) * kStep + first) + second);
}

Scalar evaluate(Op op, DType type, std::span<const Scalar> x) {
  internal_check(x.size() == static_cast<size_t>(info(op).arity), "evaluate: operand count");
  switch (info(op).rule) {
    case TypeRule::casting:
    case TypeRule::casting_like:
      return convert(x[0], type);
    case TypeRule::comparison:
      return integer_scalar(compare(op, x[0], x[1]) ? 1 : 0, DType::bool_);
    case TypeRule::selection:
      return convert(is_true(x[0]) ? x[1] : x[2], type);
    case TypeRule::random:
      return real_scalar(static_cast<double>(uniform_bits(x[0].i, x[1].i) >> 40) * 0x1p-24,
                         DType::f32);
    case TypeRule::packed:
      return evaluate_packed(op, type, x);
    default:
      break;
  }
  if (type == DType::bool_) return integer_scalar(evaluate_bool(op, x) ? 1 : 0, DType::bool_);
  return is_float(type) ? evaluate_float(op, type, x) : evaluate_integer(op, type, x);
}

}  // namespace tile
