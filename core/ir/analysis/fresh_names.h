// Names for tensors that passes add to a program.
#pragma once

#include <set>
#include <string>

#include "core/ir/bound.h"

namespace tile {

class FreshNames {
 public:
  explicit FreshNames(const BoundTensors& tensors);
  // `of`, with a number behind it where a tensor has that name. Never the same twice.
  std::string get(const std::string& of);

 private:
  std::set<std::string> taken_;
};

}  // namespace tile
