// Executable records: a warm process runs what a cold one compiled, without its middle end; any
// fault of a record is a miss.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "runtime/engine/cache/disk_cache.h"
#include "runtime/engine/cache/executable_record.h"
#include "runtime/engine/inspect/profile.h"
#include "tests/cache/cache_directory.h"
#include "tests/executors/run_backends.h"

namespace tile::test {
namespace {

namespace fs = std::filesystem;

class Records : public CacheDirectory {
 protected:
  std::shared_ptr<Engine> engine(const std::string& mode = "rw", size_t memory_limit = 0) {
    EngineOptions options;
    options.backend = "cpu";
    options.cache_dir = directory_ + "/cache";
    options.cache_mode = mode;
    options.memory_limit = memory_limit;
    options.log = [this](LogLevel, const std::string& line) { note(line); };
    return Engine::create(std::move(options));
  }
  static std::shared_ptr<const Executable> product(const std::shared_ptr<Engine>& engine) {
    std::vector<InputLayout> layouts{{{DType::f32, {40, 50}}, {}}, {{DType::f32, {50, 60}}, {}}};
    return loaded(engine, kProduct)->executable(layouts);
  }
  static std::string key_of(const Executable& e) {
    return record_key(*e.engine, *e.source, e.inputs);
  }
  DiskCache disk() {
    CacheOptions options;
    options.directory = directory_ + "/cache";
    return DiskCache(options);
  }

  static constexpr const char* kProduct =
      "function (A[M, L], B[L, N]) -> (O) { P[i, j: M, N] = +(A[i, k] * B[k, j]); O = relu(P); }";
};

// Whole-tensor functions, sorts and literals among them.
TEST_F(Records, RandomProgramsRunFromTheirRecords) {
  size_t restored = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    RandomCase drawn = random_case(seed);
    SCOPED_TRACE(drawn.text);
    std::shared_ptr<Engine> cold = engine(), warm = engine();
    std::shared_ptr<const Executable> first = compiled(cold, drawn), second = compiled(warm, drawn);
    EXPECT_FALSE(first->restored);
    EXPECT_TRUE(second->restored);
    EXPECT_EQ(warm->statistics.binds, 0U);
    EXPECT_EQ(warm->kernels().compiled, 0U);
    auto expected = run_code(*first, drawn.inputs), got = run_code(*second, drawn.inputs);
    for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i].bytes, expected[i].bytes);
    restored += second->restored ? 1 : 0;
  }
  EXPECT_EQ(restored, 40U);
  EXPECT_TRUE(lines_.empty());
}

TEST_F(Records, StridedInputsAndClassesOfSizes) {
  const char* text = "function (X[B, K], W[K, N]) -> (O) { O[b, n: B, N] = +(X[b, k] * W[k, n]); }";
  std::map<Engine*, std::shared_ptr<LoadedProgram>> programs;
  auto executable = [&](const std::shared_ptr<Engine>& engine, int64_t batch,
                        std::vector<int64_t> strides) {
    std::shared_ptr<LoadedProgram>& program = programs[engine.get()];
    if (!program) program = loaded(engine, text);
    std::vector<InputLayout> layouts{{{DType::f32, {batch, 700}}, std::move(strides)},
                                     {{DType::f32, {700, 300}}, {}}};
    return program->executable(layouts);
  };
  std::shared_ptr<Engine> cold = engine();
  // The first has code of its own.
  for (int64_t batch : {19, 20, 21}) executable(cold, batch, {});
  executable(cold, 20, {1400, 2});
  std::shared_ptr<Engine> warm = engine();
  EXPECT_EQ(executable(warm, 21, {})->launches[0].parameters, std::vector<int64_t>{21});
  EXPECT_EQ(executable(warm, 20, {})->launches[0].parameters, std::vector<int64_t>{20});
  EXPECT_TRUE(executable(warm, 20, {1400, 2})->restored);
  EXPECT_EQ(warm->kernels().disk_hits, 2U) << "one kernel for both batches";
  EXPECT_EQ(warm->statistics.binds, 0U);
  EXPECT_FALSE(executable(warm, 22, {})->restored);
}

