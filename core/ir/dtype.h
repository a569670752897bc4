// Element types and their promotion (core/language/tile/REFERENCE.md, section 5).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tile {

// The order within each family is by width. `none` marks a value whose type is not known before
// bind.
enum class DType : uint8_t {
  none,
  bool_,
  i8,
  i16,
  i32,
  i64,
  u8,
  u16,
  u32,
  u64,
  f8e4m3,
  f8e5m2,
  f16,
  bf16,
  f32,
  f64
};

constexpr bool is_float(DType t) { return t >= DType::f8e4m3; }
// For storage: arithmetic on them gives f32 (rule 5.8).
constexpr bool is_f8(DType t) { return t == DType::f8e4m3 || t == DType::f8e5m2; }
constexpr bool is_signed_integer(DType t) { return t >= DType::i8 && t <= DType::i64; }
constexpr bool is_unsigned_integer(DType t) { return t >= DType::u8 && t <= DType::u64; }
constexpr bool is_integer(DType t) { return t >= DType::i8 && t <= DType::u64; }

int bit_width(DType t);  // bool is 8 in memory
inline size_t byte_size(DType t) { return static_cast<size_t>(bit_width(t)) / 8; }
std::string_view to_string(DType t);  // "f32", "bool"
std::optional<DType> parse_dtype(std::string_view name);

// Rule 5.2; nullopt for u64 with a signed type (an error that asks for a cast).
std::optional<DType> promote(DType a, DType b);
// The type that arithmetic on `t` gives: i32 of bool (rule 5.4), f32 of f8 (rule 5.8), else `t`.
DType arithmetic_type(DType t);
// The type in which arithmetic on `t` is carried out inside a statement: bool and integers below 32
// bits in i32 (u8 and u16 too: every value fits), floats below 32 bits in f32
// (rules 4.8a, 5.4, 5.7).
DType compute_type(DType t);

}  // namespace tile
