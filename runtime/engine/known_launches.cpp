#include "runtime/engine/known_launches.h"

#include <algorithm>

#include "core/lower/context/argument_names.h"
#include "core/schedule/space/remembered_schedules.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/inspect/gdb.h"

namespace tile {

// A clock reads no texts.
KnownLaunches::KnownLaunches(const Executable& e, const PassOptions& passes)
    : remembers_(e.program.statements.size() >= RememberedSchedules::kRepeatsParts && !e.sizes &&
                 (passes.observer == nullptr || e.pass_times) && !gdb::is_on()) {}

std::string KnownLaunches::text_of(const Kernel& kernel, const Strides& strides) const {
  if (!remembers_) return {};
  auto dense = [&](TensorId id) { return !strides.contains(id) || strides[id].empty(); };
  bool all = std::all_of(kernel.reads.begin(), kernel.reads.end(), dense) &&
             std::all_of(kernel.writes.begin(), kernel.writes.end(), dense);
  return all ? RememberedSchedules::key_of(kernel) : std::string();
}

bool KnownLaunches::take(const std::string& text, Launch& launch) const {
  auto found = known_.find(text);
  if (text.empty() || found == known_.end()) return false;
  const Known& known = found->second;
  launch.schedule = known.schedule;
  launch.record = known.record;
  launch.own_code_because = known.own_code_because;
  launch.key = known.key;
  nest::Nest nest = *known.nest;
  name_arguments(nest, *launch.kernel);
  launch.nest = std::move(nest);
  return true;
}

void KnownLaunches::keep(const std::string& text, const Executable& e, Launch& launch) {
  if (text.empty() || !launch.prepared.empty() || !launch.parameters.empty()) return;
  launch.key = e.engine->kernels().key_of(*launch.nest, e.engine->target());
  known_[text] = {launch.schedule, launch.record, launch.own_code_because, launch.key, launch.nest};
}

}  // namespace tile
