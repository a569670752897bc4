// Types of matrix products on units of their own: tensor cores, tiles of processors.
#pragma once

#include "core/ir/dtype.h"

namespace tile {

constexpr bool is_byte(DType type) { return type == DType::i8 || type == DType::u8; }

// Whether a GPU's tensor cores sum products of such factors in this type.
constexpr bool tensor_cores_multiply(DType a, DType b, DType sum) {
  if (sum == DType::i32 || sum == DType::u32) return is_byte(a) && is_byte(b);
  if (sum == DType::f64) return a == DType::f64 && b == DType::f64;
  if (sum != DType::f32) return false;
  if (is_f8(a) && is_f8(b)) return true;
  return a == b && (a == DType::f16 || a == DType::bf16 || a == DType::f32);
}

}  // namespace tile