// Of a constant the record has no elements: copies are made when it is loaded.
TEST_F(Records, ConstantInputs) {
  const char* text = "function (X[B, K], W[N, K]) -> (O) { O[b, n: B, N] = +(X[b, k] * W[n, k]); }";
  HostTensor x = integers({64, 300}, 1), w = integers({200, 300}, 2);
  auto executable = [&](const std::shared_ptr<Engine>& engine, bool constant) {
    std::vector<TensorView> views{{x.bytes.data(), x.type, x.shape, {}},
                                  {w.bytes.data(), w.type, w.shape, {}}};
    std::vector<size_t> numbers(constant ? 1 : 0, 1);
    return loaded(engine, text)->executable(std::span<const TensorView>(views), numbers);
  };
  std::shared_ptr<const Executable> cold = executable(engine(), true);
  EXPECT_FALSE(cold->restored);
  ASSERT_FALSE(cold->launches[0].prepared.empty());
  EXPECT_FALSE(executable(engine(), false)->restored) << "another record";
  w = integers({200, 300}, 3);
  std::shared_ptr<Engine> warm = engine();
  std::shared_ptr<const Executable> restored = executable(warm, true);
  EXPECT_TRUE(restored->restored);
  EXPECT_EQ(warm->kernels().compiled, 0U);
  std::vector<HostTensor> inputs{x, w};
  std::vector<HostTensor> expected = interpret(cold->bound, inputs).outputs;
  EXPECT_EQ(run_code(*restored, inputs)[0].bytes, expected[0].bytes);
  EXPECT_EQ(emit(*restored, "nest"), emit(*cold, "nest"));
  restored = tuned(*restored, 1);
  EXPECT_EQ(run_code(*restored, inputs)[0].bytes, expected[0].bytes);
}

TEST_F(Records, StagesAreMadeAgainWhenAskedFor) {
  std::shared_ptr<const Executable> full = product(engine());
  std::shared_ptr<Engine> warm = engine();
  std::shared_ptr<const Executable> restored = product(warm);
  ASSERT_TRUE(restored->restored);
  for (const char* stage : {"bound", "kernels", "schedule", "nest", "asm"}) {
    EXPECT_EQ(emit(*restored, stage), emit(*full, stage)) << stage;
  }
  EXPECT_EQ(explain(*restored), explain(*full));
  EXPECT_EQ(profile(*restored, {100.0})[0].work.operations,
            profile(*full, {100.0})[0].work.operations);
  restored = tuned(*restored, 1);
  EXPECT_FALSE(restored->restored);
  EXPECT_FALSE(product(engine())->restored) << "tuning found another schedule meanwhile";
  EXPECT_TRUE(product(engine())->restored);
}

// Whatever is in the record, whole by its checksum: a miss and one line at most.
TEST_F(Records, FaultsAreMisses) {
  std::shared_ptr<const Executable> full = product(engine());
  std::string key = key_of(*full);
  std::optional<std::vector<std::byte>> good = disk().read(key);
  ASSERT_TRUE(good);
  auto expect_miss = [&](const std::vector<std::byte>& bytes, const std::string& what) {
    disk().write(key, bytes);
    lines_.clear();
    Executable e;
    e.engine = engine();
    e.source = full->source;
    e.inputs = full->inputs;
    EXPECT_FALSE(load_record(e, key)) << what;
    EXPECT_EQ(lines_.size(), 1U) << what;
    EXPECT_TRUE(e.launches.empty());
  };
  for (size_t size = 0; size < good->size(); size += size < 400 ? 1 : 97) {
    expect_miss({good->begin(), good->begin() + static_cast<std::ptrdiff_t>(size)},
                "cut to " + std::to_string(size));
  }
  std::vector<std::byte> other = *good;
  other[0] = std::byte{0};
  expect_miss(other, "an older format");
  other = *good;
  other.push_back(std::byte{1});
  expect_miss(other, "something behind the end");
  // Numbers turned into others: whatever loads has the shape of an executable.
  for (size_t at = 8; at + 8 < good->size(); at += 8) {
    other = *good;
    other[at + 7] = std::byte{0x7f};
    disk().write(key, other);
    Executable e;
    e.engine = full->engine;
    e.source = full->source;
    e.inputs = full->inputs;
    load_record(e, key);
  }
  disk().write(key, *good);
  EXPECT_TRUE(product(engine())->restored);
}

