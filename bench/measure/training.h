// A training step of a workload: its loss, and what an optimiser makes of each weight.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "bench/measure/workload.h"

namespace tile::bench {

struct TrainingStep {
  Program program;
  size_t loss = 0;                   // number of the output of the forward program
  std::vector<std::string> weights;  // inputs of the forward program, in its order
  // Inputs of the optimiser: all in its order, and which of them each weight has and which are one.
  std::vector<std::string> arguments, states, shared;
  std::map<std::string, std::string> from;  // inputs that are the optimiser's: its names
  std::vector<std::string> replaced;        // for each output the input that is its next value
};

// The gradient of the loss with respect to every weight, and the optimiser's statements for each,
// as one Tile program. Throws Failure.
TrainingStep training_step(const Workload& workload);
// Whether an input of the forward program is a weight.
bool is_weight(const Workload& workload, const std::string& input);

// Of the sums that a weight's last dimension numbers.
double terms_of(const Shape& weight);

// What inputs are drawn from.
class Draw {
 public:
  explicit Draw(const Workload& workload);
  Workload::Range range(const std::string& input, const Shape& shape) const;

 private:
  Workload::Range bounds(const std::string& input, const Shape& shape) const;

  const Workload& workload_;
  std::map<std::string, std::string> optimisers_;  // as TrainingStep::from
};

}  // namespace tile::bench
