#include "runtime/engine/steps/loop_tiles.h"

#include <algorithm>
#include <array>

#include "core/ir/analysis/uses.h"
#include "core/schedule/cost/estimate.h"
#include "core/schedule/legality/legality.h"
#include "runtime/engine/engine.h"

namespace tile {
namespace {

constexpr size_t kMostArguments = 16;
// Of a trip's time by itself, at most: blocks are done in other shapes than the model was fitted
// to, and their edges twice.
constexpr double kWorthIt = 0.7;

// The kernel that is all of a step; null: there is no such one.
const Launch* only_kernel(const Executable& step) {
  if (step.engine->is_reference() || is_gpu(step.engine->target())) return nullptr;
  if (step.launches.size() != 1) return nullptr;
  const Launch& launch = step.launches[0];
  bool plain = launch.kernel && launch.prepared.empty() && launch.parameters.empty() &&
               launch.arguments.size() <= kMostArguments;
  return plain ? &launch : nullptr;
}

// The argument of the launch that is this tensor; nullopt: none is, or several are.
std::optional<nest::BufferId> argument_for(const Executable& step, const Launch& launch,
                                           TensorId tensor) {
  std::optional<nest::BufferId> found;
  TensorId storage = storage_of(step.program, tensor);
  for (size_t i = 0; i < launch.arguments.size(); ++i) {
    if (storage_of(step.program, launch.arguments[i]) != storage) continue;
    if (found) return std::nullopt;
    found = nest::BufferId(i);
  }
  return found;
}

// Of two states and what else the kernel reads.
int64_t bytes_touched(const Executable& step, const Launch& launch) {
  int64_t bytes = 0;
  for (TensorId id : launch.arguments) {
    const BoundTensor& t = step.program.tensors[id];
    bytes += element_count(t.shape) * static_cast<int64_t>(byte_size(t.type));
  }
  return bytes;
}

std::optional<TimeTiles> tiles_of(const Executable& step, const Launch& launch,
                                  const nest::Nest& nest, int64_t trips) {
  const BoundProgram& program = step.program;
  auto state = argument_for(step, launch, program.inputs.at(0)),
       result = argument_for(step, launch, program.outputs.at(0));
  if (!state || !result || *state == *result) return std::nullopt;
  auto reach = nest::iteration_reach(nest, *state, *result);
  if (!reach) return std::nullopt;
  return time_tiles(*reach, trips, bytes_touched(step, launch), step.engine->target());
}

// With one parallel loop of these steps, over the first iterator of all parallel ones.
std::optional<Schedule> with_parallel_step(Schedule schedule, int64_t step) {
  if (schedule.stages.size() != 1 || schedule.stages[0].size() != 1) return std::nullopt;
  PieceSchedule& piece = schedule.stages[0][0];
  if (piece.outer.empty()) return std::nullopt;
  for (Loop& loop : piece.outer) {
    if (loop.binding == Binding::parallel) loop.binding = Binding::serial;
  }
  Loop& first = piece.outer[0];
  first.binding = Binding::parallel;
  first.step = step;
  auto covered = [&](const Loop& l) { return l.iterator == first.iterator && l.step >= step; };
  std::erase_if(piece.tile, covered);
  piece.outer.erase(std::remove_if(piece.outer.begin() + 1, piece.outer.end(), covered),
                    piece.outer.end());
  return schedule;
}

// The schedule and those with fewer cells in an iteration of its parallel loop.
std::vector<Schedule> with_smaller_steps(const Schedule& schedule, const Kernel& kernel,
                                         const Target& target) {
  std::vector<Schedule> list = {schedule};
  bool looped = schedule.stages.size() == 1 && schedule.stages[0].size() == 1 &&
                !schedule.stages[0][0].outer.empty();
  int64_t step = looped ? schedule.stages[0][0].outer[0].step : 0;
  for (; step >= 1; step /= 2) {
    std::optional<Schedule> finer = with_parallel_step(schedule, step);
    if (finer && *finer != schedule && illegal(*finer, kernel, target).empty()) {
      list.push_back(std::move(*finer));
    }
  }
  return list;
}

// As if memory were the second cache, and threads began at once.
double cached_time(const Schedule& schedule, const Kernel& kernel, Target target) {
  target.dram_bytes_per_ns = target.l3_bytes_per_ns = target.l2_bytes_per_ns;
  target.parallel_overhead_ns = 0;
  return estimate(schedule, kernel, target);
}

}  // namespace

std::optional<TimeTiles> choose_time_tiles(Executable& step, int64_t trips) {
  const Launch* launch = only_kernel(step);
  if (launch == nullptr || trips < 2) return std::nullopt;
  const Target& target = step.engine->target();
  const Kernel& kernel = *launch->kernel;
  double least = kWorthIt * estimate(launch->schedule, kernel, target);
  std::optional<TimeTiles> chosen;
  Schedule schedule;
  nest::Nest best;
  for (Schedule& candidate : with_smaller_steps(launch->schedule, kernel, target)) {
    nest::Nest nest = lowered(step, kernel, candidate);
    std::optional<TimeTiles> tiles = tiles_of(step, *launch, nest, trips);
    if (!tiles) continue;
    double ns = time_of_trip(*tiles, estimate(candidate, kernel, target),
                             cached_time(candidate, kernel, target), target);
    if (ns >= least) continue;
    least = ns;
    chosen = tiles;
    schedule = std::move(candidate);
    best = std::move(nest);
  }
  if (!chosen) return std::nullopt;
  step.launches[0].schedule = std::move(schedule);
  step.launches[0].nest = std::move(best);
  return chosen;
}

bool takes_tiles(const StepLoop& loop, const TimeTiles& tiles) {
  const Executable& step = *loop.step;
  if (!is_sound(tiles) || step.launches.size() != 1 || !step.launches[0].code) return false;
  if (!step.copies.empty() || !step.densified.empty()) return false;
  bool given = std::all_of(
      step.call.arguments.begin(), step.call.arguments.end(),
      [](const CallPlan::Argument& a) { return a.base != CallPlan::Argument::Base::arena; });
  return given && step.call.arguments.size() <= kMostArguments &&
         step.launches[0].code->iterations() == tiles.iterations;
}

namespace {

class TiledRun {
 public:
  TiledRun(const StepLoop& loop, std::span<void* const> tensors, void* other,
           const RunOptions& options)
      : loop_(loop),
        tiles_(*loop.tiles),
        code_(*loop.step->launches[0].code),
        tensors_(tensors),
        other_(other),
        control_(options.control) {}

