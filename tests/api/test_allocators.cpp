// A host's memory for what runs and constants take, and workspaces that a run is given.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <stdexcept>
#include <thread>

#include "programs.h"

namespace tile::test {
namespace {

// Counts, poisons, and refuses or misaligns on demand.
struct Host {
  std::mutex mutex;
  std::map<void*, size_t> live;
  std::atomic<int> asked{0};
  std::atomic<size_t> most{0};
  int refuse_from = -1;  // number of the first call that gets nothing
  size_t shift = 0;
  int faults = 0;

  static void* allocate(void* user, size_t bytes, size_t alignment, void* stream) {
    auto& self = *static_cast<Host*>(user);
    int number = self.asked++;
    std::lock_guard lock(self.mutex);
    if (bytes == 0 || alignment != 64 || stream != nullptr) ++self.faults;
    if (self.refuse_from >= 0 && number >= self.refuse_from) return nullptr;
    size_t whole = (bytes + self.shift + alignment - 1) / alignment * alignment;
    auto* memory = static_cast<std::byte*>(std::aligned_alloc(alignment, whole));
    std::memset(memory, 0xcd, whole);
    self.live[memory + self.shift] = bytes;
    size_t sum = 0;
    for (const auto& [at, size] : self.live) sum += size;
    self.most = std::max(self.most.load(), sum);
    return memory + self.shift;
  }
  static void release(void* user, void* memory, size_t bytes, void*) {
    auto& self = *static_cast<Host*>(user);
    std::lock_guard lock(self.mutex);
    auto at = self.live.find(memory);
    if (at == self.live.end() || at->second != bytes) {
      ++self.faults;
      return;
    }
    self.live.erase(at);
    std::free(static_cast<std::byte*>(memory) - self.shift);
  }
};

class Allocators : public testing::Test {
 protected:
  static constexpr int64_t kSize = 48;
  jit::Engine engine() {
    allocator_ = {sizeof(tile_allocator), Host::allocate, Host::release, &host_};
    tile_engine_options options = options_of();
    options.host_allocator = &allocator_;
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
  void TearDown() override {
    EXPECT_TRUE(host_.live.empty());
    EXPECT_EQ(host_.faults, 0);
  }

  Host host_;
  tile_allocator allocator_{};
  std::vector<float> x_ = integers(kSize * kSize, 1), o_;
};

TEST_F(Allocators, GiveTemporaries) {
  std::vector<float> result = expected(kChain);
  jit::Engine e = engine();
  jit::Executable chain = e.parse("tile", kChain).compile({x()});
  size_t needed = chain.workspace_size();
  EXPECT_GE(needed, kSize * kSize * sizeof(float));
  int before = host_.asked;
  for (int i = 0; i < 3; ++i) {
    chain.run({x()}, {o()});
    EXPECT_EQ(o_, result);
    EXPECT_TRUE(host_.live.empty()) << "memory of a run stays";
  }
  EXPECT_EQ(host_.asked, before + 3);
  EXPECT_EQ(host_.most, needed);
}

TEST_F(Allocators, GiveConstantsAndStagedOutputs) {
  std::vector<float> result = expected(kChain);
  jit::Engine e = engine();
  {
    std::vector<float> b = integers(kSize * kSize, 2);
    jit::Executable product =
        e.parse("tile", kProduct).compile({x(), jit::view(b.data(), {kSize, kSize})}, {1});
    EXPECT_FALSE(host_.live.empty());
  }
  EXPECT_TRUE(host_.live.empty()) << "constants go with their executable";
  std::vector<float> wide(2 * kSize * kSize, -1);
  jit::View strided(wide.data(), {kDLFloat, 32, 1}, {kSize, kSize}, {2 * kSize, 2});
  int before = host_.asked;
  e.parse("tile", kChain).run({x()}, {strided});
  EXPECT_EQ(host_.asked, before + 2);
  for (size_t i = 0; i < result.size(); ++i) ASSERT_EQ(wide[2 * i], result[i]);
}

// NULL at each call in turn: an error, nothing lost, and then everything works.
TEST_F(Allocators, ThatGiveNothing) {
  std::vector<float> result = expected(kChain);
  jit::Engine e = engine();
  std::vector<float> b = integers(kSize * kSize, 2);
  for (int refused = 0; refused < 6; ++refused) {
    host_.asked = 0;
    host_.refuse_from = refused;
    int errors = 0;
    auto attempt = [&](auto&& work) {
      try {
        work();
      } catch (const jit::Error& error) {
        EXPECT_EQ(error.code(), "memory");
        ++errors;
      }
    };
    attempt([&] {
      jit::Executable product =
          e.parse("tile", kProduct).compile({x(), jit::view(b.data(), {kSize, kSize})}, {1});
      product.run({x(), jit::view(b.data(), {kSize, kSize})}, {o()});
    });
    attempt([&] { e.parse("tile", kChain).run({x()}, {o()}); });
    EXPECT_EQ(errors > 0, host_.asked > refused);
    EXPECT_TRUE(host_.live.empty());
  }
  host_.refuse_from = -1;
  e.parse("tile", kChain).run({x()}, {o()});
  EXPECT_EQ(o_, result);
}

TEST_F(Allocators, ThatMisalign) {
  jit::Engine e = engine();
  host_.shift = 4;
  try {
    e.parse("tile", kChain).run({x()}, {o()});
    FAIL() << "misaligned memory was used";
  } catch (const jit::Error& error) {
    EXPECT_EQ(error.code(), "argument");
    EXPECT_NE(error.message().find("aligned to 64"), std::string::npos);
  }
}

template <class Thrown>
[[noreturn]] void throw_one() {
  if constexpr (std::is_same_v<Thrown, std::logic_error>) {
    throw std::logic_error("of the host");
  } else {
    throw Thrown{};
  }
}
// A host in C++ that does not keep its word.
template <class Thrown>
tile_allocator throwing(bool from_release) {
  tile_allocator all{sizeof all, nullptr, nullptr, nullptr};
  all.allocate = [](void*, size_t, size_t, void*) -> void* { throw_one<Thrown>(); };
  all.release = [](void*, void* memory, size_t, void*) { std::free(memory); };
  if (!from_release) return all;
  all.allocate = [](void*, size_t bytes, size_t alignment, void*) {
    return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  };
  all.release = [](void*, void* memory, size_t, void*) {
    std::free(memory);
    throw_one<Thrown>();
  };
  return all;
}

TEST_F(Allocators, ThatThrow) {
  std::vector<float> result = expected(kChain);
  for (const tile_allocator& thrower :
       {throwing<std::bad_alloc>(false), throwing<std::logic_error>(false), throwing<int>(false)}) {
    tile_engine_options options = options_of();
    options.host_allocator = &thrower;
    try {
      jit::Engine(options).parse("tile", kChain).run({x()}, {o()});
      FAIL() << "nobody was told";
    } catch (const jit::Error& error) {
      EXPECT_EQ(error.code(), "memory");
      EXPECT_NE(error.message().find("the host's allocator threw"), std::string::npos);
    }
  }
  for (const tile_allocator& thrower :
       {throwing<std::bad_alloc>(true), throwing<std::logic_error>(true), throwing<int>(true)}) {
    tile_engine_options options = options_of();
    options.host_allocator = &thrower;
    jit::Engine(options).parse("tile", kChain).run({x()}, {o()});
    EXPECT_EQ(o_, result);
  }
}

TEST_F(Allocators, WithoutAFunctionOrASize) {
  tile_engine_options options = options_of();
  tile_engine* made = nullptr;
  tile_allocator half{sizeof half, Host::allocate, nullptr, &host_};
  options.host_allocator = &half;
  EXPECT_EQ(code_of(tile_engine_create(&options, &made)), "argument");
  half = {0, Host::allocate, Host::release, &host_};
  EXPECT_EQ(code_of(tile_engine_create(&options, &made)), "argument");
  half = {sizeof half, nullptr, Host::release, &host_};
  options.host_allocator = nullptr;
  options.device_allocator = &half;
  EXPECT_EQ(code_of(tile_engine_create(&options, &made)), "argument");
}

TEST_F(Allocators, OfManyThreads) {
  std::vector<float> result = expected(kChain);
  jit::Engine e = engine();
  jit::Executable chain = e.parse("tile", kChain).compile({x()});
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 25; ++i) {
        std::vector<float> own(kSize * kSize);
        chain.run({jit::view(x_.data(), {kSize, kSize})}, {jit::view(own.data(), {kSize, kSize})});
        wrong += own == result ? 0 : 1;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

// A run's own workspace takes the place of both kinds of memory, and no byte more than it has.
TEST_F(Allocators, WorkspacesOfRuns) {
  std::vector<float> result = expected(kChain);
  jit::Engine e = engine();
  jit::Program program = e.parse("tile", kChain);
  jit::Executable chain = program.compile({x()});
  size_t needed = chain.workspace_size();
  size_t room = needed + 128;
  std::unique_ptr<std::byte, void (*)(void*)> memory(
      static_cast<std::byte*>(std::aligned_alloc(64, (room + 63) / 64 * 64)), std::free);
  std::memset(memory.get(), 0x5a, room);
  tile_run_options options{};
  options.struct_size = sizeof options;
  options.workspace = memory.get();
  options.workspace_size = needed;
  int before = host_.asked;
  chain.run({x()}, {o()}, &options);
  EXPECT_EQ(o_, result);
  program.run({x()}, {o()}, &options);
  EXPECT_EQ(o_, result);
  EXPECT_EQ(host_.asked, before);
  for (size_t i = needed; i < room; ++i) ASSERT_EQ(memory.get()[i], std::byte{0x5a});

  auto code = [&] {
    try {
      chain.run({x()}, {o()}, &options);
      return std::string();
    } catch (const jit::Error& error) {
      return error.code();
    }
  };
  options.workspace_size = needed - 1;
  EXPECT_EQ(code(), "argument");
  options.workspace = memory.get() + 8;
  options.workspace_size = needed;
  EXPECT_EQ(code(), "argument");
  // A struct of an earlier version has no workspace.
  options.struct_size = offsetof(tile_run_options, workspace);
  EXPECT_EQ(code(), "");
  EXPECT_EQ(code_of(tile_executable_workspace_size(nullptr, &needed)), "argument");
  EXPECT_EQ(code_of(tile_executable_workspace_size(chain.get(), nullptr)), "argument");
}

}  // namespace
}  // namespace tile::test
