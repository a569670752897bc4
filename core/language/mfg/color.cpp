// The built-in functions on colours (sRGB, IEC 61966-2-1, D65): u8 and u16 colours hold B, G, R, A;
// ncolor is the same in [0, 1]; lbgr is linear light; xyz is CIE XYZ. Alpha is linear already.
#include "core/language/mfg/elaborate.h"

namespace tile::mfg {
namespace {

// Rows X, Y, Z in columns B, G, R, and the inverse.
constexpr double kToXyz[3][3] = {{0.1804375, 0.3575761, 0.4124564},
                                 {0.0721750, 0.7151522, 0.2126729},
                                 {0.9503041, 0.1191920, 0.0193339}};
constexpr double kFromXyz[3][3] = {{0.0556434, -0.2040259, 1.0572252},
                                   {-0.9692660, 1.8760108, 0.0415560},
                                   {3.2404542, -1.5371385, -0.4985314}};

}  // namespace

Value Elaborator::gamma_to_linear(const Value& v) {
  return arithmetic_.map(to_floats(v), [&](Part c) {
    auto op = [&](Op which, Part a, double b) {
      return arithmetic_.promoted_operation(which, a, arithmetic_.real(b));
    };
    Part curve = op(Op::pow, op(Op::div, op(Op::add, c, 0.055), 1.055), 2.4);
    Ref low = frames_.operation(Op::le, {c.ref, frames_.real(0.04045)}, DType::bool_);
    return arithmetic_.select(low, op(Op::div, c, 12.92), curve);
  });
}

Value Elaborator::linear_to_gamma(const Value& v) {
  return arithmetic_.map(to_floats(v), [&](Part c) {
    auto op = [&](Op which, Part a, double b) {
      return arithmetic_.promoted_operation(which, a, arithmetic_.real(b));
    };
    Part curve = op(Op::sub, op(Op::mul, op(Op::pow, c, 1 / 2.4), 1.055), 0.055);
    Ref low = frames_.operation(Op::le, {c.ref, frames_.real(0.0031308)}, DType::bool_);
    return arithmetic_.select(low, op(Op::mul, c, 12.92), curve);
  });
}

Value Elaborator::times_matrix(const Value& v, const double (&rows)[3][3]) {
  std::vector<Part> parts;
  for (const double(&row)[3] : rows) {
    Value weights =
        tuple_value({arithmetic_.real(row[0]), arithmetic_.real(row[1]), arithmetic_.real(row[2])});
    parts.push_back(dot(to_floats(v), weights));
  }
  return tuple_value(parts);
}

Value Elaborator::to_ncolor(const Syntax& call, const Value& v) {
  bool u8 = v.type == tuple_type(std::vector<DType>(4, DType::u8));
  bool u16 = v.type == tuple_type(std::vector<DType>(4, DType::u16));
  if (!u8 && !u16) {
    fail(Stage::parse, "type", call.span,
         "expected a u8v4 or u16v4 as the argument of '" + std::string(call.text) + "', found " +
             to_string(v.type));
  }
  Part whole = arithmetic_.real(u8 ? 255 : 65535);
  return arithmetic_.map(v,
                         [&](Part p) { return arithmetic_.promoted_operation(Op::div, p, whole); });
}

// Clamped to [0, 1] and rounded, so that every u8 colour comes back from to_ncolor as it was.
Value Elaborator::to_integer_color(const Value& v, DType type) {
  return arithmetic_.map(to_floats(v), [&](Part p) {
    Part unit = arithmetic_.clamp(p, arithmetic_.real(0), arithmetic_.real(1));
    Part scaled = arithmetic_.promoted_operation(Op::mul, unit,
                                                 arithmetic_.real(type == DType::u8 ? 255 : 65535));
    return arithmetic_.convert(arithmetic_.operation(Op::round, scaled, DType::f32), type);
  });
}

Value Elaborator::without_alpha(const Value& color) const {
  return tuple_value({color.part(0), color.part(1), color.part(2)});
}

Value Elaborator::with_alpha(const Value& color, const Value& alpha_of) {
  return tuple_value({color.part(0), color.part(1), color.part(2), alpha_of.part(3)});
}

std::optional<Value> Elaborator::color_function(const Syntax& node) {
  std::string_view name = node.text;
  auto four = [&] { return to_floats(numbers_of(node, arguments(node, 1)[0], 4)); };
  auto three = [&] { return numbers_of(node, arguments(node, 1)[0], 3); };
  auto linear = [&](const Value& v) { return with_alpha(gamma_to_linear(without_alpha(v)), v); };
  auto gamma = [&](const Value& v) { return with_alpha(linear_to_gamma(without_alpha(v)), v); };
  if (name == "to_ncolor") return to_ncolor(node, arguments(node, 1)[0]);
  if (name == "to_u8color") return to_integer_color(four(), DType::u8);
  if (name == "to_u16color") return to_integer_color(four(), DType::u16);
  if (name == "gamma2linear") return gamma_to_linear(arguments(node, 1)[0]);
  if (name == "linear2gamma") return linear_to_gamma(arguments(node, 1)[0]);
  if (name == "gamma2linearA") return linear(four());
  if (name == "linear2gammaA") return gamma(four());
  if (name == "lbgr_to_xyz") return times_matrix(three(), kToXyz);
  if (name == "xyz_to_lbgr") return times_matrix(three(), kFromXyz);
  if (name == "to_lbgra") return linear(to_ncolor(node, arguments(node, 1)[0]));
  if (name == "lbgra_to_u8color") return to_integer_color(gamma(four()), DType::u8);
  if (name == "to_xyza") {
    Value light = linear(to_ncolor(node, arguments(node, 1)[0]));
    return with_alpha(times_matrix(without_alpha(light), kToXyz), light);
  }
  if (name == "xyza_to_u8color") {
    Value color = four();
    Value light = with_alpha(times_matrix(without_alpha(color), kFromXyz), color);
    return to_integer_color(gamma(light), DType::u8);
  }
  return std::nullopt;
}

}  // namespace tile::mfg
