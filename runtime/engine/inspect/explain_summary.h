// What a reader asks first of each launch, for a table with one line for each and for JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/engine/executable.h"
#include "runtime/engine/inspect/explain_cost.h"

namespace tile {

struct LaunchSummary {
  std::string number;              // from "1" on; "2.1" is the first in the step of the loop "2"
  int line = 1;                    // of the statement in the program's text
  std::vector<std::string> makes;  // tensors of the program in the order in which they are made,
                                   // stored or not
  // Of its stages, each once; for what is no kernel "sort", "scatter" or "loop of 9 steps".
  std::vector<std::string> classes;
  // By the model, of a loop step by step. nullopt: it knows nothing of it.
  std::optional<double> estimate_ns;
  std::optional<double> measured_ns;
  // Nothing is faster on this machine: the longer of the times that its memory and its arithmetic
  // take at best.
  double ceiling_ns = 0;
  bool memory_bound = false;  // that is the memory's
  std::string most;    // of the estimate: the name of its largest part's largest part, and so on
  std::string record;  // the name of the record that the schedule comes from; empty: the model's
};

// Of a launch that is no loop.
LaunchSummary summary_of(const Executable& executable, const Launch& launch, const LaunchCost& cost,
                         const std::string& number);
// Of a loop: it takes the time of all its steps, which `step` are the launches of.
LaunchSummary summary_of(const Executable& executable, const Launch& loop,
                         const std::vector<LaunchSummary>& step, const std::string& number);

// "1.250 us"; "-" for what is not known.
std::string microseconds(std::optional<double> ns);
// The sum of the launches that stand in no loop.
double estimated_ns(const std::vector<LaunchSummary>& launches);
// A table with a heading, and that sum.
std::string to_text(const std::vector<LaunchSummary>& launches);
// Fields of an object, without its braces.
std::string json_fields(const LaunchSummary& launch);

}  // namespace tile