// Launches that do not hold together, in a record that is whole: what verifies a plan when it is
// made verifies it when it is read.
TEST_F(Records, LaunchesAreVerified) {
  const char* text =
      "function (A[N]) -> (O, Q) { S = argsort(A, 0); G = gather(A, S); Q = reshape(G, 8, 8); "
      "E = exp(G); O = sort(E, 0); }";
  std::vector<InputLayout> layouts{{{DType::f32, {64}}, {}}};
  std::shared_ptr<const Executable> full = loaded(engine(), text)->executable(layouts);
  ASSERT_TRUE(loaded(engine(), text)->executable(layouts)->restored);
  ASSERT_GE(full->launches.size(), 4U);
  auto expect = [&](bool usable, const std::function<void(Executable&)>& change, const char* what) {
    Executable changed = *full;
    change(changed);
    disk().write(key_of(*full), packed_record(changed));
    lines_.clear();
    EXPECT_EQ(loaded(engine(), text)->executable(layouts)->restored, usable) << what;
    EXPECT_EQ(lines_.size(), usable ? 0U : 1U) << what;
  };
  auto in_arena = [](Executable& e) {
    std::vector<Place*> places;
    for (size_t id = 0; id < e.places.size(); ++id) {
      bool own = e.places[id].kind == Place::Kind::arena && !e.program.tensors[id].view_of;
      if (own) places.push_back(&e.places[id]);
    }
    return places;
  };
  expect(true, [](Executable&) {}, "as it was");
  expect(false, [](Executable& e) { std::swap(e.launches[0], e.launches[1]); }, "another order");
  expect(false, [](Executable& e) { e.launches.pop_back(); }, "a result that nothing makes");
  expect(false, [](Executable& e) { e.launches[1].arguments.pop_back(); }, "arguments too few");
  expect(false, [](Executable& e) { e.launches[1].parameters = {7}; }, "parameters of no code");
  expect(false, [&](Executable& e) { in_arena(e)[0]->at = in_arena(e)[1]->at; }, "shared memory");
  expect(
      false,
      [](Executable& e) { std::swap(e.launches[0].sort->source, e.launches[0].sort->result); },
      "a sort the other way");
  expect(
      false,
      [](Executable& e) {
        TensorId made = e.launches[0].arguments[1];
        e.program.tensors.edit(made).view_of = made;
      },
      "a view of itself");
}

TEST_F(Records, MissingKernelsAreCompiled) {
  std::shared_ptr<const Executable> full = product(engine());
  std::string path;
  for (const auto& entry : fs::directory_iterator(directory_ + "/cache")) {
    std::ifstream in(entry.path(), std::ios::binary);
    std::string text((std::istreambuf_iterator<char>(in)), {});
    if (text.find("executable ") == std::string::npos) fs::remove(entry.path());
  }
  std::shared_ptr<Engine> warm = engine();
  EXPECT_FALSE(product(warm)->restored);
  EXPECT_EQ(warm->kernels().compiled, full->launches.size());
}

TEST_F(Records, VerifyCompares) {
  std::shared_ptr<const Executable> full = product(engine());
  EXPECT_FALSE(product(engine("verify"))->restored);
  std::string key = key_of(*full);
  std::vector<std::byte> other = *disk().read(key);
  other.back() ^= std::byte{1};
  disk().write(key, other);
  EXPECT_THROW(product(engine("verify")), InternalError);
}

TEST_F(Records, MemoryLimitsHold) {
  const char* text =
      "function (A[N]) -> (O) { S = argsort(A, 0); G = gather(A, S); O = sort(exp(G), 0); }";
  std::vector<InputLayout> layouts{{{DType::f32, {1000}}, {}}};
  loaded(engine(), text)->executable(layouts);
  EXPECT_THROW(loaded(engine("rw", 100), text)->executable(layouts), Failure);
}

TEST_F(Records, WritersAtOnce) {
  std::vector<std::jthread> writers;
  for (int t = 0; t < 4; ++t) {
    writers.emplace_back([&] {
      EngineOptions options;
      options.backend = "cpu";
      options.cache_dir = directory_ + "/cache";
      options.cache_mode = "rw";
      for (int i = 0; i < 5; ++i) product(Engine::create(options));
    });
  }
  writers.clear();
  EXPECT_TRUE(product(engine())->restored);
  EXPECT_TRUE(lines_.empty());
}

}  // namespace
}  // namespace tile::test
