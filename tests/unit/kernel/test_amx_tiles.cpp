// Sums in registers that hold matrices: random schedules that use them give the reference's values,
// the model takes them where the target has them, and what they cannot compute is not legal.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "core/kernel/forms/amx_tiles.h"
#include "core/kernel/geometry.h"
#include "core/schedule/legality/legality.h"
#include "core/schedule/space/candidates.h"
#include "tests/support/narrow_kernels.h"

namespace tile::testing {
namespace {

bool has_tiles(const Schedule& s) { return uses_tiles(s.stages[0][0]); }

void expect_tiles_agree(const Kernel& kernel, const std::vector<double>& values, int wanted) {
  Values inputs = small_integers(kernel, 3);
  for (size_t i = 0; i < 2; ++i) fill(inputs[i], values, i + 1);
  expect_chosen_schedules_agree(kernel, inputs, wanted, 4000, has_tiles, {tile_target()});
}

const std::vector<double> kSmall = {0, 1, -1, 2, -3, 5};
constexpr int kTried = 30;

TEST(AmxTiles, OddSizesAndSizesOfOne) {
  for (DType type : {DType::bf16, DType::i8}) {
    for (auto [m, n, k] : {std::array{5, 18, 9},
                           {37, 19, 70},
                           {1, 19, 7},
                           {7, 1, 13},
                           {4, 5, 1},
                           {33, 34, 64},
                           {16, 16, 32}}) {
      SCOPED_TRACE(std::string(to_string(type)) + " " + std::to_string(k));
      expect_tiles_agree(narrow_product(m, n, k, type, type), kSmall, kTried / 3);
    }
  }
}

TEST(AmxTiles, NanAndInfinities) {
  double inf = std::numeric_limits<double>::infinity();
  expect_tiles_agree(narrow_product(21, 18, 9, DType::bf16, DType::bf16),
                     {0, 1, -2, 3, 4, 1, 2, inf, std::nan("")}, kTried);
}

TEST(AmxTiles, BytesOfAnySigns) {
  const std::vector<double> extreme = {-128, 127, 255, 0, 1, -1, 128};
  for (DType left : {DType::i8, DType::u8}) {
    for (DType right : {DType::i8, DType::u8}) {
      SCOPED_TRACE(std::string(to_string(left)) + " " + std::string(to_string(right)));
      expect_tiles_agree(narrow_product(19, 18, 71, left, right), extreme, kTried);
    }
  }
}

TEST(AmxTiles, Convolutions) {
  for (int64_t channels : {2, 4, 7}) {
    for (DType type : {DType::bf16, DType::u8}) {
      expect_tiles_agree(inner_convolution(channels, type, type), kSmall, kTried / 5);
    }
  }
}

TEST(AmxTiles, TakenWhereTheTargetHasThem) {
  for (auto [left, right] : {std::pair{DType::bf16, DType::bf16},
                             {DType::u8, DType::i8},
                             {DType::i8, DType::i8},
                             {DType::u8, DType::u8}}) {
    Kernel kernel = narrow_product(256, 256, 256, left, right);
    EXPECT_TRUE(has_tiles(analytic_schedule(kernel, tile_target())));
    EXPECT_FALSE(has_tiles(analytic_schedule(kernel, wide_target())));
    Schedule s = analytic_schedule(kernel, tile_target());
    EXPECT_EQ(parse_schedule(print(s)), s);
    EXPECT_NE(illegal(s, kernel, wide_target()), "");
    EXPECT_NE(illegal(s, kernel, h200_target()), "");
  }
}

TEST(AmxTiles, IllegalWhereARegisterCannot) {
  Target target = tile_target();
  auto rule = [&](const Kernel& kernel, const std::string& tile, const std::string& reduce,
                  const std::string& pack) {
    return illegal(
        parse_schedule("schedule { stage { piece outer (0:32 serial, 1:32 serial) reduce (" +
                       reduce + ") tile (" + tile + ") " + pack + " } }"),
        kernel, target);
  };
  Kernel kernel = narrow_product(64, 64, 64, DType::bf16, DType::bf16);
  const std::string tile = "0:16 unroll, 1:16 unroll, 0:1 matrix, 1:1 matrix";
  const std::string reduce = "2:32 serial, 2:2 matrix, 2:1 dot";
  const std::string columns = "pack 1 level 0 (1:16 serial, 2:2 serial, 1:1 serial, 2:1 serial)";
  EXPECT_EQ(rule(kernel, tile, reduce, columns), "");
  EXPECT_EQ(rule(kernel, tile, reduce, ""), "columns that are not copied");
  EXPECT_EQ(rule(kernel, "0:1 matrix, 1:1 matrix", reduce, columns),
            "a tile larger than its register");
  EXPECT_EQ(rule(kernel, tile, "2:2 matrix, 2:1 dot", columns), "a tile larger than its register");
  EXPECT_EQ(rule(kernel, "0:8 unroll, 1:16 unroll, 0:1 matrix, 1:1 matrix", reduce, columns),
            "more tiles than registers");
  EXPECT_EQ(rule(kernel, "0:1 unroll, 1:1 vector", reduce, columns),
            "matrix loops elsewhere than last");
  EXPECT_EQ(rule(narrow_product(64, 64, 63, DType::bf16, DType::bf16), tile, reduce, columns),
            "rows that memory does not have");
  EXPECT_EQ(rule(matrix_product(64, 64, 64), tile, reduce, columns), "tiles of other terms");
}

// Rows are read where they lie only if their terms are neighbours there.
TEST(AmxTiles, RowsThatStridesLeaveApartAreCopied) {
  Kernel kernel = narrow_product(40, 33, 64, DType::bf16, DType::bf16);
  Schedule schedule = parse_schedule(
      "schedule { stage { piece outer (0:32 serial, 1:32 serial) reduce (2:32 serial, 2:2 matrix, "
      "2:1 dot) tile (0:16 unroll, 1:16 unroll, 0:1 matrix, 1:1 matrix) pack 1 level 0 (1:16 "
      "serial, 2:2 serial, 1:1 serial, 2:1 serial) } }");
  ASSERT_EQ(illegal(schedule, kernel, tile_target()), "");
  Values inputs = small_integers(kernel, 5), expected = inputs;
  brute_force(kernel, expected);
  Strides apart(kernel.tensors.size());
  apart[0] = {128, 2};
  nest::Nest dense = lower(kernel, schedule, tile_target());
  nest::Nest strided = lower(kernel, schedule, tile_target(), apart);
  EXPECT_EQ(strided.buffers.size(), dense.buffers.size() + 1);
  for (const nest::Nest* nest : {&dense, &strided}) {
    nest::verify(*nest);
    EXPECT_EQ(
        nest::print(nest::parse_nest(std::make_shared<Source>(Source{"nest", nest::print(*nest)}))),
        nest::print(*nest));
    EXPECT_EQ(difference(kernel, run_nest(*nest, kernel, inputs), expected), "");
  }
}

}  // namespace
}  // namespace tile::testing
