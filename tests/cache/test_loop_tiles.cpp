// Loops in blocks of space and time compute, bit for bit, what they compute trip by trip: random
// steps, all blocks that fit, from one to four threads, and from records.
#include <gtest/gtest.h>

#include <atomic>

#include "core/language/lift/lift.h"
#include "core/schedule/legality/legality.h"
#include "runtime/engine/cache/saved_executable.h"
#include "runtime/engine/concurrency/call_control.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/launch/host_run.h"
#include "runtime/engine/steps/loop_tiles.h"
#include "tests/executors/run_backends.h"
#include "tests/random/random_iteration.h"

namespace tile::test {
namespace {

// Its step's kernel as one parallel loop over single rows, however little work that is, where it
// can be.
void make_parallel(StepLoop& loop) {
  auto step = std::make_shared<Executable>(*loop.step);
  if (step->launches.size() != 1 || !step->launches[0].kernel) return;
  Launch& launch = step->launches[0];
  Schedule schedule = launch.schedule;
  if (schedule.stages.size() != 1 || schedule.stages[0].size() != 1) return;
  PieceSchedule& piece = schedule.stages[0][0];
  if (piece.outer.empty()) return;
  for (Loop& other : piece.outer) {
    if (other.binding == Binding::parallel) other.binding = Binding::serial;
  }
  piece.outer[0].binding = Binding::parallel;
  if (!illegal(schedule, *launch.kernel, step->engine->target()).empty()) return;
  launch.schedule = schedule;
  launch.nest = lowered(*step, *launch.kernel, schedule);
  make_code(*step, launch);
  step->call = call_plan(*step);
  loop = {step, loop.trips, std::nullopt};
}

std::shared_ptr<const Executable> compiled_loop(const std::string& text,
                                                const std::vector<HostTensor>& inputs,
                                                int threads) {
  auto source = std::make_shared<const Source>(Source{"loop.lift", text});
  auto program = std::make_shared<LoadedProgram>(test_engine("cpu", "", threads),
                                                 std::make_shared<Program>(parse_lift(source)));
  std::vector<InputLayout> layouts;
  for (const HostTensor& t : inputs) layouts.push_back({{t.type, t.shape}, {}});
  std::shared_ptr<Executable> e = compile_stages(*program->executable(layouts));
  for (Launch& launch : e->launches) {
    if (launch.loop) make_parallel(*launch.loop);
  }
  return e;
}

// The same with these tiles in its only loop.
Executable with_tiles(const Executable& e, const std::optional<TimeTiles>& tiles) {
  Executable copy = e;
  for (Launch& launch : copy.launches) {
    if (launch.loop) launch.loop->tiles = tiles;
  }
  return copy;
}

const Launch* only_loop(const Executable& e) {
  for (const Launch& launch : e.launches) {
    if (launch.loop) return &launch;
  }
  return nullptr;
}

// What the step's iterations say of themselves.
std::optional<nest::IterationReach> reach_of(const StepLoop& loop) {
  const Executable& step = *loop.step;
  if (step.launches.size() != 1 || !step.launches[0].code) return std::nullopt;
  const std::vector<CallPlan::Argument>& arguments = step.call.arguments;
  std::optional<nest::BufferId> state, result;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].base != CallPlan::Argument::Base::given) continue;
    if (arguments[i].at == 0) state = nest::BufferId(i);
    if (arguments[i].at == step.inputs.size()) result = nest::BufferId(i);
  }
  if (!state || !result) return std::nullopt;
  return nest::iteration_reach(step.launches[0].nest, *state, *result);
}

std::vector<TimeTiles> tiles_for(const nest::IterationReach& reach, RandomSource& random) {
  std::vector<TimeTiles> all, some;
  for (int64_t block = 1; block <= reach.iterations; ++block) {
    for (int64_t trips = 2; trips <= 16; ++trips) {
      TimeTiles tiles{reach.iterations, reach.reach, block, trips};
      if (is_sound(tiles)) all.push_back(tiles);
    }
  }
  for (int i = 0; i < 4 && !all.empty(); ++i) {
    some.push_back(all[static_cast<size_t>(random.in(0, static_cast<int64_t>(all.size()) - 1))]);
  }
  return some;
}

// A stencil's state, with at least a row for each of some iterations.
RandomIteration large_iteration(RandomSource& random) {
  RandomIteration it = random_iteration(random);
  it.shape[0] = random.in(16, 90);
  if (it.shape.size() == 1) it.shape[0] *= 8;
  return it;
}

