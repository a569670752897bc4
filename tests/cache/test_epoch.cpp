// What runs read without a lock is freed once no run is left that may read it, and no sooner:
// executables that tuning replaces while others run them.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "runtime/engine/live_executable.h"
#include "tests/executors/run_backends.h"

namespace tile::test {
namespace {

struct Value : Retirable {
  explicit Value(std::atomic<int>& freed) : freed_(freed) {}
  ~Value() { ++freed_; }
  int number = 1;

 private:
  std::atomic<int>& freed_;
};

TEST(Epoch, NothingIsFreedUnderASection) {
  std::atomic<int> freed{0};
  {
    ReadSection outer;
    retire(std::make_shared<Value>(freed));
    {
      ReadSection inner;
    }
    reclaim();
    EXPECT_EQ(freed, 0) << "the end of an inner section is not the end of the outer one";
  }
  reclaim();
  EXPECT_EQ(freed, 1);
  retire(std::make_shared<Value>(freed));
  EXPECT_EQ(freed, 2) << "nobody reads";
}

TEST(Epoch, SectionsOfOtherThreadsCount) {
  std::atomic<int> freed{0}, step{0};
  std::thread reader([&] {
    ReadSection section;
    step = 1;
    while (step != 2) std::this_thread::yield();
  });
  while (step != 1) std::this_thread::yield();
  retire(std::make_shared<Value>(freed));
  EXPECT_EQ(freed, 0);
  {
    // A section that began later does not keep what was retired before it.
    ReadSection later;
    step = 2;
    reader.join();
    reclaim();
    EXPECT_EQ(freed, 1);
  }
}

// Readers follow a pointer that a writer changes all the time.
TEST(Epoch, ReadersNeverSeeWhatIsFreed) {
  constexpr int kChanges = 2000, kReaders = 4;
  std::atomic<int> freed{0}, wrong{0};
  std::atomic<bool> stop{false};
  auto owned = std::make_shared<Value>(freed);
  std::atomic<Value*> shown{owned.get()};
  std::vector<std::thread> readers;
  for (int i = 0; i < kReaders; ++i) {
    readers.emplace_back([&] {
      while (!stop) {
        ReadSection section;
        if (shown.load(std::memory_order_acquire)->number != 1) ++wrong;
      }
    });
  }
  for (int i = 0; i < kChanges; ++i) {
    auto next = std::make_shared<Value>(freed);
    shown.store(next.get(), std::memory_order_release);
    owned.swap(next);
    retire(std::move(next));
  }
  stop = true;
  for (std::thread& t : readers) t.join();
  reclaim();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(freed, kChanges);
}

// tile_executable_tune used to write the executable that other threads ran.
TEST(LiveExecutables, RunsKeepWhatTheyBeganWith) {
  std::shared_ptr<Engine> engine = test_engine("cpu");
  std::shared_ptr<LoadedProgram> program =
      loaded(engine, "function (X[M, N]) -> (S) { S[m: M] = +(X[m, n]); }");
  HostTensor x = integers({30, 30}, 1);
  std::vector<TensorView> inputs{{x.bytes.data(), x.type, x.shape, {}}};
  std::shared_ptr<LiveExecutable> live = program->live(inputs);
  EXPECT_EQ(program->live(inputs), live) << "one shape, one executable";
  std::weak_ptr<const Executable> before = live->snapshot();
  {
    ReadSection section;
    const Executable& runs = live->current();
    live->replace(tuned(runs, 1));
    EXPECT_NE(&live->current(), &runs);
    EXPECT_EQ(before.lock().get(), &runs);
  }
  reclaim();
  EXPECT_TRUE(before.expired());
  EXPECT_EQ(program->executable(inputs), live->snapshot()) << "later runs take the tuned one";
}

}  // namespace
}  // namespace tile::test
