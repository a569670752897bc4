#include "core/schedule/cost/piece/tile_cycles.h"

#include <utility>

namespace tile {
namespace {

CostTerm leaf(const char* what, double ns) { return cost_leaf(what, ns); }

// `each`: nanoseconds of a cycle of every step together.
CostTerm steps_term(const TileCycles& c, double each) {
  CostTerm busy = combine("busy", Combine::largest, 1,
                          {leaf("arithmetic", c.arithmetic * each), leaf("loads", c.loads * each),
                           leaf("instructions", c.issue * each)});
  CostTerm step = combine("computing", Combine::sum, 1, {std::move(busy)});
  if (c.in_turns > 0) step.add("loads in turns with arithmetic", c.in_turns * each);
  step.ns = combined(step);
  if (c.rounds > 0 || c.latency > 0) {
    step = combine("computing or waiting", Combine::largest, 1,
                   {std::move(step), leaf("rounds of folds that wait", c.rounds * each),
                    leaf("multiply-adds that wait", c.latency * each)});
  }
  CostTerm steps = combine("steps", Combine::sum, 1, {std::move(step)});
  if (c.loop > 0) steps.add("the loop around them", c.loop * each);
  steps.ns = combined(steps);
  return steps;
}

}  // namespace

// The same tree as where RegisterTileCycles adds up the figures.
CostTerm tile_term(const TileCycles& c, bool reduces, std::string name, double scale) {
  double each = c.steps * scale;
  CostTerm steps = steps_term(c, each);
  CostTerm stores = leaf("stores", c.stores * scale),
           finish = leaf("finishing sums", c.finish * scale);
  CostTerm all;
  all.name = std::move(name);
  if (c.beside) {
    all.add(combine(
        "steps beside the ends of tiles", Combine::largest, 1,
        {combine("loads and stores", Combine::sum, 1,
                 {leaf("loads", c.loads * each), std::move(stores)}),
         combine("steps and ends", Combine::sum, 1, {std::move(steps), std::move(finish)})}));
  } else if (!reduces) {
    all.add(
        combine("steps beside stores", Combine::largest, 1, {std::move(steps), std::move(stores)}));
  } else {
    all.add(std::move(steps));
    all.add(std::move(stores));
    if (c.finish > 0) all.add(std::move(finish));
  }
  all.add_if("scattered stores", c.scattered * scale);
  all.add_if("entering and leaving tiles", c.start * scale);
  all.add_if("adding up lanes", c.lanes * scale);
  all.ns = c.total * scale;
  return all;
}

}  // namespace tile
