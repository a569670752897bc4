#include "core/language/type_names.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace tile {
namespace {

struct Foreign {
  std::string_view name;
  DType type;
};
constexpr auto kForeign =
    std::to_array<Foreign>({{"boolean", DType::bool_},      {"int8", DType::i8},
                            {"int16", DType::i16},          {"short", DType::i16},
                            {"int32", DType::i32},          {"int", DType::i32},
                            {"int64", DType::i64},          {"long", DType::i64},
                            {"uint8", DType::u8},           {"byte", DType::u8},
                            {"uint16", DType::u16},         {"uint32", DType::u32},
                            {"uint", DType::u32},           {"uint64", DType::u64},
                            {"float8_e4m3", DType::f8e4m3}, {"float8_e4m3fn", DType::f8e4m3},
                            {"float8_e5m2", DType::f8e5m2}, {"float16", DType::f16},
                            {"half", DType::f16},           {"bfloat16", DType::bf16},
                            {"float32", DType::f32},        {"float", DType::f32},
                            {"single", DType::f32},         {"float64", DType::f64},
                            {"double", DType::f64}});

}  // namespace

std::optional<DType> foreign_dtype(std::string_view name) {
  if (parse_dtype(name)) return std::nullopt;
  std::string lower(name);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (std::optional<DType> other_case = parse_dtype(lower)) return other_case;
  const auto* row = std::find_if(kForeign.begin(), kForeign.end(),
                                 [&](const Foreign& foreign) { return foreign.name == lower; });
  return row == kForeign.end() ? std::nullopt : std::optional(row->type);
}

std::string dtype_hint(std::string_view name) {
  std::optional<DType> type = foreign_dtype(name);
  if (!type) return "";
  return std::string(name) + " is written " + std::string(to_string(*type)) + " here";
}

}  // namespace tile
