// The built-in functions on numbers.
#include <algorithm>
#include <array>

#include "core/language/mfg/builtin_names.h"
#include "core/language/mfg/elaborate.h"
#include "core/language/mfg/token.h"

namespace tile::mfg {
namespace {

// Functions of one number, component by component. Floating ones take integers as f32.
enum class Kind : uint8_t { floating, rounding, arithmetic, predicate };
struct FunctionRow {
  std::string_view name;
  Op op;
  Kind kind;
};
constexpr auto kFunctions = std::to_array<FunctionRow>({
    {"exp", Op::exp, Kind::floating},
    {"exp2", Op::exp2, Kind::floating},
    {"sin", Op::sin, Kind::floating},
    {"cos", Op::cos, Kind::floating},
    {"tan", Op::tan, Kind::floating},
    {"log", Op::log, Kind::floating},
    {"log2", Op::log2, Kind::floating},
    {"sqrt", Op::sqrt, Kind::floating},
    {"ceil", Op::ceil, Kind::rounding},
    {"floor", Op::floor, Kind::rounding},
    {"round", Op::round, Kind::rounding},
    {"trunc", Op::trunc, Kind::rounding},
    {"abs", Op::abs, Kind::arithmetic},
    {"sign", Op::sign, Kind::arithmetic},
    {"isnan", Op::isnan, Kind::predicate},
    {"isinf", Op::isinf, Kind::predicate},
});
constexpr auto kOthers = std::to_array<std::string_view>({"ifel",
                                                          "elif",
                                                          "else",
                                                          "rsum",
                                                          "reduce",
                                                          "sampler",
                                                          "fract",
                                                          "saturate",
                                                          "atan2",
                                                          "dot",
                                                          "cross",
                                                          "length",
                                                          "normalize",
                                                          "distance",
                                                          "all",
                                                          "any",
                                                          "mix",
                                                          "step",
                                                          "smoothstep",
                                                          "vec2",
                                                          "vec3",
                                                          "vec4",
                                                          "clamp",
                                                          "min",
                                                          "max",
                                                          "xor",
                                                          "rand",
                                                          "to_ncoord",
                                                          "to_ncolor",
                                                          "to_u8color",
                                                          "to_u16color",
                                                          "gamma2linear",
                                                          "linear2gamma",
                                                          "gamma2linearA",
                                                          "linear2gammaA",
                                                          "to_lbgra",
                                                          "lbgra_to_u8color",
                                                          "to_xyza",
                                                          "xyza_to_u8color",
                                                          "lbgr_to_xyz",
                                                          "xyz_to_lbgr"});

const FunctionRow* find_function(std::string_view name) {
  for (const FunctionRow& row : kFunctions) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace

bool is_builtin_function(std::string_view name) {
  return find_function(name) != nullptr || parse_scalar(name) ||
         std::find(kOthers.begin(), kOthers.end(), name) != kOthers.end();
}

std::vector<std::string_view> builtin_functions() {
  std::vector<std::string_view> names(kOthers.begin(), kOthers.end());
  for (const FunctionRow& row : kFunctions) names.push_back(row.name);
  return names;
}

std::optional<Value> Elaborator::builtin(const Syntax& node) {
  if (node.text == "rand") return random(node);
  if (node.text == "to_ncoord") return to_ncoord(node);
  if (node.text == "min") return extremum(node, Op::min);
  if (node.text == "max") return extremum(node, Op::max);
  if (node.text == "vec2") return replicated(node, 2);
  if (node.text == "vec3") return replicated(node, 3);
  if (node.text == "vec4") return replicated(node, 4);
  if (auto value = one_argument_function(node)) return value;
  if (auto value = vector_function(node)) return value;
  if (auto value = mixing_function(node)) return value;
  return color_function(node);
}

Part Elaborator::fraction(Part x) {
  Part whole = arithmetic_.operation(Op::floor, x, DType::f32);
  return arithmetic_.promoted_operation(Op::sub, arithmetic_.widen(x, DType::f32), whole);
}

std::optional<Value> Elaborator::one_argument_function(const Syntax& node) {
  if (node.text == "fract") {
    return arithmetic_.map(arguments(node, 1)[0], [&](Part p) { return fraction(p); });
  }
  if (node.text == "saturate") {
    return arithmetic_.map(arguments(node, 1)[0], [&](Part p) {
      Part real = arithmetic_.widen(p, DType::f32);
      return arithmetic_.clamp(real, arithmetic_.real(0), arithmetic_.real(1));
    });
  }
  const FunctionRow* row = find_function(node.text);
  if (row == nullptr) return std::nullopt;
  return arithmetic_.map(arguments(node, 1)[0], [&](Part p) {
    DType own = compute_type(p.type);
    switch (row->kind) {
      case Kind::floating:
        return arithmetic_.operation(row->op, p, DType::f32);
      case Kind::rounding:
        return own == DType::f32 ? arithmetic_.operation(row->op, p, own)
                                 : arithmetic_.widen(p, own);
      case Kind::arithmetic:
        return arithmetic_.operation(row->op, p, own);
      case Kind::predicate:
        break;
    }
    if (own != DType::f32) return arithmetic_.integer(0);
    Ref known = frames_.operation(row->op, {p.ref}, DType::bool_);
    return Part{frames_.truth(known), DType::i32};
  });
}

// The numbers of a tuple (or of one number, where count is 0).
Value Elaborator::numbers_of(const Syntax& call, const Value& v, size_t count) const {
  bool fits = count == 0 ? v.type.tuple : v.type.tuple && v.parts.size() == count;
  if (fits) return v;
  fail(Stage::parse, "type", call.span,
       "expected a tuple" + (count == 0 ? "" : " of " + std::to_string(count) + " components") +
           " as an argument of '" + std::string(call.text) + "', found " + to_string(v.type));
}

Part Elaborator::dot(const Value& a, const Value& b) {
  std::optional<Part> sum;
  for (size_t i = 0; i < a.parts.size(); ++i) {
    Part product = arithmetic_.promoted_operation(Op::mul, a.part(i), b.part(i));
    sum = sum ? arithmetic_.promoted_operation(Op::add, *sum, product) : product;
  }
  return *sum;
}

Value Elaborator::to_floats(const Value& v) {
  return arithmetic_.map(v, [&](Part p) { return arithmetic_.widen(p, DType::f32); });
}

std::optional<Value> Elaborator::vector_function(const Syntax& node) {
  std::string_view name = node.text;
  auto times = [&](Part a, Part b) { return arithmetic_.promoted_operation(Op::mul, a, b); };
  auto minus = [&](Part a, Part b) { return arithmetic_.promoted_operation(Op::sub, a, b); };
  auto length = [&](const Value& v) {
    return arithmetic_.operation(Op::sqrt, dot(v, v), DType::f32);
  };
  if (name == "all" || name == "any") {
    Value v = numbers_of(node, arguments(node, 1)[0], 0);
    Op op = name == "all" ? Op::logical_and : Op::logical_or;
    Ref result = arithmetic_.condition(v.part(0));
    for (size_t i = 1; i < v.parts.size(); ++i) {
      result = frames_.operation(op, {result, arithmetic_.condition(v.part(i))}, DType::bool_);
    }
    return scalar_value({frames_.truth(result), DType::i32});
  }
  if (name == "length") {
    return scalar_value(length(to_floats(numbers_of(node, arguments(node, 1)[0], 0))));
  }
  if (name == "normalize") {
    Value v = to_floats(numbers_of(node, arguments(node, 1)[0], 0));
    Part size = length(v);
    return arithmetic_.map(
        v, [&](Part p) { return arithmetic_.promoted_operation(Op::div, p, size); });
  }
  if (name != "dot" && name != "cross" && name != "distance") return std::nullopt;
  std::vector<Value> args = arguments(node, 2);
  size_t count = name == "cross" ? 3 : args[0].parts.size();
  Value a = numbers_of(node, args[0], count), b = numbers_of(node, args[1], count);
  if (name == "dot") return scalar_value(dot(a, b));
  if (name == "distance") {
    Value difference = arithmetic_.map(to_floats(a), to_floats(b), minus, node.span);
    return scalar_value(length(difference));
  }
  std::vector<Part> parts;
  for (size_t i = 0; i < 3; ++i) {
    size_t j = (i + 1) % 3, k = (i + 2) % 3;
    parts.push_back(minus(times(a.part(j), b.part(k)), times(a.part(k), b.part(j))));
  }
  return tuple_value(parts);
}

std::optional<Value> Elaborator::mixing_function(const Syntax& node) {
  std::string_view name = node.text;
  auto op = [&](Op which) {
    return [this, which](Part a, Part b) { return arithmetic_.promoted_operation(which, a, b); };
  };
  auto map = [&](const Value& a, const Value& b, const Arithmetic::Binary& f) {
    return arithmetic_.map(a, b, f, node.span);
  };
  if (name == "clamp") {
    std::vector<Value> v = arguments(node, 3);
    return map(map(v[0], v[1], op(Op::max)), v[2], op(Op::min));
  }
  if (name == "xor") {
    std::vector<Value> v = arguments(node, 2);
    return map(v[0], v[1], [&](Part a, Part b) {
      if (promoted(a.type, b.type) == DType::f32) {
        fail(Stage::parse, "type", node.span,
             "expected integers as arguments of 'xor', found " + to_string(v[0].type) + " and " +
                 to_string(v[1].type));
      }
      return arithmetic_.promoted_operation(Op::bit_xor, a, b);
    });
  }
  if (name == "atan2") {
    std::vector<Value> v = arguments(node, 2);
    return map(to_floats(v[0]), to_floats(v[1]), op(Op::atan2));
  }
  if (name == "mix") {  // x + (y - x) * a
    std::vector<Value> v = arguments(node, 3);
    Value x = to_floats(v[0]), difference = map(to_floats(v[1]), x, op(Op::sub));
    return map(x, map(difference, to_floats(v[2]), op(Op::mul)), op(Op::add));
  }
  if (name == "step") {
    std::vector<Value> v = arguments(node, 2);
    return map(to_floats(v[0]), to_floats(v[1]), [&](Part edge, Part x) {
      Ref below = frames_.operation(Op::lt, {x.ref, edge.ref}, DType::bool_);
      return arithmetic_.select(below, arithmetic_.real(0), arithmetic_.real(1));
    });
  }
  if (name != "smoothstep") return std::nullopt;
  std::vector<Value> v = arguments(node, 3);
  Value low = to_floats(v[0]);
  Value t = map(map(to_floats(v[2]), low, op(Op::sub)), map(to_floats(v[1]), low, op(Op::sub)),
                op(Op::div));
  return arithmetic_.map(t, [&](Part p) {
    Part u = arithmetic_.clamp(p, arithmetic_.real(0), arithmetic_.real(1));
    Part slope = op(Op::sub)(arithmetic_.real(3), op(Op::mul)(arithmetic_.real(2), u));
    return op(Op::mul)(op(Op::mul)(u, u), slope);
  });
}

// max(a, b, c …), component by component.
Value Elaborator::extremum(const Syntax& node, Op op) {
  std::vector<Value> args = arguments(node);
  if (args.empty()) {
    fail(Stage::parse, "arity", node.span,
         "expected at least one argument of '" + std::string(node.text) + "'");
  }
  Value result =
      arithmetic_.map(args[0], [&](Part p) { return arithmetic_.widen(p, compute_type(p.type)); });
  for (size_t i = 1; i < args.size(); ++i) {
    result = arithmetic_.map(
        result, args[i], [&](Part a, Part b) { return arithmetic_.promoted_operation(op, a, b); },
        node.span);
  }
  return result;
}

// vec3(1.0): a number in every component.
Value Elaborator::replicated(const Syntax& node, size_t count) {
  Value value = arguments(node, 1)[0];
  if (value.type.tuple) {
    fail(Stage::parse, "type", node.span,
         "expected a number as the argument of '" + std::string(node.text) + "', found " +
             to_string(value.type),
         "a tuple is written as [a, b, c]");
  }
  return tuple_value(std::vector<Part>(count, value.part(0)));
}

// What tells places of the text apart: neither white space nor a comment changes it.
uint32_t Elaborator::words_before(uint32_t offset) {
  if (word_starts_.empty()) {
    for (const Token& token : tokenize(source_->text)) {
      if (token.kind != TokenKind::newline) word_starts_.push_back(token.span.begin);
    }
  }
  auto at = std::lower_bound(word_starts_.begin(), word_starts_.end(), offset);
  return static_cast<uint32_t>(at - word_starts_.begin());
}

// A hash of the pixel, the place in the text, the calls around it and the loops' counters: 24 bits
// of it are the fraction in [0, 1).
Value Elaborator::random(const Syntax& node) {
  arguments(node, 0);
  auto op = [&](Op which, Ref a, Ref b) { return frames_.operation(which, {a, b}, DType::u32); };
  auto constant = [&](uint32_t value) { return frames_.integer(value, DType::u32); };
  auto mixed = [&](Ref h) {
    h = op(Op::mul, op(Op::bit_xor, h, op(Op::shr, h, constant(16))), constant(0x7feb352du));
    h = op(Op::mul, op(Op::bit_xor, h, op(Op::shr, h, constant(15))), constant(0x846ca68bu));
    return op(Op::bit_xor, h, op(Op::shr, h, constant(16)));
  };
  uint32_t path = 0;
  for (uint32_t call : calls_) path = path * 31 + words_before(call) + 1;
  Ref hash = mixed(constant(words_before(node.span.begin) * 0x9e3779b9u + path));
  std::vector<Ref> keys = pixel_;
  keys.insert(keys.end(), counters_.begin(), counters_.end());
  for (Ref key : keys) {
    Ref step = op(Op::add, hash, constant(0x9e3779b9u));
    hash = mixed(op(Op::bit_xor, step, frames_.cast(key, DType::u32)));
  }
  Part bits{frames_.cast(op(Op::shr, hash, constant(8)), DType::i32), DType::i32};
  return scalar_value(arithmetic_.promoted_operation(Op::mul, bits, arithmetic_.real(0x1p-24)));
}

// The centre of a pixel of the tensor being defined, in [0, 1].
Value Elaborator::to_ncoord(const Syntax& node) {
  Value v = arguments(node, 1)[0];
  if (extents_.empty()) {
    fail(Stage::parse, "syntax", node.span, "to_ncoord stands inside a tensor's block only");
  }
  if (v.parts.size() != extents_.size()) {
    fail(Stage::parse, "type", node.span,
         "expected coordinates of " + std::to_string(extents_.size()) + " components, found " +
             to_string(v.type));
  }
  std::vector<Part> parts;
  for (size_t d = 0; d < v.parts.size(); ++d) {
    Part centre = arithmetic_.promoted_operation(Op::add, v.part(d), arithmetic_.real(0.5));
    Part size{frames_.size(extents_[d]), DType::i32};
    parts.push_back(arithmetic_.promoted_operation(Op::div, centre, size));
  }
  Value result = tuple_value(parts);
  result.type.tuple = v.type.tuple;
  return result;
}

}  // namespace tile::mfg
