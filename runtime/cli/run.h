// Running a program on files, once or again and again (`tile run`, `tile watch`).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cli/ranks/mesh_commands.h"
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
struct Asked {
  std::shared_ptr<LoadedProgram>
      forward;  // without the gradients that are asked for; null: none are
  std::shared_ptr<LoadedProgram> written;  // with the outputs of its text, and the gradients
  std::shared_ptr<LoadedProgram> program;  // with the outputs that are asked for
};
// Throws Failure and Located, also where an output cannot go where it is to go.
Asked program_of(const RunArguments& arguments, const Options& options);
// Throws Failure for outputs that cannot be written as they are asked for: files of unknown
// suffixes or in no folder, and ranges of what is no picture.
void check_outputs(const LoadedProgram& program, const RunArguments& arguments);
// The same for a shape that the file of this output cannot have.
void check_output_shape(const std::string& name, const Shape& shape, const RunArguments& arguments);
// The least and the median of several runs, to standard error.
void report_times(std::vector<double> ms);
// Throws Failure and Located.
Ran run_program(const RunArguments& arguments, const Options& options);
// The outputs that the arguments name, in the order of the command line.
struct WrittenOutput {
  size_t output = 0;  // its number
  std::string name, target;
};
std::vector<WrittenOutput> written_outputs(const LoadedProgram& program,
                                           const RunArguments& arguments);
// Writes them.
void write_outputs(const Ran& ran, const RunArguments& arguments, const Options& options);

// Writes one to a file, or to standard output, there below its name where several outputs go there.
// Warns of a picture whose values are mostly outside
// the range that it has where none is given.
void write_output(const HostTensor& tensor, const std::string& name, const std::string& target,
                  const RunArguments& arguments, const Options& options);

// "f32 [2, 3]", "f32 scalar".
std::string kind_text(DType type, const Shape& shape);

// "f32 [2, 3], from -1 to 4": type, shape and range of the values.
std::string summary(const HostTensor& tensor);

}  // namespace tile::cli
