// The threads that help a caller: who does what, how often, and what comes back.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

#include <array>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "backends/cpu/launch/work_stealing_range.h"
#include "backends/cpu/launch/worker_team.h"

namespace tile::cpu {
namespace {

// Adds up 1 … extent in a job; -1 where a worker was called twice or with a wrong number.
int64_t sum_to(int64_t extent, int64_t workers) {
  WorkStealingRange shares(extent, workers, 1);
  std::atomic<int64_t> sum{0};
  std::array<std::atomic<int>, 16> calls{};
  WorkerTeam::mine().run(workers, [&shares, &sum, &calls](int64_t worker) {
    ++calls.at(static_cast<size_t>(worker));
    while (auto run = shares.take(worker)) {
      for (int64_t i = run->begin; i < run->end; ++i) sum += i + 1;
    }
  });
  bool once = calls[0] == 1;
  for (size_t w = 1; w < calls.size(); ++w) {
    once = once && calls[w] <= (static_cast<int64_t>(w) < workers ? 1 : 0);
  }
  return once ? sum.load() : -1;
}

TEST(WorkerTeam, EveryJobIsDoneOnceByAnyNumberOfWorkers) {
  for (int i = 0; i < 20000; ++i) {
    int64_t extent = 1 + i % 97, workers = 1 + i % 5;
    ASSERT_EQ(sum_to(extent, workers), extent * (extent + 1) / 2) << extent << ' ' << workers;
  }
}

TEST(WorkerTeam, WhatHelpersWroteIsSeenWhenTheJobIsDone) {
  std::vector<int64_t> values(64);
  for (int64_t round = 1; round < 20000; ++round) {
    WorkStealingRange shares(64, 2, 1);
    WorkerTeam::mine().run(2, [&shares, &values, &round](int64_t worker) {
      while (auto run = shares.take(worker)) {
        for (int64_t i = run->begin; i < run->end; ++i) values[static_cast<size_t>(i)] += round;
      }
    });
    int64_t expected = round * (round + 1) / 2;
    for (int64_t v : values) ASSERT_EQ(v, expected);
  }
}

// Whether a helper comes to most jobs that wait for it, however long its thread takes to wake.
bool may_help() {
  int times = 0;
  for (int i = 0; i < 20; ++i) {
    std::atomic<bool> came{false};
    WorkerTeam::mine().run(2, [&came](int64_t worker) {
      if (worker == 1) came = true;
      auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
      while (worker == 0 && !came && std::chrono::steady_clock::now() < end) {
      }
    });
    times += came ? 1 : 0;
  }
  return times >= 10 || std::thread::hardware_concurrency() < 2;
}

TEST(WorkerTeam, HelpersComeAndStay) { EXPECT_TRUE(may_help()); }

TEST(WorkerTeam, CallersAtOnceDoNotMeet) {
  std::vector<std::jthread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&wrong] {
      for (int i = 0; i < 3000; ++i) wrong += sum_to(50, 3) == 1275 ? 0 : 1;
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

// Threads that end leave their teams to those that begin, with helpers that may still watch.
TEST(WorkerTeam, CrewsOutliveTheirThreads) {
  for (int t = 0; t < 200; ++t) {
    std::jthread([t] { EXPECT_EQ(sum_to(20 + t, 2), (20 + t) * (21 + t) / 2); }).join();
  }
}

TEST(WorkerTeam, AJobInsideAJobIsDoneAlone) {
  std::atomic<int64_t> sum{0};
  std::atomic<int> inner{0};
  WorkerTeam::mine().run(2, [&sum, &inner](int64_t worker) {
    if (worker != 0) return;
    sum = sum_to(30, 4);
    WorkerTeam::mine().run(3, [&inner](int64_t) { ++inner; });
  });
  EXPECT_EQ(sum, 465);
  EXPECT_EQ(inner, 1);
  EXPECT_EQ(sum_to(10, 2), 55);  // and the team is free again
}

// A context in a page of its own, which goes with it: nobody may look at it afterwards.
class PagedContext {
 public:
  PagedContext()
      : page_(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
        context_(new(page_) tbb::task_group_context) {}
  ~PagedContext() {
    context_->~task_group_context();
    munmap(page_, kBytes);
  }
  PagedContext(const PagedContext&) = delete;
  PagedContext& operator=(const PagedContext&) = delete;
  tbb::task_group_context& operator*() { return *context_; }

 private:
  static constexpr size_t kBytes = 4096;
  void* page_;
  tbb::task_group_context* context_;
};

// Helpers that first come while the host works in a group of its own outlive that group: whoever
// cancels another one later looks at all groups' parents.
TEST(WorkerTeam, HelpersDoNotBelongToTheHostsGroup) {
  {
    PagedContext host;
    tbb::task_group group(*host);
    group.run_and_wait([] { EXPECT_TRUE(may_help()); });
  }
  tbb::task_group_context other;
  tbb::task_group group(other);
  group.run_and_wait([&other] {
    tbb::parallel_for(0, 100, [](int) {});
    other.cancel_group_execution();
    EXPECT_TRUE(may_help());
  });
  EXPECT_TRUE(may_help());
}

TEST(WorkerTeam, AnArenaOfOneThreadHasNoHelpers) {
  std::thread::id here = std::this_thread::get_id();
  std::this_thread::sleep_for(std::chrono::milliseconds(1));  // until helpers have gone
  tbb::task_arena one(1);
  one.execute([&] {
    for (int i = 0; i < 100; ++i) {
      std::atomic<int> others{0};
      WorkerTeam::mine().run(
          4, [&here, &others](int64_t) { others += std::this_thread::get_id() == here ? 0 : 1; });
      EXPECT_EQ(others, 0);
    }
  });
}

TEST(WorkerTeam, FailuresComeBack) {
  auto fails_in = [](int64_t failing) {
    WorkerTeam::mine().run(2, [&failing](int64_t worker) {
      if (worker == failing) throw std::runtime_error("worker " + std::to_string(worker));
    });
  };
  EXPECT_THROW(fails_in(0), std::runtime_error);
  int failures = 0;
  for (int i = 0; i < 2000; ++i) {
    try {
      fails_in(1);
    } catch (const std::runtime_error& e) {
      EXPECT_STREQ(e.what(), "worker 1");
      ++failures;
    }
  }
  EXPECT_LE(failures, 2000);
  EXPECT_EQ(sum_to(10, 2), 55);
}

}  // namespace
}  // namespace tile::cpu
