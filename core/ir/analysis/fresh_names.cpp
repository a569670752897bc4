#include "core/ir/analysis/fresh_names.h"

namespace tile {

FreshNames::FreshNames(const BoundTensors& tensors) {
  for (const BoundTensor& t : tensors) taken_.insert(t.name);
}

std::string FreshNames::get(const std::string& of) {
  std::string name = of;
  for (int number = 1; !taken_.insert(name).second; ++number) {
    name = of + "_" + std::to_string(number);
  }
  return name;
}

}  // namespace tile
