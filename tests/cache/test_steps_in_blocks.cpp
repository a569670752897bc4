// Steps in blocks of space and time compute, bit for bit, what they compute step by step: random
// steps of both languages, blocks of all sizes that fit, one to seven threads, memory between
// guards, and records.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <thread>

#include "core/language/lift/lift.h"
#include "runtime/engine/cache/saved_executable.h"
#include "runtime/engine/concurrency/call_control.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/launch/host_run.h"
#include "runtime/engine/steps/known_blocks.h"
#include "runtime/engine/steps/time_steps.h"
#include "runtime/engine/steps/trips.h"
#include "tests/executors/guarded_memory.h"
#include "tests/executors/run_backends.h"
#include "tests/random/random_iteration.h"
#include "tests/random/sweep.h"

namespace tile::test {
namespace {

std::shared_ptr<const Executable> compiled_step(const std::string& text, bool lift,
                                                const std::vector<HostTensor>& inputs,
                                                int threads) {
  std::shared_ptr<Engine> engine = test_engine("cpu", "", threads);
  auto source = std::make_shared<const Source>(Source{"step.lift", text});
  auto program =
      lift ? std::make_shared<LoadedProgram>(engine, std::make_shared<Program>(parse_lift(source)))
           : loaded(engine, text);
  std::vector<InputLayout> layouts;
  for (const HostTensor& t : inputs) layouts.push_back({{t.type, t.shape}, {}});
  return compile_stages(*program->executable(layouts));
}

// Some tiles of these dimensions, of several blocks.
std::vector<TimeTiles> random_tiles(std::vector<TiledDimension> dimensions, int64_t turns,
                                    RandomSource& random) {
  std::vector<TimeTiles> some;
  for (int i = 0; i < 40 && some.size() < 4; ++i) {
    TimeTiles tiles{dimensions, turns * random.in(1, 8)};
    for (TiledDimension& d : tiles.dimensions) {
      d.blocks = random.in(1, std::min<int64_t>(d.iterations, 9));
    }
    if (is_sound(tiles) && tiles.pieces(0) > 1) some.push_back(std::move(tiles));
  }
  return some;
}

// The tensors of a loop over a step, each between pages that nobody may touch.
class LoopMemory {
 public:
  LoopMemory(const Executable& step, const std::vector<HostTensor>& inputs,
             std::span<const Feed> feeds, std::byte poison)
      : step_(step), feeds_(feeds), poison_(poison) {
    for (const HostTensor& t : inputs) {
      std::memcpy(add(t.bytes.size()), t.bytes.data(), t.bytes.size());
      memory_.back()->make_read_only();
    }
    for (size_t o = 0; o < step.bound.outputs.size(); ++o) add(bytes_of(o));
    spare_.assign(step.bound.outputs.size(), nullptr);
    for (const Feed& feed : feeds) {
      if (spare_[feed.output] != nullptr) continue;
      memory_.push_back(guarded(bytes_of(feed.output)));
      spare_[feed.output] = memory_.back()->data();
    }
    arena_ = guarded(step.arena_bytes + step.workspace_bytes);
  }

  std::vector<GivenInTime> given(int64_t trips) const {
    return given_in_time(tensors_, step_.inputs.size(), feeds_, spare_, trips);
  }
  std::byte* arena() const { return arena_->data(); }
  std::vector<std::vector<std::byte>> outputs() const {
    std::vector<std::vector<std::byte>> all;
    for (size_t o = 0; o < step_.bound.outputs.size(); ++o) {
      const auto* first = static_cast<const std::byte*>(tensors_[step_.inputs.size() + o]);
      all.emplace_back(first, first + bytes_of(o));
    }
    return all;
  }

 private:
  size_t bytes_of(size_t output) const {
    const BoundTensor& t = step_.output(output);
    return static_cast<size_t>(element_count(t.shape)) * byte_size(t.type);
  }
  std::unique_ptr<GuardedMemory> guarded(size_t bytes) const {
    return std::make_unique<GuardedMemory>("tensor", std::max<size_t>(1, bytes), Edge::end, poison_,
                                           64);
  }
  void* add(size_t bytes) {
    memory_.push_back(guarded(bytes));
    tensors_.push_back(memory_.back()->data());
    return tensors_.back();
  }

