#include "core/language/mfg/types.h"

#include <algorithm>

#include "core/language/type_names.h"

namespace tile::mfg {

bool Type::uniform() const {
  return std::all_of(parts.begin(), parts.end(), [&](DType part) { return part == parts[0]; });
}

Type scalar_type(DType type) { return {{type}, false}; }
Type tuple_type(std::vector<DType> parts) { return {std::move(parts), true}; }

std::string to_string(const Type& type) {
  if (!type.tuple) return std::string(to_string(type.parts[0]));
  if (type.uniform()) {
    return std::string(to_string(type.parts[0])) + "v" + std::to_string(type.size());
  }
  std::string out;
  for (size_t i = 0; i < type.size() && i < 16; ++i) {
    out += (i == 0 ? "" : ", ") + std::string(to_string(type.parts[i]));
  }
  return "[" + out + (type.size() > 16 ? ", …]" : "]");
}

std::optional<DType> parse_scalar(std::string_view name) {
  std::optional<DType> type = parse_dtype(name);
  if (!type) return std::nullopt;
  bool known = is_integer(*type) ? bit_width(*type) <= 32 : *type == DType::f32;
  return known ? type : std::nullopt;
}

std::string foreign_type_hint(std::string_view name) {
  std::optional<DType> type = foreign_dtype(name);
  return type && parse_scalar(to_string(*type)) ? dtype_hint(name) : "";
}

std::optional<Type> parse_type(std::string_view name) {
  if (std::optional<DType> scalar = parse_scalar(name)) return scalar_type(*scalar);
  size_t v = name.rfind('v');
  if (v == name.npos || v + 2 != name.size() || name[v + 1] < '2' || name[v + 1] > '9') {
    return std::nullopt;
  }
  std::optional<DType> part = parse_scalar(name.substr(0, v));
  if (!part) return std::nullopt;
  return tuple_type(std::vector<DType>(static_cast<size_t>(name[v + 1] - '0'), *part));
}

bool is_narrow(DType type) { return is_integer(type) && bit_width(type) < 32; }

DType promoted(DType a, DType b) {
  a = compute_type(a);
  b = compute_type(b);
  if (a == DType::f32 || b == DType::f32) return DType::f32;
  return a == DType::u32 || b == DType::u32 ? DType::u32 : DType::i32;
}

}  // namespace tile::mfg
