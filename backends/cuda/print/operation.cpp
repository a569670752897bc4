#include "backends/cuda/print/operation.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "core/ir/scalar.h"
#include "core/support/diagnostic.h"

namespace tile::cuda {
namespace {

std::string call(std::string_view function, std::span<const ValueText> x) {
  std::string text(function);
  text += '(';
  for (size_t i = 0; i < x.size(); ++i) text += (i == 0 ? "" : ", ") + x[i].text;
  return text + ")";
}
std::string infix(const ValueText& a, const char* sign, const ValueText& b) {
  return "(" + a.text + " " + sign + " " + b.text + ")";
}

// The C library's name of a function; empty: none. f32 versions end in f.
std::string_view library_name(Op op) {
  static constexpr std::pair<Op, std::string_view> kNames[] = {
      {Op::acos, "acos"},   {Op::acosh, "acosh"}, {Op::asin, "asin"},   {Op::asinh, "asinh"},
      {Op::atan, "atan"},   {Op::atan2, "atan2"}, {Op::atanh, "atanh"}, {Op::ceil, "ceil"},
      {Op::cos, "cos"},     {Op::cosh, "cosh"},   {Op::erf, "erf"},     {Op::exp, "exp"},
      {Op::exp2, "exp2"},   {Op::expm1, "expm1"}, {Op::floor, "floor"}, {Op::log, "log"},
      {Op::log1p, "log1p"}, {Op::log2, "log2"},   {Op::pow, "pow"},     {Op::round, "rint"},
      {Op::sin, "sin"},     {Op::sinh, "sinh"},   {Op::sqrt, "sqrt"},   {Op::tan, "tan"},
      {Op::tanh, "tanh"},   {Op::trunc, "trunc"}, {Op::abs, "fabs"},    {Op::mod, "fmod"},
      {Op::fma, "fma"},
  };
  const auto* found = std::find_if(std::begin(kNames), std::end(kNames),
                                   [&](const auto& row) { return row.first == op; });
  return found == std::end(kNames) ? std::string_view{} : found->second;
}

std::string real_operation(Op op, DType type, std::span<const ValueText> x) {
  std::string suffix = type == DType::f32 ? "f" : "";
  if (std::string_view name = library_name(op); !name.empty()) {
    return call(std::string(name) + suffix, x);
  }
  std::string one = type == DType::f32 ? "1.0f" : "1.0";
  switch (op) {
    case Op::add:
      return infix(x[0], "+", x[1]);
    case Op::sub:
      return infix(x[0], "-", x[1]);
    case Op::mul:
      return infix(x[0], "*", x[1]);
    case Op::div:
      return infix(x[0], "/", x[1]);
    case Op::max:
      return call("largest", x);
    case Op::min:
      return call("least", x);
    case Op::neg:
      return "(-" + x[0].text + ")";
    case Op::square:
      return infix(x[0], "*", x[0]);
    case Op::reciprocal:
      return "(" + one + " / " + x[0].text + ")";
    case Op::rsqrt:
      return "(" + one + " / sqrt" + suffix + "(" + x[0].text + "))";
    case Op::ident:
      return x[0].text;
    case Op::gelu:
      return call("gelu", x);
    case Op::relu:
      return call("relu", x);
    case Op::sigmoid:
      return call("sigmoid", x);
    case Op::sign:
      return call("sign_real", x);
    case Op::softplus:
      return call("softplus", x);
    default:
      throw InternalError("cuda: not an operation on floats");
  }
}

std::string_view unsigned_type(DType type) { return bit_width(type) == 64 ? "u64" : "u32"; }

// Wrapping arithmetic is unsigned arithmetic.
std::string wrapped(DType type, const ValueText& a, const char* sign, const ValueText& b) {
  std::string u = "(" + std::string(unsigned_type(type)) + ")";
  return "(" + std::string(type_name(type)) + ")(" + u + a.text + " " + sign + " " + u + b.text +
         ")";
}

std::string integer_operation(Op op, DType type, std::span<const ValueText> x) {
  bool positive = is_unsigned_integer(type);
  ValueText zero{"0", type};
  switch (op) {
    case Op::add:
      return wrapped(type, x[0], "+", x[1]);
    case Op::sub:
      return wrapped(type, x[0], "-", x[1]);
    case Op::mul:
      return wrapped(type, x[0], "*", x[1]);
    case Op::square:
      return wrapped(type, x[0], "*", x[0]);
    case Op::neg:
      return wrapped(type, zero, "-", x[0]);
    case Op::fma: {
      ValueText product{wrapped(type, x[0], "*", x[1]), type};
      return wrapped(type, product, "+", x[2]);
    }
    case Op::div:
      return call("quotient", x);
    case Op::mod:
      return call("remainder", x);
    case Op::max:
      return call("largest", x);
    case Op::min:
      return call("least", x);
    case Op::shl:
      return call("shl", x);
    case Op::shr:
      return call("shr", x);
    case Op::bit_and:
      return infix(x[0], "&", x[1]);
    case Op::bit_or:
      return infix(x[0], "|", x[1]);
    case Op::bit_xor:
      return infix(x[0], "^", x[1]);
    case Op::bit_not:
      return "(~" + x[0].text + ")";
    case Op::abs:
      if (positive) return x[0].text;
      return "(" + x[0].text + " < 0 ? " + wrapped(type, zero, "-", x[0]) + " : " + x[0].text + ")";
    case Op::relu:
      if (positive) return x[0].text;
      return "(" + x[0].text + " < 0 ? 0 : " + x[0].text + ")";
    case Op::sign:
      return positive ? "(" + std::string(type_name(type)) + ")(" + x[0].text + " != 0)"
                      : call("sign_of", x);
    case Op::ident:
    case Op::ceil:
    case Op::floor:
    case Op::round:
    case Op::trunc:
      return x[0].text;
    default:
      throw InternalError("cuda: not an operation on integers");
  }
}

std::string truth_operation(Op op, std::span<const ValueText> x) {
  bool real = is_float(x[0].type);
  switch (op) {
    case Op::logical_and:
      return "(" + print_truth(x[0]) + " && " + print_truth(x[1]) + ")";
    case Op::logical_or:
      return "(" + print_truth(x[0]) + " || " + print_truth(x[1]) + ")";
    case Op::logical_not:
      return "(!" + print_truth(x[0]) + ")";
    case Op::isnan:
      return real ? infix(x[0], "!=", x[0]) : "false";
    case Op::isinf:
      if (!real) return "false";
      return "(" + std::string(x[0].type == DType::f32 ? "fabsf(" : "fabs(") + x[0].text +
             ") == " + real_literal(std::numeric_limits<double>::infinity(), x[0].type) + ")";
    case Op::ident:
      return print_truth(x[0]);
    default:
      throw InternalError("cuda: not an operation with a bool result");
  }
}

// See `pick` in the prelude for why small signed integers are not chosen by `?:`.
std::string print_selection(DType type, std::span<const ValueText> x) {
  std::string condition = print_truth(x[0]);
  std::string yes = print_conversion(x[1], type), no = print_conversion(x[2], type);
  bool picked = is_integer(type) && !is_unsigned_integer(type) && bit_width(type) <= 32;
  if (!picked) return "(" + condition + " ? " + yes + " : " + no + ")";
  return "(" + std::string(type_name(type)) + ")pick(" + condition + ", " + yes + ", " + no + ")";
}

const char* comparison_sign(Op op) {
  switch (op) {
    case Op::eq:
      return "==";
    case Op::ne:
      return "!=";
    case Op::lt:
      return "<";
    case Op::le:
      return "<=";
    case Op::gt:
      return ">";
    default:
      return ">=";
  }
}

// Floats below 32 bits, which only conversions look into.
bool is_struct(DType type) { return is_float(type) && bit_width(type) < 32; }

}  // namespace

std::string_view type_name(DType type) {
  return type == DType::bool_ ? std::string_view("bool") : to_string(type);
}
std::string_view memory_type(DType type) {
  return type == DType::bool_ ? std::string_view("u8") : to_string(type);
}

std::string zero_value(DType type) {
  if (is_struct(type)) return std::string(type_name(type)) + "{0}";
  return "0";
}

std::string integer_literal(int64_t value, DType type) {
  if (type == DType::bool_) return value != 0 ? "true" : "false";
  if (is_float(type)) return real_literal(integer_scalar(value, type).f, type);
  value = integer_scalar(value, type).i;
  std::string name = "(" + std::string(type_name(type)) + ")";
  if (is_unsigned_integer(type)) {
    return name + std::to_string(static_cast<uint64_t>(value)) + "ull";
  }
  if (value == std::numeric_limits<int64_t>::min()) return "(-9223372036854775807ll - 1)";
  if (bit_width(type) == 64) return name + std::to_string(value) + "ll";
  if (value == std::numeric_limits<int32_t>::min()) return "(-2147483647 - 1)";
  return name + std::to_string(value);
}

std::string real_literal(double value, DType type) {
  if (!is_float(type)) return integer_literal(real_scalar(value, type).i, type);
  value = real_scalar(value, type).f;
  if (is_struct(type)) {
    uint16_t bits = 0;
    store_element(reinterpret_cast<std::byte*>(&bits), real_scalar(value, type));
    return std::string(type_name(type)) + (is_f8(type) ? "{(u8)" : "{(u16)") +
           std::to_string(bits) + "u}";
  }
  bool single = type == DType::f32;
  char text[64];
  if (std::isfinite(value)) {
    std::snprintf(text, sizeof text, single ? "%af" : "%a", value);
    return value < 0 || std::signbit(value) ? "(" + std::string(text) + ")" : text;
  }
  if (std::isnan(value))
    return single ? "__uint_as_float(0x7fc00000u)" : "__longlong_as_double(0x7ff8000000000000ll)";
  std::string infinity =
      single ? "__uint_as_float(0x7f800000u)" : "__longlong_as_double(0x7ff0000000000000ll)";
  return value < 0 ? "(-" + infinity + ")" : infinity;
}

std::string print_truth(const ValueText& value) {
  if (value.type == DType::bool_) return value.text;
  if (is_struct(value.type)) {
    return "((" + value.text + ".bits & " + (is_f8(value.type) ? "0x7f" : "0x7fff") + ") != 0)";
  }
  return "(" + value.text + " != 0)";
}

std::string print_conversion(const ValueText& value, DType type) {
  if (value.type == type) return value.text;
  if (type == DType::bool_) return print_truth(value);
  std::string name(type_name(type));
  ValueText x = value;
  if (is_struct(value.type) && (!is_struct(type) || is_f8(value.type) || is_f8(type))) {
    x = {"from(" + value.text + ")", DType::f32};
    if (type == DType::f32) return x.text;
  }
  if (is_struct(type)) {
    bool small = x.type == DType::bool_ || (is_integer(x.type) && bit_width(x.type) < 32);
    return "to_" + name + "(" + (small ? "(i32)" : "") + x.text + ")";
  }
  if (!is_float(type) && is_float(x.type)) {
    std::string low = "0", high;
    int bits = bit_width(type);
    if (is_unsigned_integer(type)) {
      high = integer_literal(static_cast<int64_t>(~uint64_t{0} >> (64 - bits)), type);
    } else {
      int64_t most = std::numeric_limits<int64_t>::max() >> (64 - bits);
      high = integer_literal(most, type);
      low = integer_literal(-most - 1, type);
    }
    return "saturate<" + name + ">(" + x.text + ", " + low + ", " + high + ")";
  }
  return "(" + name + ")" + x.text;
}

std::string print_operation(Op op, DType type, std::span<const ValueText> x) {
  switch (info(op).rule) {
    case TypeRule::casting:
    case TypeRule::casting_like:
      return print_conversion(x[0], type);
    case TypeRule::comparison:
      return infix(x[0], comparison_sign(op), x[1]);
    case TypeRule::selection:
      return print_selection(type, x);
    case TypeRule::random:
      return "uniform(" + x[0].text + ", " + x[1].text + ")";
    case TypeRule::packed:
      fail(Stage::compile, "unsupported", {}, "a nest with packed elements is for CPUs");
    default:
      break;
  }
  if (type == DType::bool_) return truth_operation(op, x);
  return is_float(type) ? real_operation(op, type, x) : integer_operation(op, type, x);
}

}  // namespace tile::cuda
