// Programs and engines that tests of hosts share.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tile/tile.hpp"

namespace tile::test {

namespace jit = tile::jit;

inline tile_engine_options options_of(const char* backend = "cpu") {
  tile_engine_options options{};
  options.struct_size = sizeof options;
  options.backend = backend;
  options.cache_mode = "off";
  return options;
}

// The code of a failed call; empty without one. The error goes.
inline std::string code_of(tile_error* error) {
  std::string code = error == nullptr ? "" : tile_error_code(error);
  tile_error_free(error);
  return code;
}

// Views and the arrays of them that the calls of C take.
struct Given {
  explicit Given(std::vector<jit::View> all) : views(std::move(all)), tensors(views) {}
  Given(const Given&) = delete;
  Given& operator=(const Given&) = delete;
  DLTensor* const* data() const { return tensors.data(); }
  size_t size() const { return tensors.size(); }
  std::vector<jit::View> views;
  jit::detail::Tensors tensors;
};

// Small integers, which sums of any order add up exactly.
inline std::vector<float> integers(size_t count, size_t seed) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>((i * 7 + i / 13 + seed * 5) % 9) - 4;
  }
  return values;
}

inline const char* kProduct =
    "function (A[M, L], B[L, N]) -> (C) {\n  C[i, j: M, N] = +(A[i, k] * B[k, j]);\n}\n";
// Temporaries of the size of the result, and two products.
inline const char* kChain =
    "function (A[M, M]) -> (O) {\n  S[i, j: M, M] = +(A[i, k] * A[k, j]);\n"
    "  T[i: M] = +(S[i, j]);\n  O[i, j: M, M] = +(S[i, k] * S[k, j] * T[k]);\n}\n";
inline const char* kSoftmax =
    "function (X[M, N]) -> (P) {\n  Top[m, 0: M, 1] = >(X[m, n]);\n  E = exp(X - Top);\n"
    "  Sum[m, 0: M, 1] = +(E[m, n]);\n  P = E / Sum;\n}\n";

}  // namespace tile::test
