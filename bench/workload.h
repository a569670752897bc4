// Workloads: Tile programs in files whose header lines give shapes and meaning.
//
//   //: kind NAME [KEY=INTEGER…]   what a peer must compute to be comparable
//   //: measure gflops|gbps        arithmetic or memory traffic is the measure
//   //: gradient OUTPUT INPUT      the program measured is this gradient, its last input is `seed`
//   //: case NAME INPUT=2x3[:f32]… one set of shapes
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/engine/engine.h"

namespace tile::bench {

enum class Measure : uint8_t { gflops, gbps };

struct Workload {
  SourcePtr source;
  std::string kind;
  std::map<std::string, int> attributes;
  Measure measure = Measure::gflops;
  std::string gradient_of, gradient_input;  // empty: the program itself

  int attribute(const std::string& name) const { return attributes.at(name); }
};

// One benchmark: a workload and the shapes of its inputs.
struct Case {
  std::string name;
  std::shared_ptr<const Workload> workload;
  std::map<std::string, InputType> shapes;
};

// Every case of the *.tile files below a folder, by file name and then in the file's order. Throws
// Failure (code "file") for a folder that cannot be read or a header that is wrong.
std::vector<Case> read_cases(const std::string& folder);
// Those that are named, or whose name contains `filter`. Throws Failure for a name that is not
// there.
std::vector<Case> chosen(const std::vector<Case>& cases, const std::vector<std::string>& names,
                         const std::string& filter);
// The folder beside the installed program, else the one of the source tree.
std::string default_folder();

// The program of a case, loaded.
std::shared_ptr<LoadedProgram> load(const std::shared_ptr<Engine>& engine, const Case& c);
// Dense layouts of its inputs in the program's order.
std::vector<InputLayout> layouts(const LoadedProgram& program, const Case& c);

}  // namespace tile::bench
