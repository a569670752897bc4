// The estimate of a launch in its terms, beside that of the next schedule by the model.
#pragma once

#include <optional>
#include <string>

#include "core/schedule/cost/piece/cost_term.h"
#include "runtime/engine/executable.h"

namespace tile {

struct ScheduleCost {
  Schedule schedule;
  CostTerm cost;
};
struct LaunchCost {
  std::string name;
  // nullopt: a sort, or a scatter, of which the model knows nothing.
  std::optional<ScheduleCost> taken;
  std::optional<ScheduleCost> next;  // the best other one of the space; nullopt: there is none
  std::optional<double> measured_ns;
  std::string record;  // the name of the record that the schedule comes from; empty: the model's
};

LaunchCost launch_cost(const Launch& launch, const Target& target);
// Lines, each indented: the terms under one another, with what makes them.
std::string to_text(const LaunchCost& cost);
std::string to_json(const LaunchCost& cost);

}  // namespace tile
