// A host's own threads for parallel loops: whatever it does with the calls, results are right.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "programs.h"

namespace tile::test {
namespace {

// What the host does with the calls that it is asked for.
enum class Manner { threads, serial, backwards, none, first, twice, late, throws, nested };

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

  Host host_;
  std::vector<float> x_ = integers(kSize * kSize, 1), o_;
};

constexpr Manner kManners[] = {Manner::threads, Manner::serial, Manner::backwards, Manner::none,
                               Manner::first,   Manner::twice,  Manner::late};
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
  host_.manner = Manner::throws;
  EXPECT_THROW(chain.run({x()}, {o()}), jit::Error);
  host_.manner = Manner::threads;
  chain.run({x()}, {o()});
  EXPECT_EQ(o_, result);
}

// A waiting thread that takes up other work of the host: another run, with temporaries of its own.
TEST_F(HostThreads, RunWithinARun) {
  std::vector<float> result = expected(kChain);
  jit::Engine e = engine(Manner::nested);
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
