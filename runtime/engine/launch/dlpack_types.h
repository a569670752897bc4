// Element types and places of tensors as DLPack names them.
#pragma once

#include <optional>

#include "core/ir/dtype.h"
#include "tile/dlpack.h"

namespace tile {

class Engine;

DLDataType dl_type(DType type);
std::optional<DType> dtype_of(const DLDataType& type);  // nullopt: none of ours
// Where an engine's runs use tensors in place.
DLDevice device_of(const Engine& engine);

}  // namespace tile
