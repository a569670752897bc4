// Memory for machine code: mappings are few, no page is writable and executable, what is freed is
// used again. (Each kernel had two mappings of its own until its engine went: after some 5,000
// programs the process had no more of them.)
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/jit/code_pool.h"
#include "tests/cpu/nests.h"

namespace tile::cpu {
namespace {

struct Mappings {
  size_t count = 0;
  // Those that may be executed and belong to no file. Others come and go as allocators will, a
  // sanitizer's most of all.
  size_t code = 0;
  size_t writable_code = 0;
};
Mappings mappings() {
  Mappings found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line); ++found.count) {
    std::istringstream fields(line);
    std::string range, rights, offset, device, inode, name;
    fields >> range >> rights >> offset >> device >> inode >> name;
    if (rights.at(2) != 'x' || !name.empty()) continue;
    ++found.code;
    if (rights.at(1) == 'w') ++found.writable_code;
  }
  return found;
}

// `ret`, which every block begins and ends with.
constexpr std::byte kReturn{0xc3};

void fill(std::byte* block, size_t bytes) {
  block[0] = kReturn;
  block[bytes - 1] = kReturn;
}
void call(std::byte* block) { reinterpret_cast<void (*)()>(block)(); }

TEST(CodePool, BlocksRunAndPagesAreUsedAgain) {
  CodePool pool;
  std::byte* first = pool.allocate(100);
  ASSERT_NE(first, nullptr);
  fill(first, CodePool::kPage);
  ASSERT_TRUE(pool.seal(first));
  call(first);
  EXPECT_EQ(pool.bytes(), CodePool::kPage);
  pool.release(first);
  EXPECT_EQ(pool.bytes(), 0U);
  std::byte* again = pool.allocate(2 * CodePool::kPage);
  EXPECT_EQ(again, first);
  EXPECT_EQ(again[0], std::byte{0}) << "what was there is gone";
  pool.release(again);
}

TEST(CodePool, ManyBlocksInFewMappings) {
  size_t before = mappings().code;
  CodePool pool;
  std::mt19937 random(5);
  std::vector<std::pair<std::byte*, size_t>> blocks;
  size_t taken = 0, most = 0;
  for (int i = 0; i < 20'000; ++i) {
    if (blocks.size() < 2000 || random() % 2 == 0) {
      size_t bytes = (1 + random() % 5) * CodePool::kPage;
      std::byte* block = pool.allocate(bytes);
      ASSERT_NE(block, nullptr);
      ASSERT_EQ(std::count(block, block + bytes, std::byte{0}), static_cast<ptrdiff_t>(bytes));
      fill(block, bytes);
      ASSERT_TRUE(pool.seal(block));
      blocks.emplace_back(block, bytes);
      taken += bytes;
    } else {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      auto [block, bytes] = blocks.back();
      call(block + bytes - 1);
      pool.release(block);
      blocks.pop_back();
      taken -= bytes;
    }
    most = std::max(most, taken);
  }
  EXPECT_EQ(pool.bytes(), taken);
  EXPECT_LE(pool.slabs(), 2 * most / CodePool::kSlab + 1);
  Mappings now = mappings();
  EXPECT_LE(now.code, before + 8 + 2 * pool.slabs());
  EXPECT_EQ(now.writable_code, 0U);
  for (auto [block, bytes] : blocks) {
    call(block);
    pool.release(block);
  }
  EXPECT_EQ(pool.bytes(), 0U);
  EXPECT_LE(pool.slabs(), 1U);
}

TEST(CodePool, LargeBlocksAndImpossibleOnes) {
  CodePool pool;
  size_t bytes = CodePool::kSlab + 1;
  std::byte* large = pool.allocate(bytes);
  ASSERT_NE(large, nullptr);
  fill(large, bytes);
  ASSERT_TRUE(pool.seal(large));
  call(large + bytes - 1);
  EXPECT_EQ(pool.allocate(SIZE_MAX), nullptr);
  EXPECT_EQ(pool.allocate(size_t{1} << 60), nullptr);
  pool.release(large);
  EXPECT_EQ(pool.bytes(), 0U);
  EXPECT_LE(pool.slabs(), 1U);
}

TEST(CodePool, Threads) {
  CodePool pool;
  std::vector<std::thread> threads;
  std::atomic<int> failed{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) {
        size_t bytes = static_cast<size_t>(1 + (i + t) % 3) * CodePool::kPage;
        std::byte* block = pool.allocate(bytes);
        fill(block, bytes);
        if (!pool.seal(block)) ++failed;
        call(block + bytes - 1);
        pool.release(block);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(pool.bytes(), 0U);
}

TEST(CodePool, KernelsShareMappings) {
  constexpr size_t kKernels = 1000;
  auto backend = shared_backend();
  nest::Nest nest = parse(R"(
nest tiny
argument Z: f32 [1] strides [1] written
assign Z[0] () { %0:f32 = real 1.0; yield %0 }
)");
  auto code = backend->compile(nest, backend->target());
  std::vector<std::byte> object(code->object().begin(), code->object().end());
  size_t before = mappings().count;
  std::vector<std::shared_ptr<const Code>> kernels;
  for (size_t i = 0; i < kKernels; ++i) {
    kernels.push_back(backend->load(nest, backend->target(), object));
    ASSERT_NE(kernels.back(), nullptr);
  }
  Mappings now = mappings();
  EXPECT_LE(now.count, before + kKernels / 10) << "beside the heap's, a slab or two";
  EXPECT_EQ(now.writable_code, 0U);
  float z = 0;
  void* pointers[] = {&z};
  for (const auto& kernel : kernels) {
    z = 0;
    backend->launch(*kernel, pointers, {}, {});
    ASSERT_EQ(z, 1);
  }
}

}  // namespace
}  // namespace tile::cpu
