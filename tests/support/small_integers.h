// Inputs on which every order of a sum is exact.
#pragma once

#include <vector>

#include "core/ir/bound.h"
#include "core/ir/scalar.h"

namespace tile::test {

// Integers from -2 to 2, of which neighbours differ.
inline std::vector<HostTensor> small_integers(const std::vector<InputType>& types) {
  std::vector<HostTensor> inputs;
  for (const InputType& type : types) {
    HostTensor t(type.type, type.shape);
    for (int64_t i = 0; i < t.count(); ++i) {
      t.set(i, real_scalar(static_cast<double>(i * 7 % 5 - 2), type.type));
    }
    inputs.push_back(std::move(t));
  }
  return inputs;
}

}  // namespace tile::test
