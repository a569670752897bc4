// Running a program on files, once or again and again (`tile run`, `tile watch`).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cli/mesh_commands.h"
#include "runtime/cli/session.h"

namespace tile::cli {

struct RunArguments {
  std::string file;
  std::vector<std::string> in, param, out, constants;
  std::vector<std::string> ranges;  // of pictures: [NAME=]LOW:HIGH or auto
  int repeat = 1;
  std::optional<uint64_t> steps;   // of a time loop
  std::vector<std::string> feeds;  // OUTPUT=INPUT: what a step leaves for the next
  std::string gradient_of;         // --grad O:I,K adds the gradients of O to the outputs
  bool profile = false;
  std::string trace;  // a file for Chrome's trace; empty: none
  MeshArguments mesh;
};

// What a run was given and made.
struct Ran {
  std::shared_ptr<LoadedProgram> program;        // with the outputs that were asked for
  std::shared_ptr<const Executable> executable;  // null on a mesh
  std::vector<HostTensor> inputs, outputs;
  std::vector<double> ms;  // of each run; the first compiles
};
// Throws Failure and Located.
Ran run_program(const RunArguments& arguments, const Options& options);
// Writes the outputs to the files that the arguments name.
void write_outputs(const Ran& ran, const RunArguments& arguments);

// "f32 [2, 3], from -1 to 4": type, shape and range of the values.
std::string summary(const HostTensor& tensor);

}  // namespace tile::cli
