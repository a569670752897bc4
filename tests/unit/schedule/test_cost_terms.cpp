// Single terms of the analytic model: what loads cost beside arithmetic, vectors that lie in two
// lines, windows that overlap from block to block.
#include <gtest/gtest.h>

#include "core/kernel/schedule.h"
#include "core/schedule/cost/piece/access_cycles.h"
#include "core/schedule/cost/piece/piece_model.h"
#include "tests/support/schedule_kernels.h"

namespace tile::testing {
namespace {

Target one_thread() {
  Target target = wide_target();
  target.threads = 1;
  return target;
}

PieceSchedule piece(const std::string& text) {
  return parse_schedule("schedule { stage { piece " + text + " } }").stages[0][0];
}

PieceModel model_of(const Kernel& kernel, const Target& target) {
  const Contraction& c = kernel.stages[0].contraction;
  return PieceModel(c.pieces[0], c, kernel, target);
}

// Of tiles that the arithmetic bounds, those with fewer loads for each multiply-add are better: on
// a core that another thread works on too they were, by up to a third.
TEST(CostTerms, FewerLoadsAreBetterWhereArithmeticIsTheBound) {
  Kernel kernel = matrix_product(168, 192, 512);
  Target target = one_thread();
  PieceModel model = model_of(kernel, target);
  auto cycles = [&](int rows, int columns) {
    std::string inside = columns > 16 ? "1:16 unroll, " : "";
    return model.compute_ns(
        piece("outer (0:" + std::to_string(rows) + " serial, 1:" + std::to_string(columns) +
              " serial) reduce (2:1 serial) tile (0:1 unroll, " + inside + "1:1 vector)"));
  };
  EXPECT_LT(cycles(6, 64), cycles(14, 32));
  EXPECT_LT(cycles(8, 48), cycles(14, 32));
  EXPECT_LT(cycles(14, 32), cycles(28, 16));
  EXPECT_LT(cycles(14, 32), 1.1 * cycles(6, 64));
}

// Rows of 52 elements begin at every fourth of a line, rows of 49 at every element.
TEST(CostTerms, VectorsOfRowsThatBeginInsideLinesLieInTwo) {
  Target target = one_thread();
  auto lines = [&](int64_t columns) {
    Kernel kernel = matrix_product(32, columns, 64);
    PieceModel model = model_of(kernel, target);
    const AccessFacts& right = model.facts().accesses[1];
    AccessCycles cycles(model.facts());
    IteratorId column(1), none;
    EXPECT_EQ(cycles.vector_cycles(right, column, true), cycles.vector_cycles(right, none, false));
    return cycles.lines_of_vector(right, column);
  };
  EXPECT_EQ(lines(48), 1);
  EXPECT_EQ(lines(52), 1.75);
  EXPECT_EQ(lines(49), 1 + 15.0 / 16);
}

// What the calling thread copies before a parallel loop goes from its cache to the others': a copy
// that is about worth its time on one thread is not on two (a 3x3 convolution of 11 us took 14).
TEST(CostTerms, SmallCopiesGoFromCacheToCache) {
  Kernel kernel = convolution(2, 13, 17, 10, 3, 1, 1);
  auto gain = [&](int threads) {
    Target target = wide_target();
    target.threads = threads;
    PieceModel model = model_of(kernel, target);
    std::string binding = threads > 1 ? " parallel" : " serial";
    std::string how = "outer (0:1" + binding + ", 2:1" + binding +
                      ", 1:13 serial, 3:16 serial) reduce (4:1 serial, 5:1 serial, 6:1 serial) "
                      "tile (1:1 unroll, 3:1 vector)";
    std::string copy =
        " pack 1 level 0 (3:16 serial, 4:1 serial, 5:1 serial, 6:1 serial, 3:1 "
        "serial)";
    return model.nanoseconds(piece(how)) - model.nanoseconds(piece(how + copy));
  };
  EXPECT_LT(gain(2), gain(1) / 2 - 1000);
}

// What one block of rows shares with the next stays in the cache: blocks of four rows and of eight
// bring the same picture, but for a few lines.
TEST(CostTerms, WindowsThatOverlapAreBroughtOnce) {
  Kernel kernel = max_pool(114, 64, 3, 1, 0);
  Target target = one_thread();
  target.l2_bytes = 1 << 20;
  target.l3_bytes_per_ns = 0.1;  // so that it alone counts
  PieceModel model = model_of(kernel, target);
  auto nanoseconds = [&](int rows) {
    return model.serial_ns(piece("outer (0:" + std::to_string(rows) +
                                 " serial, 1:1 serial, 2:16 serial) reduce (4:1 serial, 3:1 "
                                 "serial) tile (0:1 unroll, 2:1 vector)"));
  };
  EXPECT_LT(nanoseconds(4), 1.03 * nanoseconds(8));
  EXPECT_GT(nanoseconds(4), 0.97 * nanoseconds(8));
}

}  // namespace
}  // namespace tile::testing
