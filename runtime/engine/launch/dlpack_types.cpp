#include "runtime/engine/launch/dlpack_types.h"

#include <iterator>

#include "runtime/engine/engine.h"

namespace tile {
namespace {

// By DType.
constexpr DLDataType kTypes[] = {
    {0, 0, 0},         {kDLBool, 8, 1},    {kDLInt, 8, 1},           {kDLInt, 16, 1},
    {kDLInt, 32, 1},   {kDLInt, 64, 1},    {kDLUInt, 8, 1},          {kDLUInt, 16, 1},
    {kDLUInt, 32, 1},  {kDLUInt, 64, 1},   {kDLFloat8_e4m3fn, 8, 1}, {kDLFloat8_e5m2, 8, 1},
    {kDLFloat, 16, 1}, {kDLBfloat, 16, 1}, {kDLFloat, 32, 1},        {kDLFloat, 64, 1}};
static_assert(std::size(kTypes) == static_cast<size_t>(DType::f64) + 1);

}  // namespace

DLDataType dl_type(DType type) { return kTypes[static_cast<size_t>(type)]; }

std::optional<DType> dtype_of(const DLDataType& type) {
  for (size_t i = static_cast<size_t>(DType::none) + 1; i < std::size(kTypes); ++i) {
    const DLDataType& known = kTypes[i];
    if (known.code == type.code && known.bits == type.bits && known.lanes == type.lanes) {
      return static_cast<DType>(i);
    }
  }
  return std::nullopt;
}

DLDevice device_of(const Engine& engine) {
  if (engine.session() == nullptr) return {kDLCPU, 0};
  return {kDLCUDA, engine.ordinal()};
}

}  // namespace tile
