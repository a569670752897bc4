// A host's own threads for parallel loops: whatever it does with the calls, results are right.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "programs.h"

namespace tile::test {
namespace {

// What the host does with the calls that it is asked for.
enum class Manner {
  threads,
  serial,
  backwards,
  none,
  first,
  twice,
  late,
  throws,
  throws_a_number,
  nested,
  other_thread
};

struct Host {
  Manner manner = Manner::threads;
  std::atomic<int> loops{0};
  std::atomic<size_t> most{0};
  std::vector<std::thread> late;
  std::function<void()> inner;

  static void run(void* user, size_t count, tile_task task, void* context) {
    auto& self = *static_cast<Host*>(user);
    ++self.loops;
    self.most = std::max(self.most.load(), count);
    self.call(count, task, context);
  }

 private:
  void call(size_t count, tile_task task, void* context) {
    switch (manner) {
      case Manner::threads: {
        std::vector<std::thread> threads;
        for (size_t i = 0; i < count; ++i) threads.emplace_back(task, context, i);
        for (std::thread& t : threads) t.join();
        return;
      }
      case Manner::serial:
        for (size_t i = 0; i < count; ++i) task(context, i);
        return;
      case Manner::backwards:
        for (size_t i = count; i-- > 0;) task(context, i);
        return;
      case Manner::none:
        return;
      case Manner::first:
        return task(context, 0);
      case Manner::twice:
        for (size_t i = 0; i < 2 * count; ++i) task(context, i % count);
        return task(context, 1000000);
      case Manner::late:  // some calls come when the loop is over
        for (size_t i = 0; i < count; ++i) {
          late.emplace_back([=] {
            if (i % 2 == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
            task(context, i);
          });
        }
        return;
      case Manner::throws:
        task(context, 0);
        throw std::runtime_error("a host that throws");
      case Manner::throws_a_number:
        throw 5;
      case Manner::other_thread:  // all of it, and work of the library's own before
        std::thread([&] {
          if (auto work = std::exchange(inner, nullptr)) work();
          for (size_t i = count; i-- > 0;) task(context, i);
        }).join();
        return;
      case Manner::nested: {  // other work on the thread that waits
        if (auto work = std::exchange(inner, nullptr)) work();
        for (size_t i = 0; i < count; ++i) task(context, i);
        return;
      }
    }
  }
};

class HostThreads : public testing::Test {
 protected:
  static constexpr int64_t kSize = 192;
  ~HostThreads() override {
    for (std::thread& t : host_.late) t.join();
  }
  jit::Engine engine(Manner manner) {
    host_.manner = manner;
    tile_engine_options options = options_of();
    options.threads = 4;
    options.parallel_for = Host::run;
    options.parallel_for_user = &host_;
    return jit::Engine(options);
  }
  jit::View x() { return jit::view(x_.data(), {kSize, kSize}); }
  jit::View o() {
    o_.assign(kSize * kSize, -1);
    return jit::view(o_.data(), {kSize, kSize});
  }
  std::vector<float> expected(const char* text) {
    jit::Engine(options_of()).parse("tile", text).run({x()}, {o()});
    return o_;
  }

  void run_within_a_run(Manner manner);

