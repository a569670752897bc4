// Which tensor of a call something is about, for errors.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/bound.h"
#include "core/ir/program.h"

namespace tile {

struct Argument {
  const char* kind;  // "input" or "output"
  size_t number;
  std::string_view name;  // empty: the program has none of this number
};
Argument input_of(const Program& program, size_t i);
Argument output_of(const Program& program, size_t i);
Argument input_of(const BoundProgram& program, size_t i);
Argument output_of(const BoundProgram& program, size_t i);

std::string text_of(const Argument& argument);        // "input A (0)"
std::string text_of(DType type, const Shape& shape);  // "f32[2, 3]"

// The names of a program's inputs or outputs.
template <class AnyProgram>
std::vector<std::string> names_of(const AnyProgram& program, const std::vector<TensorId>& ids) {
  std::vector<std::string> names;
  for (TensorId id : ids) names.push_back(program.tensors[id].name);
  return names;
}
// Another number of inputs or outputs than the program's `names` is given. `missing`: the first
// that should have been, where they are too few. Throws Failure.
[[noreturn]] void refuse_count(const char* kind, const std::vector<std::string>& names,
                               size_t given, size_t missing);

}  // namespace tile
