#include "tests/support/narrow_kernels.h"

#include <array>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace tile::testing {
namespace {

DType sum_type(DType type) { return is_float(type) ? DType::f32 : DType::i32; }

NodeId widened_product(Body& body, const std::vector<NodeId>& loads) {
  DType type = sum_type(body[loads[0]].type);
  NodeId a = body.cast(loads[0], type), b = body.cast(loads[1], type);
  return body.operation(Op::mul, {a, b}, type);
}

// Of an image [n, y, x, channels] by a 3 x 3 filter to `output`; `at`: the row and column read.
Kernel convolution(const Shape& image, const Shape& output, const std::array<std::string, 2>& at,
                   std::vector<std::tuple<std::string, int64_t, int64_t>> constraints, DType left,
                   DType right) {
  KernelBuilder b;
  DType type = sum_type(left);
  int64_t channels = image[3];
  TensorId I = b.tensor("I", left, image), K = b.tensor("K", right, {3, 3, channels, output[3]});
  TensorId O = b.tensor("O", type, output);
  b.stage(O, Aggregation::sum, type,
          {{{"b", "y", "x", "o", "r", "s", "c"},
            {output[0], output[1], output[2], output[3], 3, 3, channels},
            4,
            {"b", "y", "x", "o"},
            {{I, {"b", at[0], at[1], "c"}}, {K, {"r", "s", "c", "o"}}},
            std::move(constraints),
            widened_product}});
  return b.finish();
}

}  // namespace

Kernel narrow_product(int64_t m, int64_t n, int64_t k, DType left, DType right) {
  KernelBuilder b;
  DType type = sum_type(left);
  TensorId A = b.tensor("A", left, {m, k}), B = b.tensor("B", right, {k, n});
  TensorId C = b.tensor("C", type, {m, n});
  b.stage(C, Aggregation::sum, type,
          {{{"m", "n", "k"},
            {m, n, k},
            2,
            {"m", "n"},
            {{A, {"m", "k"}}, {B, {"k", "n"}}},
            {},
            widened_product}});
  return b.finish();
}

Kernel padded_convolution(int64_t channels, DType left, DType right) {
  return convolution({1, 7, 7, channels}, {1, 4, 4, 5}, {"2*y + r - 1", "2*x + s - 1"},
                     {{"2*y + r - 1", 0, 7}, {"2*x + s - 1", 0, 7}}, left, right);
}

Kernel inner_convolution(int64_t channels, DType left, DType right) {
  return convolution({2, 6, 7, channels}, {2, 4, 5, 5}, {"y + r", "x + s"}, {}, left, right);
}

void fill(HostTensor& t, const std::vector<double>& values, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (int64_t i = 0; i < t.count(); ++i) {
    double value = values[random() % values.size()];
    t.set(i, is_float(t.type) ? real_scalar(value, t.type)
                              : integer_scalar(static_cast<int64_t>(value), t.type));
  }
}

}  // namespace tile::testing
