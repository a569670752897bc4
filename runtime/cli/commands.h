// The subcommands of `tile`. Each returns the process's exit status and throws Failure or Located.
#pragma once

#include <string>
#include <vector>

#include "runtime/cli/run.h"
#include "runtime/cli/session.h"

namespace tile::cli {

// Of the inputs: their shapes, and the names of those that stay the same in every run.
struct Inputs {
  std::vector<std::string> shapes, constants;
};
// The executable for the shapes given; the elements of constants are zeros. Throws Located.
std::shared_ptr<const Executable> compiled(LoadedProgram& program, const Inputs& inputs);
int command_check(const std::string& file, const Inputs& inputs, const Options& options);

int command_run(const RunArguments& arguments, const Options& options);

// With a mesh: the program of each rank, whatever the stage.
int command_emit(const std::string& file, const Inputs& inputs, const std::string& stage,
                 const MeshArguments& mesh, const Options& options);
// What is told beside the line of each kernel.
struct ExplainArguments {
  bool all = false;                  // everything of all of them
  std::vector<std::string> kernels;  // everything of these alone: numbers, or names of tensors
  bool json = false;
  bool measure = false;  // run on random inputs and tell each launch's time
  MeshArguments mesh;    // of a mesh: what each rank has, computes and exchanges instead
};
int command_explain(const std::string& file, const Inputs& inputs,
                    const ExplainArguments& arguments, const Options& options);
// Conformance cases, on a mesh if there is one.
int command_conform(const std::vector<std::string>& files, const std::string& filter,
                    const MeshArguments& mesh, const Options& options);
int command_grad(const std::string& file, const std::string& of, const std::string& wrt,
                 const Options& options);
int command_passes();
int command_cache(const std::string& action, bool json);
int command_devices(const Options& options, bool json);

}  // namespace tile::cli
