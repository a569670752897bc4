// What a nest calls itself and its arguments. Codes of equal nests are shared whatever they are
// called (see nest::print); the names are for people.
#pragma once

#include <string>

#include "core/kernel/kernel.h"
#include "core/nest/nest.h"

namespace tile {

std::string nest_name(const Kernel& kernel);
// Of the argument at that place, which is the tensor of that name.
std::string argument_name(const std::string& tensor, size_t place);
// Gives a nest that was made of an equal kernel the names that lower() gives this one's.
void name_arguments(nest::Nest& nest, const Kernel& kernel);

}  // namespace tile
