// What a whole program's results must be: the reference interpreter's, bit for bit where every
// order of aggregation gives the same bits, and otherwise as near as rounding lets them be.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/ir/program.h"
#include "tests/random/whole_program.h"

namespace tile::test {

// The outputs of a case's program for these inputs.
using Evaluate =
    std::function<std::vector<HostTensor>(const WholeCase&, const std::vector<HostTensor>&)>;
// By the reference interpreter.
std::vector<HostTensor> evaluated(const WholeCase& drawn, const std::vector<HostTensor>& inputs);
// The types of inputs for bind: those of the case, with the values that sizes are made of.
std::vector<InputType> types_for(const WholeCase& drawn, const std::vector<HostTensor>& inputs);

// The case in double precision: its real inputs, and f64 in place of f32 in the program.
WholeCase in_double(WholeCase drawn);

class Expectation {
 public:
  // Throws Failure where `evaluate` does.
  explicit Expectation(const WholeCase& drawn, Evaluate evaluate = evaluated);

  // Empty if `got` agrees; else where it first differs.
  std::string disagreement(const std::vector<HostTensor>& got) const;
  const std::vector<HostTensor>& outputs() const { return outputs_; }

 private:
  std::string exact_difference(size_t output, const HostTensor& got) const;
  std::string rounded_difference(size_t output, const HostTensor& got) const;
  double moved(size_t output) const;
  void perturb() const;
  const WholeCase& drawn_;
  Evaluate evaluate_;
  std::vector<HostTensor> outputs_;
  // For each output how far roundings may move its elements: computed when something differs.
  mutable std::optional<std::vector<double>> moved_;
};

}  // namespace tile::test
