// Layouts of tensors in memory other than dense ones.
#pragma once

#include <string>
#include <vector>

#include "core/ir/scalar.h"
#include "runtime/engine/executable.h"
#include "tests/random/random_source.h"

namespace tile::test {

// Whether different elements of a tensor may be the same memory, as those of a broadcast one or of
// a window's are.
enum class Sharing : uint8_t { no, yes };

// Strides of permuted dimensions, with gaps between rows or elements, negative, and where elements
// may share memory zero or overlapping. Empty: dense, as the C interface makes them.
std::vector<int64_t> random_strides(RandomSource& random, const Shape& shape, Sharing sharing);
// Column-major strides with gaps, every second one negative.
std::vector<int64_t> transposed_strides(const Shape& shape);

// The inputs of a program with a layout each, and the values that those layouts hold: where
// elements share memory all are what was stored there last, in row-major order.
struct Laid {
  std::vector<InputLayout> layouts;
  std::vector<HostTensor> inputs;
};
Laid dense_layouts(const std::vector<InputType>& types, const std::vector<HostTensor>& inputs);
Laid random_layouts(uint64_t seed, const std::vector<InputType>& types,
                    const std::vector<HostTensor>& inputs, Sharing sharing = Sharing::yes);

// "f32[2, 3] strides [1, 2]"
std::string described(const InputLayout& layout);
std::string described(const Laid& laid);  // a line for each

}  // namespace tile::test
