// A product of matrices large enough for several threads, with results that are known.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "tile/tile.h"

namespace tile::test {

enum Outcome { kRight, kForkError, kWrong, kOtherError };

// A product of matrices of ones, by an engine of its own or a given one.
class Product {
 public:
  explicit Product(int factor = 1) : factor_(factor), a_(kSize * kSize, 1.0F), o_(kSize * kSize) {}
  ~Product() {
    tile_program_free(program_);
    tile_engine_free(engine_);
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  Outcome make() {
    tile_engine_options options{};
    options.struct_size = sizeof options;
    options.backend = "cpu";
    options.threads = 4;
    options.cache_mode = "off";
    return outcome(tile_engine_create(&options, &engine_));
  }
  // Another program for each factor.
  Outcome parse(int factor) {
    factor_ = factor;
    tile_program_free(program_);
    program_ = nullptr;
    char text[128];
    int size = std::snprintf(
        text, sizeof text,
        "function (A[M, L]) -> (O) { O[i, j: M, M] = +(A[i, k] * A[j, k] * %d); }", factor);
    return outcome(
        tile_program_parse(engine_, "tile", "product", text, static_cast<size_t>(size), &program_));
  }
  Outcome run() {
    int64_t shape[] = {kSize, kSize};
    DLTensor a{a_.data(), {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0}, o = a;
    o.data = o_.data();
    const DLTensor* inputs[] = {&a};
    DLTensor* outputs[] = {&o};
    Outcome ran = outcome(tile_program_run(program_, inputs, 1, outputs, 1, nullptr));
    if (ran != kRight) return ran;
    for (float value : o_) {
      if (value != static_cast<float>(kSize * factor_)) return kWrong;
    }
    return kRight;
  }

 private:
  static constexpr int64_t kSize = 300;
  static Outcome outcome(tile_error* error) {
    if (error == nullptr) return kRight;
    bool forked = std::strcmp(tile_error_code(error), "fork") == 0;
    if (!forked) std::fprintf(stderr, "%s", tile_error_rendered(error));
    tile_error_free(error);
    return forked ? kForkError : kOtherError;
  }
  int factor_;
  std::vector<float> a_, o_;
  tile_engine* engine_ = nullptr;
  tile_program* program_ = nullptr;
};

}  // namespace tile::test
