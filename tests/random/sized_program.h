// Random Tile programs with one symbolic size, S, in any role: a parallel dimension, a reduction,
// both dimensions of scores, a stride, a bound of a condition, a number that values are divided by.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/interpret/interpret.h"
#include "tests/random/random_source.h"

namespace tile::test {

class SizedProgram {
 public:
  explicit SizedProgram(uint64_t seed);

  const std::string& text() const { return text_; }
  // f32 values between -1 and 1, the same cells whatever the size.
  std::vector<HostTensor> inputs(int64_t size) const;

 private:
  // A tensor by its dimensions, each "S" or a number of the program's own.
  struct Tensor {
    std::string name;
    std::vector<std::string> dims;
  };

  std::string fresh(const std::string& name) { return name + std::to_string(++made_); }
  const Tensor& input(const std::vector<std::string>& dims);
  void statement(const std::string& text) { body_ += " " + text + ";"; }
  const Tensor& add(const std::string& name, std::vector<std::string> dims);
  // The last tensor with these dimensions, an input if there is none.
  Tensor last(const std::vector<std::string>& dims);

  void step();
  void product();
  void scores();
  void weigh();
  void mean();
  void centred();
  void softmax();
  void taps();
  void running();
  void turned();
  void pointwise();
  void batches();

  RandomSource random_;
  std::vector<Tensor> tensors_, inputs_;
  std::vector<int64_t> widths_;  // of the sizes A, B …, each 1 to 9
  int made_ = 0;
  std::string body_, text_;
};

}  // namespace tile::test