  void run() {
    launching_.threads = loop_.step->engine->options().threads;
    launching_.control = control_;
    launching_.pool = loop_.step->engine->pool();
    for (int64_t first = 0; first < loop_.trips; first += tiles_.trips) {
      int64_t count = std::min(tiles_.trips, loop_.trips - first);
      each(tiles_.blocks(), [&](int64_t number) { block(number, first, count); });
      each(count > 1 ? tiles_.blocks() - 1 : 0,
           [&](int64_t number) { edge(number + 1, first, count); });
    }
  }

 private:
  // Ends early if it is to.
  template <class Work>
  void each(int64_t count, const Work& work) {
    loop_.step->engine->backend().run_parallel(count, work, launching_);
    if (control_ != nullptr && control_->is_over()) throw control_->reason({});
  }

  void block(int64_t number, int64_t first, int64_t count) const {
    for (int64_t t = 0; t < count; ++t) trip(first + t, of_block(tiles_, number, t));
  }
  void edge(int64_t number, int64_t first, int64_t count) const {
    for (int64_t t = 1; t < count; ++t) trip(first + t, around_edge(tiles_, number, t));
  }

  void trip(int64_t number, IterationSpan span) const {
    if (span.begin >= span.end || (control_ != nullptr && control_->is_over())) return;
    std::array<void*, kMostArguments> pointers;
    size_t count = 0;
    for (const CallPlan::Argument& a : loop_.step->call.arguments) {
      bool given = a.base == CallPlan::Argument::Base::given;
      pointers[count++] = given ? tensor(a.at, number) : reinterpret_cast<void*>(a.at);
    }
    code_.run_iterations({pointers.data(), count}, span.begin, span.end);
  }
  // Input 0 is the state, the tensor behind the inputs the next state.
  void* tensor(size_t at, int64_t trip) const {
    if (at + 1 == tensors_.size()) return after(trip);
    return at == 0 && trip > 0 ? after(trip - 1) : tensors_[at];
  }
  void* after(int64_t trip) const {
    return (loop_.trips - trip) % 2 == 1 ? tensors_.back() : other_;
  }

  const StepLoop& loop_;
  const TimeTiles& tiles_;
  const Code& code_;
  std::span<void* const> tensors_;
  void* other_;
  Control* control_;
  LaunchOptions launching_;
};

}  // namespace

void run_tiled(const StepLoop& loop, std::span<void* const> tensors, void* other,
               const RunOptions& options) {
  TiledRun(loop, tensors, other, options).run();
}

}  // namespace tile
