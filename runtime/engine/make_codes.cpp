// From nests to code: what is in memory already is taken, the rest is made on all cores.
#include <memory>
#include <optional>
#include <vector>

#include "backends/trace.h"
#include "core/pipeline/pipeline.h"
#include "core/schedule/space/candidates.h"
#include "runtime/engine/compile_bound.h"
#include "runtime/engine/concurrency/parallel_for.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/inspect/pass_list.h"
#include "runtime/engine/inspect/pass_times.h"
#include "runtime/engine/inspect/pass_trace.h"

namespace tile {

void make_code(const Executable& e, Launch& launch, PassObserver* observer) {
  if (launch.sort || launch.loop) return;
  KernelCache& kernels = e.engine->kernels();
  const Target& target = e.engine->target();
  // A class's form knows the key: its text is long.
  if (launch.key.empty()) launch.key = kernels.key_of(*launch.nest, target);
  launch.code = kernels.get(launch.key, *launch.nest, target, observer);
  for (PrepackedCopy& p : launch.prepared) {
    p.key = kernels.key_of(p.nest, target);
    p.code = kernels.get(p.key, p.nest, target, observer);
  }
}

namespace {

// The model counts registers, but only the compiler knows: where its first choice spills, the first
// of the next ones that does not. If all do, the first choice stays.
void drop_spilling(const Executable& e, Launch& launch) {
  constexpr size_t kChoices = 6;
  if (!launch.code || !launch.code->spills() || !launch.kernel || !launch.parameters.empty())
    return;
  for (Schedule& schedule : candidates(*launch.kernel, e.engine->target(), kChoices)) {
    if (schedule == launch.schedule) continue;
    Launch other = launch;
    other.nest = lowered(e, *launch.kernel, schedule);
    other.key.clear();
    other.prepared = copies_for(e, *launch.kernel, schedule);
    other.schedule = std::move(schedule);
    make_code(e, other);
    if (other.code->spills()) continue;
    other.record = nullptr;
    launch = std::move(other);
    return;
  }
}

// Of a class's kernel, whose code most sizes find in memory. False: it has to be made or waited
// for.
bool take_known_code(const Executable& e, Launch& launch) {
  KernelCache& kernels = e.engine->kernels();
  bool of_class = !launch.parameters.empty() && !launch.key.empty();
  std::shared_ptr<const Code> code = of_class ? kernels.known(launch.key) : nullptr;
  if (!code) return false;
  for (PrepackedCopy& p : launch.prepared) {
    p.key = kernels.key_of(p.nest, e.engine->target());
    p.code = kernels.known(p.key);
    if (!p.code) return false;
  }
  launch.code = std::move(code);
  kernels.hits += 1 + launch.prepared.size();
  return true;
}

}  // namespace

// Each thread has a clock of its own. For what is known no thread is started: that takes longer
// than to find it.
void make_codes(Executable& e) {
  PassTimes* times = e.pass_times.get();
  PassOptions passes = pass_options(*e.engine);
  bool watched = times != nullptr || trace::is_on();
  std::vector<size_t> open;
  for (size_t i = 0; i < e.launches.size(); ++i) {
    if (watched || !take_known_code(e, e.launches[i])) open.push_back(i);
  }
  auto make = [&](size_t at) {
    size_t i = open[at];
    std::optional<PassClock> clock;
    if (times != nullptr) clock.emplace(*times);
    PassTrace traced(clock ? &*clock : nullptr);
    PassOptions own{passes.skip, traced.observer()};
    make_code(e, e.launches[i], own.observer);
    run_pass(
        kAvoidSpills, own, [&] { drop_spilling(e, e.launches[i]); },
        [&] { return print(*e.launches[i].nest); });
  };
  parallel_for(open.size(), make, e.engine->pool());
}

}  // namespace tile
