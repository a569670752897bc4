// Caches in memory are bounded in bytes together; what was unused for longest goes first, and
// nothing goes under its users.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "core/interpret/interpret.h"
#include "core/passes/bind/bind.h"
#include "runtime/engine/engine.h"
#include "tests/executors/run_backends.h"

namespace tile::test {
namespace {

// A cache of numbers.
class Numbers {
 public:
  explicit Numbers(MemoryBudget& budget) : budget_(budget) {}
  void put(int number, size_t bytes) {
    entries_.push_back(std::make_shared<Entry>(*this, number));
    budget_.add(*entries_.back(), bytes);
  }
  void use(int number) { (*at(number))->use(); }
  void drop(int number) {
    budget_.remove(**at(number));
    entries_.erase(at(number));
  }
  std::vector<int> all() const {
    std::vector<int> numbers;
    for (const auto& e : entries_) numbers.push_back(e->number);
    return numbers;
  }

 private:
  struct Entry : MemoryBudget::Item {
    Entry(Numbers& own, int n) : parallel_dim(own), number(n) {}
    std::shared_ptr<Item> evicted() noexcept override {
      auto at = parallel_dim.at(number);
      std::shared_ptr<Item> out = std::move(*at);
      parallel_dim.entries_.erase(at);
      return out;
    }
    Numbers& parallel_dim;
    int number;
  };
  std::vector<std::shared_ptr<Entry>>::iterator at(int number) {
    return std::find_if(entries_.begin(), entries_.end(),
                        [&](const auto& e) { return e && e->number == number; });
  }
  MemoryBudget& budget_;
  std::vector<std::shared_ptr<Entry>> entries_;
};

TEST(MemoryBudget, WhatIsUnusedForLongestGoes) {
  MemoryBudget budget(30);
  Numbers numbers(budget);
  for (int i = 0; i < 3; ++i) numbers.put(i, 10);
  EXPECT_EQ(budget.bytes(), 30U);
  numbers.use(0);
  numbers.put(3, 10);
  EXPECT_EQ(numbers.all(), (std::vector<int>{0, 2, 3})) << "0 was used";
  numbers.put(4, 10);
  EXPECT_EQ(numbers.all(), (std::vector<int>{0, 3, 4})) << "0 came after 2 then";
  EXPECT_EQ(budget.evictions(), 2U);
  numbers.drop(3);
  EXPECT_EQ(budget.bytes(), 20U);
}

TEST(MemoryBudget, AnEntryLargerThanAllStaysAlone) {
  MemoryBudget budget(30);
  Numbers numbers(budget);
  numbers.put(0, 10);
  numbers.use(0);
  numbers.put(1, 100);
  EXPECT_EQ(numbers.all(), std::vector<int>{1}) << "used or not: there is no room";
  numbers.put(2, 10);
  EXPECT_EQ(numbers.all(), std::vector<int>{2});
}

constexpr const char* kText =
    "function (X[M, N]) -> (P) { S[m, 0: M, 1] = +(X[m, n]); P = X * S + 3; }";

// An engine that keeps nothing but what it made last.
std::shared_ptr<Engine> forgetful(size_t bytes = 1) {
  EngineOptions options;
  options.backend = "cpu";
  options.cache_mode = "off";
  options.threads = 1;
  options.memory_cache_limit = bytes;
  return Engine::create(std::move(options));
}

bool is_right(const Executable& e, const HostTensor& x) {
  return run_code(e, {x})[0].bytes ==
         interpret(bind(*e.source, {{x.type, x.shape}}), {x}).outputs[0].bytes;
}
std::vector<TensorView> view(HostTensor& x) { return {{x.bytes.data(), x.type, x.shape, {}}}; }

TEST(MemoryBudget, WhatHasAUserStaysWhole) {
  std::shared_ptr<Engine> engine = forgetful();
  std::shared_ptr<LoadedProgram> program = loaded(engine, kText);
  HostTensor x = integers({7, 9}, 1), y = integers({8, 10}, 2);
  std::shared_ptr<LiveExecutable> held = program->live(view(x));
  std::weak_ptr<const Executable> forgotten = program->live(view(y))->snapshot();
  ASSERT_FALSE(forgotten.expired());
  EXPECT_NE(program->live(view(x)), held) << "it went from the cache";
  reclaim();
  EXPECT_TRUE(forgotten.expired());
  EXPECT_TRUE(is_right(*held->snapshot(), x));
  EXPECT_GT(engine->budget().evictions(), 0U);
  // Code in use is found again all the same.
  uint64_t compiled = engine->kernels().compiled;
  program->executable(view(y));
  program->live(view(x));
  EXPECT_LE(engine->kernels().compiled, compiled + 1) << "only that of y was no longer there";
}

TEST(MemoryBudget, ProgramsThatGoTakeTheirExecutablesAlong) {
  std::shared_ptr<Engine> engine = forgetful(size_t{1} << 30);
  HostTensor x = integers({7, 9}, 1);
  loaded(engine, kText)->executable(view(x));
  size_t kernel_alone = engine->budget().bytes();
  std::weak_ptr<Engine> gone = engine;
  for (int i = 0; i < 20; ++i) loaded(engine, kText)->executable(view(x));
  EXPECT_EQ(engine->budget().bytes(), kernel_alone);
  engine.reset();
  reclaim();
  EXPECT_TRUE(gone.expired()) << "no executable in a cache keeps its engine";
}

TEST(MemoryBudget, WhatCannotBeCompiledCountsToo) {
  std::shared_ptr<Engine> engine = forgetful(20'000);
  std::shared_ptr<LoadedProgram> program = loaded(engine, kText);
  for (int64_t i = 1; i < 200; ++i) {
    InputLayout wrong{{DType::f32, {i, 2, 3}}, {}};
    EXPECT_THROW(program->executable({wrong}), Failure);
  }
  EXPECT_GT(engine->budget().evictions(), 0U);
  EXPECT_LE(engine->budget().bytes(), 20'000U);
}

// Runs find executables without a lock while others evict them.
TEST(MemoryBudget, ThreadsThatEvictEachOthers) {
  constexpr int kThreads = 4, kRounds = 60;
  std::shared_ptr<Engine> engine = forgetful(40'000);
  std::shared_ptr<LoadedProgram> program = loaded(engine, kText);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) {
        HostTensor x = integers({1 + (t + i) % 5, 4 + i % 3}, i);
        std::shared_ptr<const Executable> e = program->executable(view(x));
        if (!is_right(*e, x)) ++wrong;
        // As a call site does.
        ReadSection section;
        const Executable* last = program->last();
        if (last != nullptr && last->inputs.size() != 1) ++wrong;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(engine->budget().evictions(), 0U);
}

}  // namespace
}  // namespace tile::test
