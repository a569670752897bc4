// What subcommands are told about a program's inputs and outputs: NAME=VALUE by name, in the
// program's order. All throw Failure (stage run, "argument") for what the program does not have.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/cli/session.h"

namespace tile::cli {

// What stands between commas, without the blanks around it.
std::vector<std::string> items_of(const std::string& list);
// OUTPUT=INPUT of each --feed, of which several may stand in one between commas.
std::vector<std::string> feed_pairs(const std::vector<std::string>& given);

// Refuses "A=2x3,B=3x3", in which B=... is a part of A's value; `flag` is the option.
[[noreturn]] void fail_for_several(const std::string& name, const std::string& value,
                                   const std::string& other, const std::string& flag);

// "; did you mean run?" of the name that was surely meant, in another case or nearly the same, with
// the prefix before it; empty where there is none.
std::string suggestion(const std::string& name, const std::vector<std::string>& known,
                       const std::string& prefix = "");
// `known`: the names that the program has.
[[noreturn]] void unknown_name(const std::string& what, const std::string& name,
                               const std::vector<std::string>& known);
std::vector<std::string> input_names(const LoadedProgram& program);
std::vector<std::string> output_names(const LoadedProgram& program);
// Separated by commas; "none" where there are none.
std::string listed(const std::vector<std::string>& names);

// One value per input, in the program's order, from NAME=VALUE pairs; empty for a parameter that is
// left out. `gradient`: what was asked for as with_gradient takes it, if anything was: the last
// input is its seed, and where that is missing the error says what it is.
std::vector<std::string> values_by_input(const LoadedProgram& program,
                                         const std::vector<std::string>& pairs, const char* flag,
                                         const std::string& gradient = "");
// The values of parameters: the defaults, or what is given.
std::vector<std::optional<HostTensor>> parameters_of(const LoadedProgram& program,
                                                     const std::vector<std::string>& pairs);
// The numbers of inputs that are named.
std::vector<size_t> numbers_of(const LoadedProgram& program, const std::vector<std::string>& names);

// The program with the gradients that "OUTPUT:INPUT,…" asks for.
std::shared_ptr<LoadedProgram> with_gradient(const std::shared_ptr<LoadedProgram>& program,
                                             const std::string& request);

// Throws Failure where the seed, the last of the inputs of a program with the gradients of
// `program`, has not the shape that the output has with these inputs.
void check_seed(const LoadedProgram& program, const std::string& request,
                const std::vector<InputType>& inputs);

// Random inputs for shapes as --shape gives them.
std::vector<HostTensor> random_inputs(const LoadedProgram& program,
                                      const std::vector<std::string>& shapes);
// Of each launch the least nanoseconds of a few runs, after one that warms caches and pages. The
// launches of these runs wait for each other.
std::vector<double> launch_times(const LoadedProgram& program, const Executable& executable,
                                 const std::vector<HostTensor>& inputs);

}  // namespace tile::cli
