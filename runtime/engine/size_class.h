// Classes of sizes of a program: what its inputs at hand have in common with those before.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/kernel/argument_layout.h"
#include "core/pipeline/class_program.h"
#include "runtime/engine/executable.h"

namespace tile {

// The class of sizes that a program's inputs are in: which of their extents have changed since it
// was first compiled, and the layouts at two other sizes of the class.
struct SizeClass {
  std::vector<InputLayout> typical, other;
  AllInstances sizes;
  std::string key;  // of the class
};
// nullopt where nothing has changed or more than extents, and for inputs with strides.
std::optional<SizeClass> size_class_of(const std::vector<InputLayout>& first,
                                       const std::vector<InputLayout>& now);

// What the class shares. Nothing where the program cannot be bound at its sizes. Throws Failure
// where the compilation is to end.
ClassProgram class_program(const Engine& engine, const Program& program, const SizeClass& sizes);

// The class that a kernel of the executable, its step number `number`, is in; or why there is none,
// in words, where something is known of the program's sizes. `strides`: strides_of() the
// executable.
ClassProgram::Found class_of(const Executable& executable, const Kernel& kernel,
                             const Strides& strides, size_t number);
// A step's number, and its class where that is known.
struct StepAt {
  size_t number = 0;
  const ClassProgram::Found* found = nullptr;
};
// The executable's program in steps, by its class's choices. They are this program's alone: the
// step of a loop, which is compiled for a launch, has choices of its own. Passes that did nothing
// at the class's own sizes are left out where the steps are those of the class without them.
struct SizedSteps {
  std::vector<Step> steps;
  std::vector<ClassProgram::Found> found;  // of each step, as class_of(); empty: not yet asked

  StepAt at(size_t number) const { return {number, found.empty() ? nullptr : &found[number]}; }
};
SizedSteps steps_of_sizes(Executable& executable, const PassOptions& passes);
// The schedule that serves all its sizes; nullopt: none does.
std::optional<Schedule> schedule_of(Engine& engine, const ClassStep& of);
// The model's schedule for a kernel of its sizes alone, which other sizes of the program may have,
// too.
Schedule own_schedule(const Executable& executable, const Kernel& kernel);

}  // namespace tile
