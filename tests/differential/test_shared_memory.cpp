// Which layouts let elements share memory: the search against all pairs of elements.
#include <gtest/gtest.h>

#include <set>

#include "runtime/engine/launch/shared_memory.h"
#include "tests/executors/layouts.h"

namespace tile::test {
namespace {

// The bytes that each element of the tensor starts at, from its first.
std::vector<int64_t> offsets(const Shape& shape, const std::vector<int64_t>& strides) {
  std::vector<int64_t> list{0};
  for (size_t d = 0; d < shape.size(); ++d) {
    std::vector<int64_t> longer;
    for (int64_t at : list) {
      for (int64_t i = 0; i < shape[d]; ++i) longer.push_back(at + i * strides[d]);
    }
    list = std::move(longer);
  }
  return list;
}

struct Drawn {
  Shape shape;
  std::vector<int64_t> strides;
};
Drawn drawn(RandomSource& random) {
  Drawn d;
  for (int64_t rank = random.in(1, 3); rank > 0; --rank) {
    d.shape.push_back(random.in(1, 4));
    d.strides.push_back(random.in(-13, 13));
  }
  return d;
}

TEST(SharedMemory, OfOneTensor) {
  RandomSource random(1);
  std::byte first{};
  int shared = 0;
  for (int i = 0; i < 4000; ++i) {
    Drawn d = drawn(random);
    std::vector<int64_t> all = offsets(d.shape, d.strides);
    bool expected = std::set<int64_t>(all.begin(), all.end()).size() < all.size();
    shared += expected ? 1 : 0;
    ASSERT_EQ(shares_with_itself({&first, DType::f32, d.shape, d.strides}), expected)
        << described(InputLayout{{DType::f32, d.shape, std::nullopt}, d.strides});
  }
  EXPECT_GT(shared, 400);
  EXPECT_LT(shared, 3600);
}

TEST(SharedMemory, OfTwoTensors) {
  RandomSource random(2);
  std::vector<std::byte> memory(4096);
  int shared = 0;
  for (int i = 0; i < 4000; ++i) {
    Drawn a = drawn(random), b = drawn(random);
    int64_t apart = random.in(-120, 120);
    std::set<int64_t> bytes;
    for (int64_t at : offsets(a.shape, a.strides)) {
      for (int64_t k = 0; k < 4; ++k) bytes.insert(4 * at + k);
    }
    bool expected = false;
    for (int64_t at : offsets(b.shape, b.strides)) {
      for (int64_t k = 0; k < 2; ++k) expected = expected || bytes.contains(apart + 2 * at + k);
    }
    shared += expected ? 1 : 0;
    std::byte* middle = memory.data() + 2048;
    ASSERT_EQ(shares_memory({middle, DType::f32, a.shape, a.strides},
                            {middle + apart, DType::f16, b.shape, b.strides}),
              expected)
        << apart << " " << described(InputLayout{{DType::f32, a.shape, std::nullopt}, a.strides})
        << described(InputLayout{{DType::f16, b.shape, std::nullopt}, b.strides});
  }
  EXPECT_GT(shared, 400);
  EXPECT_LT(shared, 3600);
}

// Columns of one matrix interleave; nothing of no elements overlaps.
TEST(SharedMemory, ColumnsSideBySide) {
  std::vector<float> matrix(40);
  TensorView left{matrix.data(), DType::f32, {5, 4}, {8, 1}};
  TensorView right{matrix.data() + 4, DType::f32, {5, 4}, {8, 1}};
  EXPECT_FALSE(shares_memory(left, right));
  right.data = matrix.data() + 3;
  EXPECT_TRUE(shares_memory(left, right));
  EXPECT_FALSE(shares_memory(left, {matrix.data() + 1, DType::f32, {0, 4}, {}}));
}

}  // namespace
}  // namespace tile::test
