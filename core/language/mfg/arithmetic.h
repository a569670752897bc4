// The operators of MFG on scalars and, component by component, on tuples (README.md, section 2).
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "core/language/mfg/frames.h"
#include "core/language/mfg/types.h"

namespace tile::mfg {

// A scalar with its MFG type; narrow integers are carried in i32.
struct Part {
  Ref ref;
  DType type = DType::i32;
};

struct Value {
  Type type;
  std::vector<Ref> parts;

  Part part(size_t i) const { return {parts[i], type.parts[i]}; }
};

Value scalar_value(Part part);
Value tuple_value(const std::vector<Part>& parts);

inline constexpr size_t kMaxComponents = 1024;

class Arithmetic {
 public:
  explicit Arithmetic(Frames& frames) : frames_(frames) {}

  Part integer(int64_t value, DType type = DType::i32) {
    return {frames_.integer(value, type), type};
  }
  Part real(double value) { return {frames_.real(value), DType::f32}; }
  // A cast written by the user: saturates or wraps.
  Part convert(Part value, DType type);
  // The value as an operand of type i32, u32 or f32, to which it promotes.
  Part widen(Part value, DType type);
  // Throws Failure: operators on types that they do not have.
  Part binary(std::string_view op, Part a, Part b, Span span);
  Part unary(std::string_view op, Part a, Span span);
  Part power(Part a, Part b);
  // An operation of the table on promoted operands.
  Part promoted_operation(Op op, Part a, Part b);
  Part operation(Op op, Part a, DType type);
  Part select(Ref condition, Part yes, Part no);
  Ref condition(Part value) { return frames_.condition(value.ref); }
  Part clamp(Part value, Part low, Part high);

  // Component by component; a scalar goes with every component. Throws Failure: sizes differ.
  using Binary = std::function<Part(Part, Part)>;
  using Unary = std::function<Part(Part)>;
  Value map(const Value& a, const Unary& f);
  Value map(const Value& a, const Value& b, const Binary& f, Span span);

 private:
  Part saturated(Part value, int64_t low, int64_t high, DType type);
  Part wrapped(Part value, DType type);
  Part integer_power(Part base, Part exponent);

  Frames& frames_;
};

}  // namespace tile::mfg
