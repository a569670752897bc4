// Gradients of convolutions with respect to their filters, in types that tensor cores multiply.
#pragma once

#include <string>
#include <tuple>
#include <vector>

#include "tests/support/schedule_kernels.h"

namespace tile::testing {

struct Filter {
  int64_t batch = 2, height = 8, width = 8;  // of the result
  int64_t in = 64, out = 64, taps = 3, stride = 1, dilation = 1, pad = 1;
  DType type = DType::bf16;
};

// The gradient of a convolution, channels last, with respect to its filter.
inline Kernel filter_gradient(const Filter& f) {
  auto size = [&](int64_t cells) {
    return (cells - 1) * f.stride + (f.taps - 1) * f.dilation + 1 - 2 * f.pad;
  };
  std::string s = std::to_string(f.stride), d = std::to_string(f.dilation);
  auto place = [&](const std::string& cell, const std::string& tap) {
    return s + "*" + cell + " + " + d + "*" + tap + " - " + std::to_string(f.pad);
  };
  std::string row = place("y", "j"), column = place("x", "i");
  std::vector<std::tuple<std::string, int64_t, int64_t>> inside;
  if (f.pad > 0) inside = {{row, 0, size(f.height)}, {column, 0, size(f.width)}};
  KernelBuilder k;
  TensorId change = k.tensor("D", f.type, {f.batch, f.height, f.width, f.out});
  TensorId read = k.tensor("R", f.type, {f.batch, size(f.height), size(f.width), f.in});
  TensorId result = k.tensor("DK", DType::f32, {f.taps, f.taps, f.in, f.out});
  k.stage(result, Aggregation::sum, DType::f32,
          {{{"j", "i", "c", "o", "n", "y", "x"},
            {f.taps, f.taps, f.in, f.out, f.batch, f.height, f.width},
            4,
            {"j", "i", "c", "o"},
            {{change, {"n", "y", "x", "o"}}, {read, {"n", row, column, "c"}}},
            inside,
            [](Body& body, const std::vector<NodeId>& l) {
              return body.operation(
                  Op::mul, {body.cast(l[0], DType::f32), body.cast(l[1], DType::f32)}, DType::f32);
            }}});
  return k.finish();
}

}  // namespace tile::testing