// How many tilings were tried.
int compare(uint64_t seed) {
  RandomSource random(seed);
  RandomIteration it = large_iteration(random);
  std::string text = it.text(random.in(5, 40));
  SCOPED_TRACE("seed " + std::to_string(seed) + ": " + text);
  std::vector<HostTensor> inputs = {integers(it.shape, 1), integers(it.shape, 2)};
  int threads = static_cast<int>(random.in(1, 4)), tried = 0;
  std::shared_ptr<const Executable> e = compiled_loop(text, inputs, threads);
  const Launch* loop = only_loop(*e);
  auto reach = loop == nullptr ? std::nullopt : reach_of(*loop->loop);
  if (!reach) return 0;
  HostTensor expected = run_code(with_tiles(*e, std::nullopt), inputs)[0];
  for (const TimeTiles& tiles : tiles_for(*reach, random)) {
    SCOPED_TRACE(print(tiles));
    if (!takes_tiles(*loop->loop, tiles)) continue;
    EXPECT_EQ(run_code(with_tiles(*e, tiles), inputs)[0].bytes, expected.bytes);
    ++tried;
  }
  return tried;
}

TEST(LoopTiles, ComputeWhatSingleTripsCompute) {
  int tried = 0;
  for (uint64_t seed : seeds(0, 150)) {
    tried += compare(seed);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(tried, 100);
}

constexpr const char* kHeat =
    "val f = fun(ArrayType(ArrayType(Float, M), N), x => Iterate(21, Map(Map(w => (At(1) o At(1) $ "
    "w) * 0.5f + ((At(0) o At(1) $ w) + (At(2) o At(1) $ w)) * 0.25f + (At(1) o At(0) $ w) - (At(1)"
    " o At(2) $ w))) o Slide2D(3, 1) o Pad2D(1, 1, Clamp)) $ x)";

// A loop of rows with the tiles that it takes, if any.
struct Heat {
  std::vector<HostTensor> inputs = {integers({96, 33}, 3)};
  std::shared_ptr<const Executable> plain = compiled_loop(kHeat, inputs, 2);
  std::optional<TimeTiles> tiles() const {
    const Launch* loop = only_loop(*plain);
    std::optional<nest::IterationReach> reach = reach_of(*loop->loop);
    if (!reach) return std::nullopt;
    RandomSource random(1);
    for (const TimeTiles& t : tiles_for(*reach, random)) {
      if (takes_tiles(*loop->loop, t)) return t;
    }
    return std::nullopt;
  }
};

TEST(LoopTiles, AreSavedAndRefusedWhereTheyDoNotFit) {
  Heat heat;
  std::optional<TimeTiles> tiles = heat.tiles();
  if (!tiles) GTEST_SKIP() << "the model makes no loop of rows here";
  HostTensor expected = run_code(with_tiles(*heat.plain, std::nullopt), heat.inputs)[0];
  auto loaded_with = [&](const TimeTiles& t) {
    std::vector<std::byte> bytes = saved_executable(with_tiles(*heat.plain, t));
    return loaded_executable(heat.plain->engine, bytes);
  };
  std::shared_ptr<const Executable> loaded = loaded_with(*tiles);
  ASSERT_EQ(only_loop(*loaded)->loop->tiles, tiles);
  EXPECT_EQ(run_code(*loaded, heat.inputs)[0].bytes, expected.bytes);
  TimeTiles more = *tiles, wide = *tiles;
  more.iterations *= 2;
  wide.reach = more.iterations;
  EXPECT_THROW(loaded_with(more), Failure) << "iterations that the code does not have";
  EXPECT_THROW(loaded_with(wide), Failure) << "numbers that mean nothing together";
}

TEST(LoopTiles, EndWhenTheyAreCancelled) {
  Heat heat;
  std::optional<TimeTiles> tiles = heat.tiles();
  if (!tiles) GTEST_SKIP() << "the model makes no loop of rows here";
  Executable tiled = with_tiles(*heat.plain, tiles);
  for (Launch& launch : tiled.launches) launch.loop->trips = 1'000'000'000;
  std::atomic<int> asked{0};
  CallControl control(Stage::run, [&] { return ++asked > 3; });
  RunOptions options;
  options.control = &control;
  HostTensor out(DType::f32, {96, 33});
  void* tensors[] = {heat.inputs[0].bytes.data(), out.bytes.data()};
  EXPECT_THROW(run_on_host(tiled, tensors, options), Failure);
}

}  // namespace
}  // namespace tile::test
