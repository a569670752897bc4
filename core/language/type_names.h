// Names that other languages and libraries give element types, and how they are written here.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/ir/dtype.h"

namespace tile {

// The type that is meant by a name such as "float32", "int" or "F32"; nullopt for any other name,
// the types' own included.
std::optional<DType> foreign_dtype(std::string_view name);
// "float32 is written f32 here" for such a name; empty for any other.
std::string dtype_hint(std::string_view name);

}  // namespace tile