  Host host_;
  std::vector<float> x_ = integers(kSize * kSize, 1), o_;
};

constexpr Manner kManners[] = {Manner::threads, Manner::serial,      Manner::backwards,
                               Manner::none,    Manner::first,       Manner::twice,
                               Manner::late,    Manner::other_thread};
// A product, sums over whole columns (chained), many rows sorted.
const char* kSorted = "function (X[M, N]) -> (O) { O = sort(X, 1); }";
const char* kScanned = "function (X[M, N]) -> (O) { O[i, j: M, N] = +(X[k, j]), i - k < M; }";

TEST_F(HostThreads, WhateverTheyDo) {
  for (const char* text : {kChain, kSorted, kScanned, kSoftmax}) {
    std::vector<float> result = expected(text);
    for (Manner manner : kManners) {
      SCOPED_TRACE(std::string(text) + std::to_string(static_cast<int>(manner)));
      jit::Engine e = engine(manner);
      jit::Program program = e.parse("tile", text);
      for (int i = 0; i < 3; ++i) {
        program.run({x()}, {o()});
        ASSERT_EQ(o_, result);
      }
    }
  }
  EXPECT_GT(host_.loops, 0);
  EXPECT_LE(host_.most, 4U);
}

TEST_F(HostThreads, DoAllLoopsOfARun) {
  jit::Engine e = engine(Manner::threads);
  jit::Executable chain = e.parse("tile", kChain).compile({x()});
  int before = host_.loops;
  chain.run({x()}, {o()});
  EXPECT_GT(host_.loops, before);
}

// A callback in C++ that throws is at fault; the call says so and the next one works.
TEST_F(HostThreads, ThatThrow) {
  std::vector<float> result = expected(kChain);
  jit::Engine e = engine(Manner::serial);
  jit::Executable chain = e.parse("tile", kChain).compile({x()});
  for (Manner manner : {Manner::throws, Manner::throws_a_number}) {
    host_.manner = manner;
    try {
      chain.run({x()}, {o()});
      FAIL() << "nobody was told";
    } catch (const jit::Error& error) {
      EXPECT_EQ(error.code(), "argument");
      EXPECT_NE(error.message().find("parallel_for threw"), std::string::npos) << error.message();
    }
    // While it compiles, too.
    try {
      e.parse("tile", kSoftmax).compile({x()});
    } catch (const jit::Error& error) {
      EXPECT_EQ(error.code(), "argument");
    }
  }
  host_.manner = Manner::threads;
  chain.run({x()}, {o()});
  EXPECT_EQ(o_, result);
}

// A waiting thread that takes up other work of the host: another run, with temporaries of its own.
void HostThreads::run_within_a_run(Manner manner) {
  std::vector<float> result = expected(kChain);
  jit::Engine e = engine(manner);
  jit::Executable chain = e.parse("tile", kChain).compile({x()});
  std::vector<float> y = integers(kSize * kSize, 8), inner(kSize * kSize),
                     inner_result(kSize * kSize);
  chain.run({jit::view(y.data(), {kSize, kSize})},
            {jit::view(inner_result.data(), {kSize, kSize})});
  int ran = 0;
  for (int i = 0; i < 3; ++i) {
    host_.inner = [&] {
      ++ran;
      chain.run({jit::view(y.data(), {kSize, kSize})}, {jit::view(inner.data(), {kSize, kSize})});
    };
    chain.run({x()}, {o()});
    EXPECT_EQ(o_, result);
    EXPECT_EQ(inner, inner_result);
  }
  EXPECT_EQ(ran, 3);
}
TEST_F(HostThreads, RunWithinARun) { run_within_a_run(Manner::nested); }
TEST_F(HostThreads, RunWithinARunOnAnotherThread) { run_within_a_run(Manner::other_thread); }

// So many that no machine has them would take a sort's workspace of as many rows, and minutes.
TEST_F(HostThreads, AreSoManyAtMost) {
  tile_engine* made = nullptr;
  for (int threads : {-2147483647, -1, 1025, 99999999, 2147483647}) {
    tile_engine_options options = options_of();
    options.threads = threads;
    tile_error* error = tile_engine_create(&options, &made);
    ASSERT_NE(error, nullptr) << threads;
    EXPECT_NE(std::string(tile_error_rendered(error)).find("1 to 1024"), std::string::npos);
    EXPECT_EQ(code_of(error), "argument");
  }
  for (int threads : {0, 1, 1024}) {
    tile_engine_options options = options_of();
    options.threads = threads;
    jit::Engine(options).parse("tile", kSorted).run({x()}, {o()});
  }
  for (const char* text : {"0", "-3", "2x", "1025", "99999999999999999999", " ", "1.5"}) {
    setenv("TILE_THREADS", text, 1);
    tile_engine_options options = options_of();
    EXPECT_EQ(code_of(tile_engine_create(&options, &made)), "argument") << text;
    options.threads = 2;
    EXPECT_EQ(code_of(tile_engine_create(&options, &made)), "") << "an option comes first";
    tile_engine_free(made);
    unsetenv("TILE_THREADS");
  }
}

// A log that throws loses its message, and no more.
TEST_F(HostThreads, LogsThatThrow) {
  tile_engine_options options = options_of();
  options.cache_mode = "rw";
  options.cache_dir = "/dev/null";  // no directory: the log is told
  static int told;
  told = 0;
  options.log = [](void*, tile_log_level, const char*) {
    ++told;
    throw 5;
  };
  jit::Engine(options).parse("tile", kChain).run({x()}, {o()});
  EXPECT_GT(told, 0);
}

TEST_F(HostThreads, CancelledAndTuned) {
  jit::Engine e = engine(Manner::threads);
  jit::Executable chain = e.parse("tile", kChain).compile({x()});
  tile_run_options options{};
  options.struct_size = sizeof options;
  options.cancel = [](void*) { return 1; };
  EXPECT_THROW(chain.run({x()}, {o()}, &options), jit::Error);
  chain.tune(20);
  std::vector<float> result = expected(kChain);
  chain.run({x()}, {o()});
  EXPECT_EQ(o_, result);
}

}  // namespace
}  // namespace tile::test
