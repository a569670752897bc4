// Types of MFG: numbers and flat tuples of numbers.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/dtype.h"

namespace tile::mfg {

struct Type {
  std::vector<DType> parts = {};
  bool tuple = false;

  size_t size() const { return parts.size(); }
  bool uniform() const;  // all parts are of one type
  friend bool operator==(const Type&, const Type&) = default;
};

Type scalar_type(DType type);
Type tuple_type(std::vector<DType> parts);
// "i32", "u8v4", "[i32, f32]"
std::string to_string(const Type& type);
// "i32", "f32v3"; nullopt for other names.
std::optional<Type> parse_type(std::string_view name);
// An element type of MFG by its name.
std::optional<DType> parse_scalar(std::string_view name);
// How a type that MFG has is written, of the name that another language gives it; else empty.
std::string foreign_type_hint(std::string_view name);

bool is_narrow(DType type);  // 8 and 16 bits
// The common type of two operands of an operator: i32 with u32 gives u32, an integer with f32 f32.
DType promoted(DType a, DType b);

}  // namespace tile::mfg
