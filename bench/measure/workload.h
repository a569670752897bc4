// Workloads: Tile, Lift and MFG programs in files whose header lines give shapes and meaning.
//
//   //: suite NAME [GEOMEAN [WORST]]
//                                  the class of benchmarks it belongs to, and its aims: the best
//                                  peer's time over ours, geometric mean and worst case
//   //: kind NAME [KEY=INTEGER…]   what a peer must compute to be comparable
//   //: device cpu|cuda…           where it is measured; cpu where the line is missing
//   //: measure gflops|gbps        arithmetic or memory traffic is the measure
//   //: gradient OUTPUT INPUT      the program measured is this gradient, its last input is `seed`
//   //: program PATH              the program's text is that file's (relative to this one), which
//                                  then holds header lines alone
//   //: precision tf32|3xtf32      of f32 products; a peer rounds to tf32 where it is tf32
//   //: tolerance N [SHARE]        integers may differ by N between contenders, SHARE of them
//                                  by more (0.001: where roundings decide between colours);
//                                  floats by N times the largest, where results are rounded in
//                                  several places
//   //: peer MODULE EXPRESSION     what Python's MODULE is timed with; inputs stand under their
//   names
//   //: prepare MODULE STATEMENT   run once before: layouts of constant weights, definitions
//   //: constant INPUT…            inputs whose peers prepare them before the timing: ours are
//                                  declared constant, and packed before it likewise
//   //: code MODULES FILE          Python in a file beside this one, which the peer's lines may use
//   //: floats bf16|f16|f32|f64    what inputs are that a case gives no type; f32 where the line is
//                                  missing. An optimiser's states and other inputs have its own
//   //: range INPUT LOW HIGH       its floats are drawn from [LOW, HIGH) and not from [-1, 1)
//   //: case NAME INPUT=2x3[:f32]… one set of shapes; SIZE=8 says what a dimension's name stands
//                                  for, and shapes of inputs (f32) that follow may be left out
//   //: full NAME INPUT=2x3[:f32]… the same, left out by --quick
//   //: small INPUT=2x3[:f32]…     shapes for the reference interpreter: tests compare there
//
// MODULES may be several, between commas. Of networks that are trained:
//
//   //: data INPUT…                all other inputs are weights; those of two or more dimensions
//                                  are drawn as small as the number of terms that they stand in
//                                  asks. All are drawn from 2^24 values and not from 16, as equal
//                                  ones tie for a window's largest value
//   //: train OUTPUT FILE          each case is two: itself and, its name followed by _train, the
//                                  step that descends along this output, a scalar: its results are
//                                  the output and, for each weight, those of the optimiser in FILE
//   //: part                       the program is part of others and has no case. An optimiser's
//                                  first inputs are the weight and its gradient; other inputs are
//                                  state of the weight's shape, declared inputs (Rate[]) are one
//                                  for all weights. Results: the weight, then each state
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/target/target.h"
#include "runtime/engine/engine.h"

namespace tile::bench {

enum class Measure : uint8_t { gflops, gbps };

struct Workload {
  // How a Python peer computes it: statements run once, and the expression that is timed.
  struct Peer {
    std::vector<std::string> prepare;
    std::string expression;
  };
  SourcePtr source;
  Language language = Language::tile;
  std::string suite = "other";
  std::vector<std::string> devices = {"cpu"};
  double target_geomean = 0, target_worst = 0;  // 0: no aim is stated
  std::string kind;
  std::map<std::string, int> attributes;
  DType floats = DType::f32;  // what inputs are that a case gives no type
  Measure measure = Measure::gflops;
  std::optional<Precision> precision;  // nullopt: as the command line says
  double tolerance = 0, share = 0;
  std::map<std::string, Peer> peers;        // by module: "torch", "jax", "halide"
  std::vector<std::string> constants;       // names of inputs
  std::string gradient_of, gradient_input;  // empty: the program itself
  struct Range {
    double low = -1, high = 1;
    int bits = 4;  // of what is drawn: 2^bits values
  };
  std::map<std::string, Range> ranges;  // of inputs, or of an optimiser's
  bool part = false;                    // of other workloads
  // A training step; see measure/training.h.
  std::vector<std::string> data;              // inputs that are no weights; empty: none is one
  std::string loss;                           // an output
  std::shared_ptr<const Workload> optimiser;  // null: the program itself
  std::map<std::string, InputType> small;     // as in Case::shapes

  int attribute(const std::string& name) const { return attributes.at(name); }
};

// One benchmark: a workload and the shapes of its inputs.
struct Case {
  std::string name;
  std::shared_ptr<const Workload> workload;
  std::map<std::string, InputType> shapes;  // of inputs; a size's name has a shape of one dimension
  bool full = false;                        // larger than what --quick measures
  std::string folder = {};                  // that its file is in, without what is above
};

// Every case of the *.tile, *.lift and *.mfg files below a folder, by file name and then in the
// file's order. Throws Failure (code "file") for a folder that cannot be read or a header that is
// wrong.
std::vector<Case> read_cases(const std::string& folder);
// Those that are named, or whose name contains `filter`, or whose folder it is. Throws Failure for
// a name that is not there.
std::vector<Case> chosen(const std::vector<Case>& cases, const std::vector<std::string>& names,
                         const std::string& filter);
// The folder beside the installed program, else the one of the source tree.
std::string default_folder();

// The program of a case, parsed and differentiated; and loaded.
Program program_of(const Case& c);
std::shared_ptr<LoadedProgram> load(const std::shared_ptr<Engine>& engine, const Case& c);
// The names of its inputs in the program's order; a gradient's last one is "seed".
std::vector<std::string> input_names(const Program& program, const Case& c);
// Its inputs in the program's order; run-time parameters that the case does not name have their
// defaults.
std::vector<InputType> input_types(const Program& program, const Case& c);
// The same as dense layouts.
std::vector<InputLayout> layouts(const LoadedProgram& program, const Case& c);

}  // namespace tile::bench
