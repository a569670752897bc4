#include "runtime/engine/inspect/explain_trade.h"

#include "core/pipeline/class_program.h"
#include "core/schedule/cost/estimate.h"
#include "core/schedule/space/candidates.h"
#include "core/schedule/space/remembered_schedules.h"
#include "core/support/choices.h"
#include "runtime/engine/compile_bound.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/launch/memory_plan.h"

namespace tile {

std::optional<LeastStored> least_stored(const Executable& e) {
  SpaceFirst now;
  const Target& target = e.engine->target();
  BoundProgram program = e.bound;
  take_constants(*e.engine, e.inputs, program);
  RememberedSchedules remembered(target, program.statements.size());
  std::vector<Step> steps = steps_of(program, target, pass_options(*e.engine), {});
  LeastStored least{0, temporary_bytes(program, steps)};
  if (least.temporary_bytes >= e.arena_bytes) return std::nullopt;
  for (const Step& step : steps) {
    const Kernel* kernel = std::get_if<Kernel>(&step);
    if (kernel == nullptr) return std::nullopt;
    least.ns += estimate(analytic_schedule(*kernel, target), *kernel, target);
  }
  return least;
}

}  // namespace tile
