#include "runtime/engine/arguments/argument.h"

#include "core/ir/text.h"
#include "core/support/diagnostic.h"

namespace tile {

Argument input_of(const Program& program, size_t i) {
  return {"input", i, program.tensors[program.inputs[i]].name};
}
Argument output_of(const Program& program, size_t i) {
  return {"output", i, program.tensors[program.outputs[i]].name};
}
Argument input_of(const BoundProgram& program, size_t i) {
  return {"input", i, program.tensors[program.inputs[i]].name};
}
Argument output_of(const BoundProgram& program, size_t i) {
  return {"output", i, program.tensors[program.outputs[i]].name};
}

std::string text_of(const Argument& argument) {
  std::string kind = argument.kind, number = std::to_string(argument.number);
  if (argument.name.empty()) return kind + " " + number;
  return kind + " " + std::string(argument.name) + " (" + number + ")";
}

std::string text_of(DType type, const Shape& shape) {
  return std::string(to_string(type)) + print_integers(shape);
}

void refuse_count(const char* kind, const std::vector<std::string>& names, size_t given,
                  size_t missing) {
  std::string takes = "the program has " + std::to_string(names.size());
  for (size_t i = 0; i < names.size(); ++i) takes += (i == 0 ? ": " : ", ") + names[i];
  std::string count = std::to_string(given) + (given == 1 ? " is given, " : " are given, ");
  if (given < names.size()) {
    fail(Stage::run, "argument", {},
         text_of(Argument{kind, missing, names[missing]}) + " is missing: " + count + takes);
  }
  fail(Stage::run, "argument", {}, "too many " + std::string(kind) + "s: " + count + takes);
}

}  // namespace tile
