// Run-time parameters: inputs whose value may be left out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/ir/program.h"
#include "core/ir/scalar.h"

namespace tile {

// For each input of the program the value it has when none is given; nullopt: it must be given.
using InputDefaults = std::vector<std::optional<HostTensor>>;
InputDefaults input_defaults(const Program& program);

// A number that is given as an element of the type, floats rounded; nullopt where an integer type
// does not hold it.
std::optional<Scalar> given_element(double number, DType type);
// A value for a parameter from its components. Throws Failure (stage run, "argument") for a number
// of components other than the parameter's, and for one that its type does not hold or that is
// outside its declared range.
HostTensor parameter_value(const Tensor& parameter, const std::vector<double>& components);
// The same from a text such as "3" or "0.5,1".
HostTensor parameter_value(const Tensor& parameter, const std::string& text);

}  // namespace tile
