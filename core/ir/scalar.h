// The reference semantics of scalar values and operations, used by the interpreters and by constant
// folding. Slow and exact: every backend is tested against it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/ir/bound.h"
#include "core/ir/dtype.h"
#include "core/ir/operation.h"

namespace tile {

// A value of an element type. Floats of every width are held as the double of the same value;
// integers sign- or zero-extended to 64 bits (u64: its bits); bool as 0 or 1.
struct Scalar {
  DType type = DType::none;
  int64_t i = 0;
  double f = 0;
};

Scalar integer_scalar(int64_t value, DType type);  // wraps to the type (or rounds, for floats)
Scalar real_scalar(double value, DType type);      // rounds to the type; to integers as a cast does
// Rule 5.6: float to integer truncates and saturates, NaN gives 0; integers wrap; floats round to
// nearest even; to bool: not equal to zero.
Scalar convert(const Scalar& value, DType type);
// The operation on operands of compute types, as in typed bodies. f32 results are the correctly
// rounded f32 of the double-precision result of the f32 operands (arithmetic: IEEE). Never traps.
Scalar evaluate(Op op, DType type, std::span<const Scalar> operands);
// The 64 bits behind Op::uniform, whose value is (bits >> 40) * 2^-24. With
//   S(z): z = (z ^ z>>30) * 0xBF58476D1CE4E5B9; z = (z ^ z>>27) * 0x94D049BB133111EB; z ^ z>>31
// (the SplitMix64 finaliser) and g = 0x9E3779B97F4A7C15, all modulo 2^64:
//   a = S(seed + g), b = S(a + g), bits = S(S(counter * g + a) + b).
// a and b depend on the seed only.
uint64_t uniform_bits(int64_t seed, int64_t counter);
bool is_true(const Scalar& value);
bool same_value(const Scalar& a,
                const Scalar& b);  // bit by bit up to NaN payloads; -0 differs from 0

// Elements in memory.
Scalar load_element(const std::byte* at, DType type);
void store_element(std::byte* at, const Scalar& value);

// A dense row-major tensor in host memory that owns its elements.
struct HostTensor {
  DType type = DType::f32;
  Shape shape;
  std::vector<std::byte> bytes;

  HostTensor() = default;
  HostTensor(DType element_type, Shape tensor_shape);  // zeros; throws Overflow
  int64_t count() const { return element_count(shape); }
  Scalar at(int64_t flat) const { return load_element(&bytes[offset(flat)], type); }
  void set(int64_t flat, const Scalar& value) { store_element(&bytes[offset(flat)], value); }

 private:
  size_t offset(int64_t flat) const { return static_cast<size_t>(flat) * byte_size(type); }
};

}  // namespace tile
