// The estimate of a launch in its terms, beside that of the next schedule by the model.
#pragma once

#include <optional>
#include <string>
#include <string_view>

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
  // The best other one of the space; nullopt: there is none, or it was not looked for.
  std::optional<ScheduleCost> next;
  std::optional<double> measured_ns;
  std::string record;  // the name of the record that the schedule comes from; empty: the model's
};

// `with_next`: looks for the next schedule, too, which takes as long as choosing the first.
LaunchCost launch_cost(const Launch& launch, const Target& target, bool with_next);
// Lines, each indented: the terms under one another, with what makes them.
std::string to_text(const LaunchCost& cost);
// Fields of an object, without its braces.
std::string json_fields(const LaunchCost& cost);
// A number with all its digits; JSON has no infinities.
std::string json_number(double value);
// A JSON string, with its quotes.
std::string quoted(std::string_view text);

}  // namespace tile
