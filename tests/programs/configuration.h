// How a whole program is run beside the reference interpreter.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/engine/engine.h"
#include "tests/random/agreement/whole_agreement.h"
#include "tests/random/whole_program.h"

namespace tile::test {

struct Configuration {
  std::string backend = "cpu";
  std::string features;  // empty: the host's
  int threads = 1;
  bool nests = false;      // the interpreter of nests too
  bool tuned = false;      // after a short race
  bool constants = false;  // some inputs are constant
  bool classes = false;    // after other sizes of the same program
  bool warm = false;       // from the disk cache
  bool strided = false;    // inputs with random strides
  uint64_t seed = 0;       // of what is chosen at random

  std::string text() const;  // "cpu avx2 threads=3 nests strided"
};

// Of those that this host can run, the features given alone if any are.
Configuration random_configuration(uint64_t seed, const std::string& backend,
                                   const std::string& features);

struct Outcome {
  std::string wrong;          // empty: all agreed
  int runs = 0;               // of compiled code or nests that were compared
  bool context_lost = false;  // of the GPU: this process can run no more
  std::string refused = {};   // why a gradient that was drawn is not among the outputs; else empty
};

// What `work` gives, or what it throws as what is wrong. `on_gpu`: an error of a launch is one
// after which the process can run no more.
Outcome outcome_of(const std::function<Outcome()>& work, bool on_gpu = false);

// The cases that a program is under a configuration: the last one is the program as drawn, those
// before it have other sizes.
std::vector<WholeCase> cases_of(const WholeProgram& program, const Configuration& configuration);

// Engines by their options, for the programs that one process runs.
class ProgramRunner {
 public:
  // The cases, of one program, one after the other; `evaluate` says what is right.
  Outcome run(const std::vector<WholeCase>& cases, const Configuration& configuration,
              const Evaluate& evaluate = evaluated);
  Outcome run(const WholeProgram& program, const Configuration& configuration);

 private:
  std::shared_ptr<Engine> engine(const Configuration& configuration);
  std::map<std::string, std::shared_ptr<Engine>> engines_;
};

// By compiled code for the CPU, where the reference interpreter would take too long.
Evaluate evaluate_on_cpu();

}  // namespace tile::test
