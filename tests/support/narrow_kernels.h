// Sums of products of narrow elements: bf16 in f32, integers in i32.
#pragma once

#include "tests/support/schedule_kernels.h"

namespace tile::testing {

Kernel narrow_product(int64_t m, int64_t n, int64_t k, DType left, DType right);
// 3 x 3 taps at stride 2 over a padded picture, its channels innermost.
Kernel padded_convolution(int64_t channels, DType left, DType right);
// 3 x 3 taps inside a picture, its channels innermost.
Kernel inner_convolution(int64_t channels, DType left, DType right);

// Elements drawn from the values.
void fill(HostTensor& t, const std::vector<double>& values, uint64_t seed);

}  // namespace tile::testing
