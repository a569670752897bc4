// Dense tensors aligned as a host's own usually are, and their test data.
#pragma once

#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "runtime/engine/executable.h"

namespace tile::bench {

class Tensor {
 public:
  explicit Tensor(InputType type);  // zeros, aligned to 64 bytes

  DType type() const { return type_.type; }
  const Shape& shape() const { return type_.shape; }
  size_t bytes() const { return bytes_; }
  // The elements belong to the tensor but are not part of its value: libraries' own types have no
  // const.
  void* data() const { return memory_.get(); }
  template <class T>
  T* elements() const {
    return static_cast<T*>(data());
  }
  TensorView view() const { return {data(), type_.type, type_.shape, {}}; }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  InputType type_;
  size_t bytes_ = 0;
  std::unique_ptr<void, Free> memory_;
};

// Floats are 2^bits values evenly spaced in [low, high): multiples of 1/8 in [-1, 1), so that sums
// of their products are exact in any order; integers are uniform in [0, 128). The same every time
// for the same seed.
void fill(Tensor& tensor, uint32_t seed, double low = -1, double high = 1, int bits = 4);

// The largest difference of two float tensors over the largest magnitude in `expected`; infinity
// where one is NaN and the other is not. Integers: the largest difference itself,
// but for `share` of the elements.
double difference(const Tensor& got, const Tensor& expected, double share = 0);
// How far two values of a weight after a step of training are from each other, over how far the
// second one is from the weight before: roots of sums of squares, as a sum that is zero but for its
// rounding may be let through by relu in one library and not in another, which a few elements show.
double difference_of_change(const Tensor& got, const Tensor& expected, const Tensor& before);

std::vector<TensorView> views(std::span<const Tensor> tensors);

}  // namespace tile::bench
