#include "core/ir/dtype.h"

#include <algorithm>
#include <array>

namespace tile {
namespace {

struct Row {
  DType type;
  std::string_view name;
  int bits;
};
constexpr std::array<Row, 16> kRows{{{DType::none, "none", 0},
                                     {DType::bool_, "bool", 8},
                                     {DType::i8, "i8", 8},
                                     {DType::i16, "i16", 16},
                                     {DType::i32, "i32", 32},
                                     {DType::i64, "i64", 64},
                                     {DType::u8, "u8", 8},
                                     {DType::u16, "u16", 16},
                                     {DType::u32, "u32", 32},
                                     {DType::u64, "u64", 64},
                                     {DType::f8e4m3, "f8e4m3", 8},
                                     {DType::f8e5m2, "f8e5m2", 8},
                                     {DType::f16, "f16", 16},
                                     {DType::bf16, "bf16", 16},
                                     {DType::f32, "f32", 32},
                                     {DType::f64, "f64", 64}}};

std::optional<DType> signed_of_width(int bits) {
  for (const Row& row : kRows) {
    if (is_signed_integer(row.type) && row.bits == bits) return row.type;
  }
  return std::nullopt;
}

std::optional<DType> promote_integers(DType a, DType b) {
  if (is_signed_integer(a) == is_signed_integer(b)) return bit_width(a) >= bit_width(b) ? a : b;
  DType s = is_signed_integer(a) ? a : b, u = is_signed_integer(a) ? b : a;
  return signed_of_width(std::max(bit_width(s), 2 * bit_width(u)));
}

}  // namespace

int bit_width(DType t) { return kRows[static_cast<size_t>(t)].bits; }
std::string_view to_string(DType t) { return kRows[static_cast<size_t>(t)].name; }

std::optional<DType> parse_dtype(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name && row.type != DType::none) return row.type;
  }
  return std::nullopt;
}

std::optional<DType> promote(DType a, DType b) {
  if (a == b) return a;
  if (is_float(a) && is_float(b)) {
    if (bit_width(a) == bit_width(b)) return DType::f32;
    return bit_width(a) > bit_width(b) ? a : b;
  }
  if (is_float(a) || is_float(b)) return is_float(a) ? a : b;
  if (a == DType::bool_ || b == DType::bool_) return a == DType::bool_ ? b : a;
  return promote_integers(a, b);
}

DType arithmetic_type(DType t) {
  if (t == DType::bool_) return DType::i32;
  return is_f8(t) ? DType::f32 : t;
}

DType compute_type(DType t) {
  if (is_float(t) && bit_width(t) < 32) return DType::f32;
  if (t == DType::bool_ || (is_integer(t) && bit_width(t) < 32)) return DType::i32;
  return t;
}

}  // namespace tile
