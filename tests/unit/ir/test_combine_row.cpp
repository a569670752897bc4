// Rows that are combined at once beside the reference's operation on each of their cells.
#include <gmock/gmock.h>

#include <array>
#include <cstring>
#include <random>
#include <vector>

#include "core/ir/ranks/combine_row.h"
#include "core/ir/ranks/reduce_part.h"
#include "core/ir/scalar.h"

namespace tile {
namespace {

constexpr Op kOperations[] = {Op::add, Op::mul, Op::max, Op::min};

// Elements of all kinds: any bits, so that infinities, NaN and subnormal values are among them, and
// for integers all there are.
std::vector<std::byte> random_bytes(std::mt19937_64& random, size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

Scalar combined(Op op, DType type, const std::byte* a, const std::byte* b) {
  DType computed = compute_type(type);
  std::array<Scalar, 2> pair{convert(load_element(a, type), computed),
                             convert(load_element(b, type), computed)};
  return convert(evaluate(op, computed, pair), type);
}

void expect_same(Op op, DType type, const std::vector<std::byte>& before,
                 const std::vector<std::byte>& part, const std::vector<std::byte>& got,
                 size_t from) {
  size_t width = byte_size(type);
  for (size_t at = from; at < before.size(); at += width) {
    Scalar expected = combined(op, type, &before[at], &part[at]);
    ASSERT_TRUE(same_value(expected, load_element(&got[at], type)))
        << to_string(type) << ", operation " << static_cast<int>(op) << ": " << expected.f << " "
        << expected.i << " for " << load_element(&before[at], type).f << " and "
        << load_element(&part[at], type).f;
  }
}

TEST(CombineRow, IsTheReferenceOnEveryCell) {
  std::mt19937_64 random(25);
  const DType types[] = {DType::i8,  DType::i16, DType::i32,  DType::i64, DType::u8,  DType::u16,
                         DType::u32, DType::u64, DType::bf16, DType::f16, DType::f32, DType::f64};
  for (DType type : types) {
    for (Op op : kOperations) {
      for (size_t cells : {0, 1, 7, 64, 4097}) {
        // Not aligned: one byte in front.
        size_t from = random() % 2, bytes = from + cells * byte_size(type);
        std::vector<std::byte> before = random_bytes(random, bytes);
        std::vector<std::byte> part = random_bytes(random, bytes), got = before;
        ASSERT_TRUE(combine_row(op, type, part.data() + from, cells, got.data() + from));
        expect_same(op, type, before, part, got, from);
      }
    }
  }
}

TEST(CombineRow, AllPairsOfRoundingsOfBf16) {
  // Sums and products that lie between two values of bf16, ties among them.
  std::vector<std::byte> a, b;
  for (uint32_t low = 0; low < 256; ++low) {
    for (uint32_t exponent : {0x3f00U, 0x3f80U, 0x0080U, 0x0000U, 0x7f00U, 0xbf80U}) {
      auto x = static_cast<uint16_t>(exponent + low), y = static_cast<uint16_t>(0x3b80 + low);
      for (int byte : {0, 1}) {
        a.push_back(static_cast<std::byte>(x >> 8 * byte));
        b.push_back(static_cast<std::byte>(y >> 8 * byte));
      }
    }
  }
  for (Op op : kOperations) {
    std::vector<std::byte> got = a;
    ASSERT_TRUE(combine_row(op, DType::bf16, b.data(), a.size() / 2, got.data()));
    expect_same(op, DType::bf16, a, b, got, 0);
  }
}

TEST(CombineRow, EveryHalfIsReadAndRounded) {
  // Each value of f16 times and plus some others, subnormal ones and ones near the largest too.
  for (uint16_t other : {0x0001, 0x3c00, 0x3bff, 0x0400, 0x7bff, 0x93ff, 0x3555, 0x7c00}) {
    std::vector<std::byte> a(2 * 65536), b(a.size());
    for (uint32_t h = 0; h < 65536; ++h) {
      auto value = static_cast<uint16_t>(h);
      std::memcpy(&a[2 * h], &value, 2);
      std::memcpy(&b[2 * h], &other, 2);
    }
    for (Op op : {Op::add, Op::mul}) {
      std::vector<std::byte> got = a;
      ASSERT_TRUE(combine_row(op, DType::f16, b.data(), 65536, got.data()));
      expect_same(op, DType::f16, a, b, got, 0);
    }
  }
}

TEST(CombineRow, OtherTypesAreLeftAlone) {
  for (DType type : {DType::bool_, DType::f8e4m3, DType::f8e5m2}) {
    std::vector<std::byte> row(8, std::byte{1}), part(8, std::byte{2}), before = row;
    EXPECT_FALSE(combine_row(Op::add, type, part.data(), 4, row.data()));
    EXPECT_EQ(row, before);
  }
}

// Boxes that overlap in part: cells that have a value are combined, others set.
TEST(CombineRow, PartsMeetInAnyCells) {
  std::mt19937_64 random(26);
  for (DType type : {DType::f32, DType::f16, DType::bf16, DType::i16, DType::bool_}) {
    for (int round = 0; round < 40; ++round) {
      BoundTensor result;
      result.type = type;
      result.shape = {6, 11};
      Exchange exchange;
      exchange.reduction = Aggregation::max;
      PartReducer reducer(exchange, result);
      size_t width = byte_size(type);
      std::vector<std::byte> got(66 * width), expected(66 * width);
      std::vector<bool> set(66);
      for (int part = 0; part < 4; ++part) {
        Box box = whole_box(result.shape);
        for (size_t d = 0; d < 2; ++d) {
          box.lo[d] = static_cast<int64_t>(random() % static_cast<uint64_t>(result.shape[d]));
          box.hi[d] =
              box.lo[d] + 1 +
              static_cast<int64_t>(random() % static_cast<uint64_t>(result.shape[d] - box.lo[d]));
        }
        std::vector<std::byte> cells =
            random_bytes(random, static_cast<size_t>(box.count()) * width);
        const std::byte* from = cells.data();
        for (int64_t y = box.lo[0]; y < box.hi[0]; ++y) {
          for (int64_t x = box.lo[1]; x < box.hi[1]; ++x, from += width) {
            auto cell = static_cast<size_t>(y * 11 + x);
            std::byte* at = &expected[cell * width];
            if (set[cell]) {
              store_element(at, combined(Op::max, type, at, from));
            } else {
              std::memcpy(at, from, width);
            }
            set[cell] = true;
          }
        }
        reducer.receive(box, cells.data(), got.data());
      }
      for (size_t at = 0; at < got.size(); at += width) {
        ASSERT_TRUE(same_value(load_element(&got[at], type), load_element(&expected[at], type)));
      }
    }
  }
}

}  // namespace
}  // namespace tile
