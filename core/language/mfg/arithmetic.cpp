#include "core/language/mfg/arithmetic.h"

#include <algorithm>
#include <array>
#include <string>

namespace tile::mfg {
namespace {

struct OperatorRow {
  std::string_view text;
  Op op;
};
constexpr auto kOperators = std::to_array<OperatorRow>({{"+", Op::add},
                                                        {"-", Op::sub},
                                                        {"*", Op::mul},
                                                        {"/", Op::div},
                                                        {"%", Op::mod},
                                                        {"|", Op::bit_or},
                                                        {"&", Op::bit_and},
                                                        {"<<", Op::shl},
                                                        {">>", Op::shr},
                                                        {"==", Op::eq},
                                                        {"!=", Op::ne},
                                                        {"<", Op::lt},
                                                        {"<=", Op::le},
                                                        {">", Op::gt},
                                                        {">=", Op::ge},
                                                        {"&&", Op::logical_and},
                                                        {"||", Op::logical_or}});

Op operator_named(std::string_view text) {
  for (const OperatorRow& row : kOperators) {
    if (row.text == text) return row.op;
  }
  throw InternalError("mfg: an unknown operator");
}

int64_t low_of(DType type) {
  return is_unsigned_integer(type) ? 0 : -(int64_t{1} << (bit_width(type) - 1));
}
int64_t high_of(DType type) {
  return (int64_t{1} << (bit_width(type) - (is_unsigned_integer(type) ? 0 : 1))) - 1;
}

}  // namespace

Value scalar_value(Part part) { return {scalar_type(part.type), {part.ref}}; }

Value tuple_value(const std::vector<Part>& parts) {
  Value value;
  value.type.tuple = true;
  for (const Part& part : parts) {
    value.type.parts.push_back(part.type);
    value.parts.push_back(part.ref);
  }
  return value;
}

// f32 to an integer truncates and saturates, u8 and u16 saturate wider integers, other casts wrap.
Part Arithmetic::convert(Part value, DType type) {
  if (value.type == type) return value;
  if (!is_narrow(type)) return {frames_.cast(value.ref, type), type};
  if (value.type == DType::f32) {
    Part whole{frames_.cast(value.ref, DType::i32), DType::i32};
    return saturated(whole, low_of(type), high_of(type), type);
  }
  if (low_of(type) <= low_of(value.type) && high_of(value.type) <= high_of(type)) {
    return {value.ref, type};
  }
  bool saturates = is_unsigned_integer(type) && bit_width(value.type) > bit_width(type);
  return saturates ? saturated(value, 0, high_of(type), type) : wrapped(value, type);
}

Part Arithmetic::saturated(Part value, int64_t low, int64_t high, DType type) {
  DType held = frames_.type_of(value.ref);
  Ref ref = frames_.operation(Op::min, {value.ref, frames_.integer(high, held)}, held);
  if (held != DType::u32) {
    ref = frames_.operation(Op::max, {ref, frames_.integer(low, held)}, held);
  }
  return {frames_.cast(ref, DType::i32), type};
}

Part Arithmetic::wrapped(Part value, DType type) {
  Ref ref = frames_.cast(value.ref, DType::i32);
  if (is_unsigned_integer(type)) {
    return {frames_.operation(Op::bit_and, {ref, frames_.integer(high_of(type))}, DType::i32),
            type};
  }
  Ref shift = frames_.integer(32 - bit_width(type));
  ref = frames_.operation(Op::shl, {ref, shift}, DType::i32);
  return {frames_.operation(Op::shr, {ref, shift}, DType::i32), type};
}

Part Arithmetic::widen(Part value, DType type) { return {frames_.cast(value.ref, type), type}; }

Part Arithmetic::promoted_operation(Op op, Part a, Part b) {
  DType type = promoted(a.type, b.type);
  return {frames_.operation(op, {widen(a, type).ref, widen(b, type).ref}, type), type};
}

Part Arithmetic::operation(Op op, Part a, DType type) {
  return {frames_.operation(op, {widen(a, type).ref}, type), type};
}

Part Arithmetic::binary(std::string_view text, Part a, Part b, Span span) {
  if (text == "^") return power(a, b);
  Op op = operator_named(text);
  if (info(op).rule == TypeRule::logical) {
    Ref both = frames_.operation(op, {condition(a), condition(b)}, DType::bool_);
    return {frames_.truth(both), DType::i32};
  }
  if (info(op).rule == TypeRule::comparison) {
    DType type = promoted(a.type, b.type);
    Ref result = frames_.operation(op, {widen(a, type).ref, widen(b, type).ref}, DType::bool_);
    return {frames_.truth(result), DType::i32};
  }
  if (info(op).rule == TypeRule::integral && promoted(a.type, b.type) == DType::f32) {
    fail(Stage::parse, "type", span,
         "expected integers around '" + std::string(text) + "', found " +
             std::string(to_string(a.type)) + " and " + std::string(to_string(b.type)));
  }
  return promoted_operation(op, a, b);
}

Part Arithmetic::unary(std::string_view text, Part a, Span) {
  if (text == "-") return operation(Op::neg, a, compute_type(a.type));
  Ref no = frames_.operation(Op::logical_not, {condition(a)}, DType::bool_);
  return {frames_.truth(no), DType::i32};
}

Part Arithmetic::power(Part a, Part b) {
  DType type = promoted(a.type, b.type);
  if (type != DType::f32) return integer_power(widen(a, type), widen(b, type));
  return promoted_operation(Op::pow, a, b);
}

// By squaring, wrapping; a negative exponent gives 0.
Part Arithmetic::integer_power(Part base, Part exponent) {
  DType type = base.type;
  int bits = type == DType::u32 ? 32 : 31;
  if (std::optional<Scalar> known = frames_.constant(exponent.ref)) {
    if (known->i < 0) return integer(0, type);
    bits = 0;
    while ((known->i >> bits) != 0) ++bits;
  }
  Part result = integer(1, type), square = base;
  for (int bit = 0; bit < bits; ++bit) {
    if (bit > 0) square = promoted_operation(Op::mul, square, square);
    Part picked = promoted_operation(Op::bit_and, exponent, integer(int64_t{1} << bit, type));
    result = select(condition(picked), promoted_operation(Op::mul, result, square), result);
  }
  if (type == DType::u32) return result;
  Ref negative = frames_.operation(Op::lt, {exponent.ref, frames_.integer(0)}, DType::bool_);
  return select(negative, integer(0, type), result);
}

Part Arithmetic::select(Ref condition, Part yes, Part no) {
  return {frames_.select(condition, yes.ref, no.ref), yes.type};
}

Part Arithmetic::clamp(Part value, Part low, Part high) {
  return promoted_operation(Op::min, promoted_operation(Op::max, value, low), high);
}

Value Arithmetic::map(const Value& a, const Unary& f) {
  std::vector<Part> parts;
  for (size_t i = 0; i < a.parts.size(); ++i) parts.push_back(f(a.part(i)));
  Value value = tuple_value(parts);
  value.type.tuple = a.type.tuple;
  return value;
}

Value Arithmetic::map(const Value& a, const Value& b, const Binary& f, Span span) {
  if (a.type.tuple && b.type.tuple && a.parts.size() != b.parts.size()) {
    fail(Stage::parse, "type", span,
         "expected tuples of one length, found " + to_string(a.type) + " and " + to_string(b.type));
  }
  std::vector<Part> parts;
  size_t count = std::max(a.parts.size(), b.parts.size());
  for (size_t i = 0; i < count; ++i) {
    parts.push_back(f(a.part(a.type.tuple ? i : 0), b.part(b.type.tuple ? i : 0)));
  }
  Value value = tuple_value(parts);
  value.type.tuple = a.type.tuple || b.type.tuple;
  return value;
}

}  // namespace tile::mfg
