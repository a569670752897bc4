#include "core/lower/context/argument_names.h"

#include "core/kernel/argument_layout.h"
#include "core/lower/context/frame.h"

namespace tile {

std::string nest_name(const Kernel& kernel) { return kernel.name.empty() ? "kernel" : kernel.name; }

std::string argument_name(const std::string& tensor, size_t place) {
  return lowering::plain_names({tensor})[0] + "_" + std::to_string(place);
}

void name_arguments(nest::Nest& nest, const Kernel& kernel) {
  nest.name = nest_name(kernel);
  size_t place = 0;
  for (TensorId id : arguments_of(kernel)) {
    nest.buffers[nest::BufferId(place)].name = argument_name(kernel.tensors[id].name, place);
    ++place;
  }
}

}  // namespace tile