  const Executable& step_;
  std::span<const Feed> feeds_;
  std::byte poison_;
  std::vector<std::unique_ptr<GuardedMemory>> memory_;
  std::unique_ptr<GuardedMemory> arena_;
  std::vector<void*> tensors_, spare_;
};

struct Case {
  std::string text;
  bool lift = true;
  std::vector<HostTensor> inputs;
  std::vector<Feed> feeds = {{0, 0}};
  int64_t trips = 1;
  int threads = 1;
};

using Outputs = std::vector<std::vector<std::byte>>;

Outputs step_by_step(const Case& c, const Executable& step) {
  LoopMemory memory(step, c.inputs, c.feeds, std::byte{0x5a});
  std::vector<GivenInTime> given = memory.given(c.trips);
  RunOptions options;
  options.memory = memory.arena();
  for (int64_t trip = 0; trip < c.trips; ++trip) {
    std::vector<void*> tensors;
    for (const GivenInTime& g : given) tensors.push_back(g.at(trip));
    run_on_host(step, tensors.data(), options);
  }
  return memory.outputs();
}

Outputs in_blocks(const Case& c, const Executable& step, const StepsInBlocks& blocks,
                  const TimeTiles& tiles, std::byte poison) {
  LoopMemory memory(step, c.inputs, c.feeds, poison);
  std::vector<GivenInTime> given = memory.given(c.trips);
  Trips loop{step, blocks, given, memory.arena(), nullptr, {}};
  int64_t most = tiles.turns / blocks.turns;
  for (int64_t first = 0; first < c.trips; first += most) {
    run_in_blocks(loop, tiles, first, std::min(most, c.trips - first));
  }
  return memory.outputs();
}

// How many tilings were tried.
int compare(const Case& c, RandomSource& random) {
  std::shared_ptr<const Executable> step = compiled_step(c.text, c.lift, c.inputs, c.threads);
  auto choose = [&](const std::vector<TiledDimension>& dimensions, int64_t turns) {
    return random_tiles(dimensions, turns, random);
  };
  auto blocks = steps_in_blocks(*step, c.feeds, choose);
  if (!blocks) return 0;
  Outputs expected = step_by_step(c, *step);
  for (const TimeTiles& tiles : blocks->tiles) {
    SCOPED_TRACE(print(tiles, blocks->turns));
    EXPECT_EQ(in_blocks(c, *step, *blocks, tiles, std::byte{0x5a}), expected);
    EXPECT_EQ(in_blocks(c, *step, *blocks, tiles, std::byte{0xff}), expected);
    EXPECT_EQ(touches(), "");
  }
  return static_cast<int>(blocks->tiles.size());
}

// A stencil's state, with at least a row for each of some iterations.
RandomIteration large_iteration(RandomSource& random) {
  RandomIteration it = random_iteration(random);
  bool line = it.shape.size() == 1;
  it.shape[0] = random.in(8, 60) * (line ? 64 : 1);
  if (it.shape.size() > 1) it.shape[1] = random.in(1, 40);
  if (it.shape.size() > 2) it.shape[2] = random.in(1, 20);
  return it;
}

TEST(StepsInBlocks, ComputeWhatRandomLiftStepsCompute) {
  int tried = 0, cases = 0;
  for (uint64_t seed : sweep(0, 120, 50)) {
    RandomSource random(seed);
    RandomIteration it = large_iteration(random);
    Case c{it.text(1), true, {integers(it.shape, 1), integers(it.shape, 2)}};
    c.trips = random.in(2, 40);
    c.threads = static_cast<int>(random.in(1, 7));
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + c.text);
    tried += compare(c, random);
    ++cases;
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(tried, 2 * cases) << "most stencils take blocks";
}

struct TileStep {
  const char* text;
  std::vector<Shape> shapes;
  std::vector<Feed> feeds;
  bool takes_blocks = true;
};
const TileStep kTileSteps[] = {
    // Two states, which read each other.
    {"function (U[N, M], V[N, M]) -> (A, B) {\n"
     "  P[i, j: N, M] = +(V[i + k, j]), k < 2;\n  Q[i, j: N, M] = +(U[i, j + k - 1]), k < 3;\n"
     "  A = U * 0.5 + P * 0.25;\n  B = V * 0.5 - Q * 0.25;\n}\n",
     {{37, 29}, {37, 29}},
     {{0, 0}, {1, 1}}},
    // They change places.
    {"function (U[N, M], V[N, M]) -> (A, B) {\n"
     "  P[i, j: N, M] = +(V[i + k - 2, j]), k < 4;\n"
     "  A = U * 0.5 + P * 0.25;\n  B = V * 0.5 - U * 0.25;\n}\n",
     {{40, 24}, {40, 24}},
     {{0, 1}, {1, 0}}},
    // The second kernel reads what the first one has made of this step.
    {"function (E[N, M], H[N, M]) -> (P, Q) {\n"
     "  C[i, j: N, M] = +(H[i + k - 1, j]), k < 2;\n  P = E + H * 0.5 - C * 0.25;\n"
     "  D[i, j: N, M] = +(P[i + k, j + l - 1]), k < 2, l < 3;\n  Q = H + P * 0.125 - D * 0.5;\n}\n",
     {{45, 31}, {45, 31}},
     {{0, 0}, {1, 1}}},
    // A sum over a window that ends at the border, and an array that stays.
    {"function (U[N, M], C[N, M]) -> (O) {\n"
     "  S[i, j: N, M] = +(U[i + k - 1, j] * 0.25), k < 3;\n  O = S * C + U * 0.4;\n}\n",
     {{50, 33}, {50, 33}},
     {{0, 0}}},
    // Three dimensions.
    {"function (U[N, M, K]) -> (O) {\n"
     "  S[i, j, k: N, M, K] = +(U[i + a - 1, j + b - 1, k + c - 1]), a < 3, b < 3, c < 3;\n"
     "  O = S * 0.03125 + U * 0.125;\n}\n",
     {{19, 23, 17}},
     {{0, 0}}},
    // Every cell reads every other one.
    {"function (U[N, M]) -> (O) { S[] = +(U[i, j]); O = U * 0.5 + S * 0.01; }",
     {{40, 24}},
     {{0, 0}},
     false},
    {"function (U[N, N]) -> (O) { O[i, j: N, N] = +(U[i, k] * U[k, j]); }",
     {{24, 24}},
     {{0, 0}},
     false},
    // An output that passes an input on.
    {"function (U[N], V[N]) -> (A, B) { A = U * 0.5 - V; B = U; }",
     {{4096}, {4096}},
     {{0, 0}, {1, 1}}},
};

TEST(StepsInBlocks, ComputeWhatTileStepsCompute) {
  for (const TileStep& step : kTileSteps) {
    SCOPED_TRACE(step.text);
    int tried = 0;
    for (int threads : {1, 2, 3, 5, 7}) {
      RandomSource random(static_cast<uint64_t>(threads));
      Case c{step.text, false, {}, step.feeds, 3 * threads + 2, threads};
      for (const Shape& shape : step.shapes) {
        c.inputs.push_back(integers(shape, static_cast<int64_t>(c.inputs.size()) + 1));
      }
      tried += compare(c, random);
      if (HasFailure()) return;
    }
    EXPECT_EQ(tried > 0, step.takes_blocks);
  }
}

std::vector<HostTensor> after_steps(const Executable& e, std::vector<HostTensor> inputs,
                                    std::span<const Feed> feeds, uint64_t steps) {
  std::vector<HostTensor> outputs;
  for (size_t o = 0; o < e.bound.outputs.size(); ++o) {
    outputs.emplace_back(e.output(o).type, e.output(o).shape);
  }
  run_steps(e, views_of(inputs), views_of(outputs), feeds, steps);
  return outputs;
}

// The same bits, but of a NaN, which is one whatever its bits are: some states grow without end.
bool same(const HostTensor& a, const HostTensor& b) {
  for (int64_t i = 0; i < a.count(); ++i) {
    double x = a.at(i).f, y = b.at(i).f;
    bool equal = x == y && std::signbit(x) == std::signbit(y);
    if (!equal && !(std::isnan(x) && std::isnan(y))) return false;
  }
  return true;
}

// An executable as users get it, with blocks for its steps whatever the model says of them.
std::shared_ptr<const Executable> with_blocks(const TileStep& step,
                                              const std::vector<HostTensor>& inputs) {
  std::vector<InputLayout> layouts;
  for (const HostTensor& t : inputs) layouts.push_back({{t.type, t.shape}, {}});
  auto e = loaded(test_engine("cpu", "", 3), step.text)->executable(layouts);
  RandomSource random(7);
  auto choose = [&](const std::vector<TiledDimension>& dimensions, int64_t turns) {
    return random_tiles(dimensions, turns, random);
  };
  KnownBlocks::Feeds pairs;
  for (const Feed& feed : step.feeds) pairs.emplace_back(feed.output, feed.input);
  e->in_blocks->keep(pairs, steps_in_blocks(*e, step.feeds, choose));
  return e;
}

// Runs of steps race their blocks, and give what runs one by one give.
TEST(StepsInBlocks, ComputeWhatRunsOfStepsCompute) {
  for (const TileStep& step : kTileSteps) {
    if (!step.takes_blocks) continue;
    SCOPED_TRACE(step.text);
    std::vector<HostTensor> inputs;
    for (const Shape& shape : step.shapes) {
      inputs.push_back(integers(shape, static_cast<int64_t>(inputs.size()) + 1));
    }
    std::shared_ptr<const Executable> e = with_blocks(step, inputs);
    bool known = false;
    auto blocks = known_blocks(*e, step.feeds, known);
    ASSERT_NE(blocks, nullptr);
    for (uint64_t steps : {1, 2, 5, 64, 301, 2000}) {
      std::vector<HostTensor> got = after_steps(*e, inputs, step.feeds, steps), expected = inputs;
      for (uint64_t i = 0; i < steps; ++i) {
        std::vector<HostTensor> last = after_steps(*e, expected, step.feeds, 1);
        for (const Feed& feed : step.feeds) expected[feed.input] = last[feed.output];
      }
      for (const Feed& feed : step.feeds) {
        EXPECT_TRUE(same(got[feed.output], expected[feed.input])) << steps << " steps";
      }
    }
    EXPECT_TRUE(blocks->race->verdict().has_value()) << "blocks took part in a race";
  }
}

constexpr const char* kHeat =
    "val f = fun(ArrayType(ArrayType(Float, M), N), x => Iterate(90, Map(Map(w => (At(1) o At(1) $ "
    "w) * 0.5f + ((At(0) o At(1) $ w) + (At(2) o At(1) $ w)) * 0.25f + (At(1) o At(0) $ w) - (At(1)"
    " o At(2) $ w))) o Slide2D(3, 1) o Pad2D(1, 1, Clamp)) $ x)";

// A loop of rows, which is run in blocks of four trips as well.
struct Heat {
  std::vector<HostTensor> inputs = {integers({96, 33}, 3)};
  std::shared_ptr<const Executable> plain;
  Executable blocked;

  Heat() : plain(compiled_step(kHeat, true, inputs, 2)), blocked(*plain) {
    const Feed state{0, 0};
    for (Launch& launch : blocked.launches) {
      if (!launch.loop) continue;
      launch.loop->blocks = steps_in_blocks(*launch.loop->step, {&state, 1},
                                            [](std::vector<TiledDimension> dimensions, int64_t) {
                                              for (TiledDimension& d : dimensions)
                                                d.blocks = std::min<int64_t>(d.iterations, 4);
                                              return std::vector<TimeTiles>{{dimensions, 4}};
                                            });
    }
  }
};

const StepsInBlocks* blocks_in(const Executable& e) {
  for (const Launch& launch : e.launches) {
    if (launch.loop) return launch.loop->blocks.get();
  }
  return nullptr;
}

TEST(StepsInBlocks, AreSavedAndRefusedWhereTheyDoNotFit) {
  Heat heat;
  const StepsInBlocks* blocks = blocks_in(heat.blocked);
  ASSERT_NE(blocks, nullptr);
  HostTensor expected = run_code(*heat.plain, heat.inputs)[0];
  EXPECT_EQ(run_code(heat.blocked, heat.inputs)[0].bytes, expected.bytes);
  std::vector<std::byte> bytes = saved_executable(heat.blocked);
  std::shared_ptr<const Executable> loaded = loaded_executable(heat.plain->engine, bytes);
  ASSERT_NE(blocks_in(*loaded), nullptr);
  EXPECT_EQ(blocks_in(*loaded)->tiles, blocks->tiles);
  EXPECT_EQ(run_code(*loaded, heat.inputs)[0].bytes, expected.bytes);
  auto refused = [&](const std::function<void(StepsInBlocks&)>& change) {
    auto other = std::make_shared<StepsInBlocks>(*blocks);
    change(*other);
    Executable e = heat.blocked;
    for (Launch& launch : e.launches) {
      if (launch.loop) launch.loop->blocks = other;
    }
    std::vector<std::byte> wrong = saved_executable(e);
    EXPECT_THROW(loaded_executable(heat.plain->engine, wrong), Failure);
  };
  refused([](StepsInBlocks& b) { b.tiles[0].dimensions[0].iterations *= 2; });
  refused([](StepsInBlocks& b) { b.tiles[0].dimensions[0].reach = INT64_MAX; });
  refused([](StepsInBlocks& b) { b.tiles[0].turns = 1'000; });
  refused([](StepsInBlocks& b) { b.tiles.clear(); });
  refused([](StepsInBlocks& b) { b.turns = 0; });
  refused([](StepsInBlocks& b) { b.launches[0].turn = 3; });
  refused([](StepsInBlocks& b) { b.launches.clear(); });
}

TEST(StepsInBlocks, RunAtATimeAndAgain) {
  Heat heat;
  HostTensor expected = run_code(*heat.plain, heat.inputs)[0];
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        HostTensor out(DType::f32, {96, 33});
        void* tensors[] = {heat.inputs[0].bytes.data(), out.bytes.data()};
        run_on_host(heat.blocked, tensors, {});
        wrong += out.bytes == expected.bytes ? 0 : 1;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(blocks_in(heat.blocked)->race->verdict().has_value());
}

TEST(StepsInBlocks, EndWhenTheyAreCancelled) {
  Heat heat;
  for (Launch& launch : heat.blocked.launches) launch.loop->trips = 1'000'000'000;
  for (int often : {0, 3, 40, 700}) {
    std::atomic<int> asked{0};
    CallControl control(Stage::run, [&] { return ++asked > often; });
    RunOptions options;
    options.control = &control;
    HostTensor out(DType::f32, {96, 33});
    void* tensors[] = {heat.inputs[0].bytes.data(), out.bytes.data()};
    EXPECT_THROW(run_on_host(heat.blocked, tensors, options), Failure);
  }
  // One group of trips in blocks, whatever way a race finds.
  const Launch& launch = heat.blocked.launches.at(0);
  const StepsInBlocks& blocks = *launch.loop->blocks;
  CallControl control(Stage::run, [] { return true; });
  HostTensor in = heat.inputs[0], out = in;
  std::vector<GivenInTime> given(2);
  given[0] = {in.bytes.data(), {out.bytes.data(), in.bytes.data()}};
  given[1] = {out.bytes.data(), {out.bytes.data(), in.bytes.data()}};
  Trips loop{*launch.loop->step, blocks, given, nullptr, &control, {}};
  EXPECT_THROW(run_in_blocks(loop, blocks.tiles[0], 0, 4), Failure);
}

}  // namespace
}  // namespace tile::test
