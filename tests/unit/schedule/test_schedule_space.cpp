// Legality, the analytic pick, the search.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/kernel/geometry.h"
#include "core/nest/passes/nest_passes.h"
#include "core/schedule/cost/estimate.h"
#include "core/schedule/cost/piece/packing_cost.h"
#include "core/schedule/cost/piece/piece_model.h"
#include "core/schedule/cost/piece/thread_cost.h"
#include "core/schedule/legality/legality.h"
#include "core/schedule/search/search.h"
#include "core/schedule/space/candidates.h"
#include "tests/support/schedule_kernels.h"

namespace tile::testing {
namespace {

std::vector<Kernel> examples() {
  return {matrix_product(64, 96, 80),
          matrix_product(1, 300, 40),
          matrix_product(600, 520, 700),
          matrix_product(33, 1, 900, DType::bf16),
          convolution(1, 14, 16, 32, 3, 1, 1),
          convolution(2, 30, 3, 8, 5, 2, 2),
          depthwise(40, 33, 3),
          max_pool(20, 17, 3, 2, 1),
          row_sum(50, 300, false),
          row_sum(50, 300, true),
          row_sum(1, 100000, false),
          prefix_sum(100),
          scaled_copy({7, 9, 3}),
          transpose(100, 70),
          matrix_bias_gelu(40, 50, 60)};
}

bool has_vector_loop(const PieceSchedule& s) {
  auto vector = [](const std::vector<Loop>& l) {
    return !l.empty() && l.back().binding == Binding::vector;
  };
  return vector(s.tile) || vector(s.reduce);
}

TEST(ScheduleSpace, CandidatesAreLegalSortedAndVectorised) {
  for (const Kernel& kernel : examples()) {
    for (const Target& target : {small_target(), wide_target()}) {
      std::vector<Schedule> all = candidates(kernel, target, 12);
      ASSERT_FALSE(all.empty());
      EXPECT_EQ(all[0], analytic_schedule(kernel, target));
      double before = 0;
      for (const Schedule& s : all) {
        EXPECT_EQ(illegal(s, kernel, target), "") << print(s);
        bool carried = s.stages[0][0].carried.valid();  // cell after cell is among the candidates
        EXPECT_TRUE(carried || has_vector_loop(s.stages[0][0])) << print(s);
        double ns = estimate(s, kernel, target);
        EXPECT_GE(ns * (1 + 1e-9), before) << print(s);
        before = ns;
      }
    }
  }
}

TEST(ScheduleSpace, CandidatesComputeTheSameValues) {
  for (const Kernel& kernel :
       {matrix_product(20, 37, 24), matrix_product(45, 5, 141), matrix_product(5, 147, 70),
        matrix_product(1, 90, 67), convolution(1, 9, 5, 18, 3, 1, 1), max_pool(12, 17, 3, 2, 1),
        row_sum(9, 200, false), row_sum(40, 33, true), prefix_sum(40), transpose(40, 36),
        scaled_copy({5, 7, 3}), matrix_bias_gelu(15, 33, 9)}) {
    Values inputs = small_integers(kernel, 5), expected = inputs;
    brute_force(kernel, expected);
    for (Target target : {small_target(), wide_target()}) {
      target.l1_bytes = 2048;  // so that blocks for the caches are tried on small tensors
      target.l2_bytes = 4096;
      for (const Schedule& s : candidates(kernel, target, 24)) {
        nest::Nest nest = nest::run_passes(lower(kernel, s, target), target);
        ASSERT_EQ(difference(kernel, expected, run_nest(nest, kernel, inputs)), "") << print(s);
      }
    }
  }
}

TEST(ScheduleSpace, ThreadsOnlyWhereTheWorkPays) {
  Schedule small = analytic_schedule(matrix_product(16, 16, 16), wide_target());
  EXPECT_NE(small.stages[0][0].outer[0].binding, Binding::parallel);
  Schedule large = analytic_schedule(matrix_product(512, 512, 512), wide_target());
  EXPECT_EQ(large.stages[0][0].outer[0].binding, Binding::parallel);
}

// Whole blocks that memory has the other way round are turned; the rows left over are gathered.
TEST(ScheduleSpace, CopiesThatTurnBlocksCostLess) {
  auto copied = [](int64_t terms) {
    KernelBuilder b;
    TensorId X = b.tensor("X", DType::f32, {64, terms}), Y = b.tensor("Y", DType::f32, {64, terms});
    TensorId O = b.tensor("O", DType::f32, {64, 64});
    b.stage(O, Aggregation::sum, DType::f32,
            {{{"a", "c", "e"},
              {64, 64, terms},
              2,
              {"a", "c"},
              {{X, {"a", "e"}}, {Y, {"c", "e"}}},
              {},
              [](Body& body, const std::vector<NodeId>& loads) {
                return body.operation(Op::mul, {loads[0], loads[1]}, DType::f32);
              }}});
    Kernel kernel = b.finish();
    const Contraction& c = kernel.stages[0].contraction;
    Target target = wide_target();
    return packing_ns(
        PieceFacts(c.pieces[0], c, kernel, target),
        parse_schedule("schedule { stage { piece outer (0:8 serial, 1:32 serial) "
                       "reduce (2:1 serial) tile (0:1 unroll, 1:16 unroll, 1:1 vector) "
                       "pack 1 level 0 (1:32 serial, 2:1 serial, 1:1 serial) } }")
            .stages[0][0]);
  };
  EXPECT_LT(copied(64), copied(63));
}

// A copy that no thread would be started for is no parallel loop: its lines, 80, go to the others.
TEST(ScheduleSpace, SmallCopiesStartNoThreads) {
  Kernel kernel = matrix_product(300, 32, 40);
  Target target = wide_target();
  target.threads = 2;
  const Contraction& c = kernel.stages[0].contraction;
  PieceModel model(c.pieces[0], c, kernel, target);
  PieceSchedule s =
      parse_schedule(
          "schedule { stage { piece outer (0:10 parallel, 1:32 serial) reduce (2:1 serial) tile "
          "(0:1 unroll, 1:16 unroll, 1:1 vector) pack 1 level 0 (1:32 serial, 2:1 serial, "
          "1:1 serial) } }")
          .stages[0][0];
  ASSERT_EQ(illegal_piece(s, c.pieces[0], c, kernel, target), "");
  double serial = model.serial_ns(s);
  ASSERT_GE(serial, 2 * kChunkNanoseconds);
  EXPECT_DOUBLE_EQ(model.nanoseconds(s),
                   target.parallel_overhead_ns + serial * (0.5 + 0.05 / 30) + 80 * 25);
}

// Threads that are not equally fast wait for less where the last tasks are small.
TEST(ScheduleSpace, SmallTasksLeaveLittleToWaitFor) {
  Target target = wide_target();
  target.threads = 2;
  double serial = 1e6, half = target.parallel_overhead_ns + serial / 2;
  EXPECT_GT(threaded_ns(serial, 2, target), 1.02 * threaded_ns(serial, 8, target));
  EXPECT_GT(threaded_ns(serial, 8, target), threaded_ns(serial, 64, target));
  EXPECT_LT(threaded_ns(serial, 64, target), 1.01 * half);
  EXPECT_EQ(threaded_ns(serial, 1, target), serial);
}

// Tiles of both parallel dimensions become tasks where each is work enough, panels with a copy of
// their own where they are several for each thread.
TEST(ScheduleSpace, TasksAreManyWhereTheirWorkIsEnough) {
  Target target = wide_target();
  target.threads = 2;
  auto tasks = [&](int64_t size) {
    Kernel kernel = matrix_product(size, size, size);
    const Piece& piece = kernel.stages[0].contraction.pieces[0];
    Schedule schedule = analytic_schedule(kernel, target);
    int64_t count = 1;
    for (const Loop& l : schedule.stages[0][0].outer) {
      if (l.binding != Binding::parallel) break;
      count *= ceil_div(piece.box[l.iterator], l.step);
    }
    return count;
  };
  EXPECT_GE(tasks(256), 16);
  EXPECT_GE(tasks(512), 8);
}

// Of four blocks with a short last one, the thread that takes the first two has more than half.
TEST(ScheduleSpace, UnequalBlocksAreNotHalvesOfTheWork) {
  Kernel kernel = matrix_product(512, 480, 300);
  Target target = small_target();
  const Contraction& c = kernel.stages[0].contraction;
  PieceModel model(c.pieces[0], c, kernel, target);
  auto share = [&](const std::vector<int64_t>& steps) {
    PieceSchedule s = plain_schedule(c.pieces[0]);
    std::erase_if(s.outer, [](const Loop& l) { return l.iterator < IteratorId(2); });
    for (size_t u = steps.size(); u-- > 0;) {
      s.outer.insert(s.outer.begin(), {IteratorId(u), steps[u], Binding::parallel});
      s.outer.push_back({IteratorId(u), 1, Binding::serial});
    }
    if (steps.size() < 2) s.outer.push_back({IteratorId(1), 1, Binding::serial});
    EXPECT_EQ(illegal_piece(s, c.pieces[0], c, kernel, target), "");
    return (model.nanoseconds(s) - target.parallel_overhead_ns) / model.serial_ns(s);
  };
  // The last task keeps one thread busy alone for a twentieth of it.
  EXPECT_DOUBLE_EQ(share({128}), 0.5 + 0.05 / 4);
  EXPECT_DOUBLE_EQ(share({144}), 288.0 / 512 + 0.05 / 4);
  EXPECT_DOUBLE_EQ(share({300}), 300.0 / 512 + 0.05 / 2);
  // Three blocks of rows, for each two of columns: the first thread has one row of blocks and a
  // half of the second.
  EXPECT_DOUBLE_EQ(share({200, 300}), 200.0 / 512 * (1 + 300.0 / 480) + 0.05 / 6);
}

TEST(ScheduleSpace, PrefixSumsAreLinear) {
  Kernel kernel = prefix_sum(1000);
  Schedule s = analytic_schedule(kernel, wide_target());
  EXPECT_EQ(s.stages[0][0].carried, IteratorId(0)) << print(s);
  EXPECT_TRUE(has_vector_loop(s.stages[0][0])) << print(s);
  Values inputs = small_integers(kernel, 5), expected = inputs;
  brute_force(kernel, expected);
  nest::NestCounts counts;
  Values got = run_nest(lower(kernel, s, wide_target()), kernel, inputs, &counts);
  EXPECT_EQ(difference(kernel, expected, got), "");
  EXPECT_LE(counts.stores, 2 * 1000 + 1);
}

TEST(ScheduleSpace, RegisterTilesFillTheRegisters) {
  Kernel kernel = matrix_product(384, 384, 384);
  const Piece& piece = kernel.stages[0].contraction.pieces[0];
  for (const Target& target : {small_target(), wide_target()}) {
    Schedule s = analytic_schedule(kernel, target);
    int64_t vectors = vectors_in_tile(s.stages[0][0], piece, DType::f32, target);
    EXPECT_GE(vectors, target.vector_registers / 2) << print(s);
    EXPECT_LE(vectors + 2, target.vector_registers) << print(s);
  }
}

// Few columns leave lanes along them empty; the few are copied so that lanes run along the sum.
TEST(ScheduleSpace, FewColumnsRunTheirLanesAlongTheSum) {
  for (int64_t columns : {3, 8}) {
    PieceSchedule s =
        analytic_schedule(matrix_product(900, columns, 1500), wide_target()).stages[0][0];
    ASSERT_EQ(s.reduce.back().binding, Binding::vector);
    ASSERT_EQ(s.packings.size(), 1U);
    EXPECT_EQ(s.packings[0].load, 1U);
    EXPECT_EQ(s.packings[0].order.back(), (Loop{IteratorId(2), 1, Binding::serial}));
    EXPECT_EQ(s.tile.size(), 2U);  // rows and columns share what is read
  }
}

// Channels first: rows of pixels would leave lanes empty and test them at the border. Cells are
// stored apart, once for all terms of their sums.
// From the second cache one row after the other comes faster than several in turns.
TEST(ScheduleSpace, RowsAreSummedOneByOne) {
  KernelBuilder b;
  TensorId X = b.tensor("X", DType::f32, {116, 778}), O = b.tensor("O", DType::f32, {116});
  b.stage(O, Aggregation::sum, DType::f32,
          {{{"m", "n"},
            {116, 778},
            1,
            {"m"},
            {{X, {"m", "n"}}},
            {},
            [](Body&, const std::vector<NodeId>& loads) { return loads[0]; }}});
  Target target = wide_target();
  target.threads = 1;
  PieceSchedule s = analytic_schedule(b.finish(), target).stages[0][0];
  EXPECT_TRUE(s.tile.empty());
  EXPECT_EQ(s.reduce.back(), (Loop{IteratorId(1), 1, Binding::vector}));
}

// Of the sum over a middle axis, what a row holds is read before the rows of other sums: what the
// processor fetches ahead past a part of a row would be lost until the rest is read.
TEST(ScheduleSpace, RowsAreReadWholeBeforeOthers) {
  KernelBuilder b;
  TensorId X = b.tensor("X", DType::f32, {256, 64, 256}), O = b.tensor("O", DType::f32, {256, 256});
  b.stage(O, Aggregation::sum, DType::f32,
          {{{"l", "n", "m"},
            {256, 256, 64},
            2,
            {"l", "n"},
            {{X, {"l", "m", "n"}}},
            {},
            [](Body&, const std::vector<NodeId>& loads) { return loads[0]; }}});
  Kernel kernel = b.finish();
  Target target = wide_target();
  target.threads = 2;
  target.l3_bytes = 64 << 20;
  auto nanoseconds = [&](const std::string& outer) {
    return estimate(parse_schedule("schedule { stage { piece outer (" + outer +
                                   ") reduce (2:1 serial) tile (0:1 unroll, 1:16 unroll, 1:1 "
                                   "vector) } }"),
                    kernel, target);
  };
  const double apart = nanoseconds("1:64 parallel, 0:4 parallel");
  EXPECT_GT(apart, 1.2 * nanoseconds("0:4 parallel, 1:64 serial"));
  EXPECT_GT(apart, 1.2 * nanoseconds("0:8 parallel, 1:64 serial, 0:4 serial"));
  PieceSchedule s = analytic_schedule(kernel, target).stages[0][0];
  EXPECT_EQ(s.outer.front().iterator, IteratorId(0));
}

// Tiles of short sums overlap: copies of an operand that lies across the lanes pay at once.
TEST(ScheduleSpace, ShortSumsOverlapTheirNeighbours) {
  KernelBuilder b;
  TensorId X = b.tensor("X", DType::f32, {40, 8, 24}), Y = b.tensor("Y", DType::f32, {19, 8});
  TensorId O = b.tensor("O", DType::f32, {40, 24, 19});
  b.stage(O, Aggregation::sum, DType::f32,
          {{{"a", "b", "c", "e"},
            {40, 24, 19, 8},
            3,
            {"a", "b", "c"},
            {{X, {"a", "e", "b"}}, {Y, {"c", "e"}}},
            {},
            [](Body& body, const std::vector<NodeId>& loads) {
              return body.operation(Op::mul, {loads[0], loads[1]}, DType::f32);
            }}});
  Target target = wide_target();
  target.threads = 2;
  target.fma_per_ns = 120;
  target.parallel_overhead_ns = 800;
  Schedule s = analytic_schedule(b.finish(), target);
  EXPECT_FALSE(s.stages[0][0].packings.empty()) << print(s);
}

TEST(ScheduleSpace, LanesMayStoreApartWhereSumsAreLong) {
  KernelBuilder b;
  TensorId I = b.tensor("I", DType::f32, {64, 28, 28}),
           K = b.tensor("K", DType::f32, {64, 64, 3, 3});
  TensorId O = b.tensor("O", DType::f32, {64, 28, 28});
  b.stage(O, Aggregation::sum, DType::f32,
          {{{"o", "y", "x", "c", "r", "s"},
            {64, 28, 28, 64, 3, 3},
            3,
            {"o", "y", "x"},
            {{I, {"c", "y + r - 1", "x + s - 1"}}, {K, {"o", "c", "r", "s"}}},
            {{"y + r - 1", 0, 28}, {"x + s - 1", 0, 28}},
            [](Body& body, const std::vector<NodeId>& loads) {
              return body.operation(Op::mul, {loads[0], loads[1]}, DType::f32);
            }}});
  PieceSchedule s = analytic_schedule(b.finish(), wide_target()).stages[0][0];
  EXPECT_EQ(s.tile.back(), (Loop{IteratorId(0), 1, Binding::vector}));
}

// The sums stay in the cache while blocks of the rows that they reduce pass by.
TEST(ScheduleSpace, LongSumsOfFewCellsPassByInBlocks) {
  Kernel kernel = filter_gradient(8, 56, 64, 64, 3, 1);
  Target target = wide_target();
  target.threads = 2;
  Schedule s = analytic_schedule(kernel, target);
  const std::vector<Loop>& outer = s.stages[0][0].outer;
  EXPECT_TRUE(std::any_of(outer.begin(), outer.end(), [](const Loop& l) {
    return l.iterator >= IteratorId(4);
  })) << print(s);
}

// What a maximum over no points would be is not known before the last block.
TEST(ScheduleSpace, BlocksThatMayLeaveNoPointAreForSumsOnly) {
  auto broken = [](const Kernel& kernel) {
    return illegal(
        parse_schedule("schedule { stage { piece outer (0:1 serial, 1:1 serial, 2:2 serial) "
                       "reduce (2:1 serial) tile () } }"),
        kernel, small_target());
  };
  Kernel sums = depthwise(13, 9, 5), most = sums;
  EXPECT_EQ(broken(sums), "");
  most.stages[0].contraction.aggregation = Aggregation::max;
  EXPECT_EQ(broken(most), "");  // each window holds its middle
  for (Constraint& c : most.stages[0].contraction.pieces[0].constraints) c.hi = 3;
  EXPECT_NE(broken(most), "");
}

// The long operand is read once, where it lies.
TEST(ScheduleSpace, FewRowsLeaveTheLongOperandWhereItIs) {
  for (int64_t rows : {1, 4, 16}) {
    PieceSchedule s =
        analytic_schedule(matrix_product(rows, 2048, 2048), wide_target()).stages[0][0];
    EXPECT_EQ(s.tile.back(), (Loop{IteratorId(1), 1, Binding::vector}));
    for (const Packing& p : s.packings) EXPECT_EQ(p.load, 0U);
  }
}

TEST(ScheduleSpace, NothingIsCopiedIntoTheOrderThatItHas) {
  for (const Schedule& s : candidates(matrix_product(512, 512, 512), wide_target(), 100)) {
    for (const Packing& p : s.stages[0][0].packings) {
      bool rows = p.level == 0 && p.order.size() == 2 && p.order[0].step == 1;
      EXPECT_FALSE(rows && p.order[0].iterator < p.order[1].iterator && p.load == 0) << print(s);
    }
  }
}

TEST(ScheduleSpace, TransposedCopiesTurnBlocksOfWholeRows) {
  for (Kernel kernel : {transpose(100, 70), transpose(1000, 3000), transpose(2048, 2048)}) {
    PieceSchedule s = analytic_schedule(kernel, wide_target()).stages[0][0];
    ASSERT_EQ(s.tile.size(), 2U);
    EXPECT_EQ(s.tile[0].binding, Binding::unroll);
    EXPECT_EQ(s.tile[1].binding, Binding::vector);
    EXPECT_NE(s.tile[0].iterator, s.tile[1].iterator);
    auto rows = std::find_if(s.outer.rbegin(), s.outer.rend(),
                             [&](const Loop& l) { return l.iterator == s.tile[0].iterator; });
    EXPECT_EQ(rows->step, 16) << "a line of each row";
    EXPECT_TRUE(s.packings.empty());
  }
}

NodeId product(Body& b, const std::vector<NodeId>& loads) {
  return b.operation(Op::mul, {loads[0], loads[1]}, b[loads[0]].type);
}

// A group's weights and pictures are its own: nothing is read again where it is outermost.
TEST(ScheduleSpace, GroupsComeBeforeTheLoopsThatShare) {
  KernelBuilder b;
  TensorId I = b.tensor("I", DType::f32, {4, 28, 8, 32}),
           K = b.tensor("K", DType::f32, {8, 32, 32});
  TensorId O = b.tensor("O", DType::f32, {4, 28, 8, 32});
  b.stage(O, Aggregation::sum, DType::f32,
          {{{"n", "x", "g", "o", "c"},
            {4, 28, 8, 32, 32},
            4,
            {"n", "x", "g", "o"},
            {{I, {"n", "x", "g", "c"}}, {K, {"g", "c", "o"}}},
            {},
            product}});
  Kernel kernel = b.finish();
  auto group_at = [](const Schedule& s, size_t place) {
    const std::vector<Loop>& outer = s.stages[0][0].outer;
    return outer.size() > place && outer[place].iterator == IteratorId(2);
  };
  std::vector<Schedule> all = candidates(kernel, wide_target(), 1000);
  for (size_t place : {0, 1}) {
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const Schedule& s) {
      return group_at(s, place);
    })) << place;
  }
}

// A factor whose rows run along the sum is copied in blocks that are read row by row.
TEST(ScheduleSpace, CopiesOfTransposedFactorsTurnBlocks) {
  for (auto [n, k] : {std::pair<int64_t, int64_t>{70, 50}, {64, 64}, {33, 9}}) {
    KernelBuilder b;
    TensorId A = b.tensor("A", DType::f32, {20, k}), B = b.tensor("B", DType::f32, {n, k});
    TensorId C = b.tensor("C", DType::f32, {20, n});
    b.stage(C, Aggregation::sum, DType::f32,
            {{{"i", "j", "k"},
              {20, n, k},
              2,
              {"i", "j"},
              {{A, {"i", "k"}}, {B, {"j", "k"}}},
              {},
              product}});
    Kernel kernel = b.finish();
    Schedule s = parse_schedule(R"(
schedule {
  stage {
    piece outer (0:4 parallel, 1:32 serial) reduce (2:1 serial) tile (0:1 unroll, 1:16 unroll, 1:1 vector)
      pack 1 level 0 (1:32 serial, 2:1 serial, 1:1 serial)
  }
}
)");
    ASSERT_EQ(illegal(s, kernel, wide_target()), "");
    std::string text = nest::print(lower(kernel, s, wide_target()));
    EXPECT_EQ(text.find("unrolled k_") != std::string::npos, k >= 16) << text;
    Values inputs = small_integers(kernel, 5), expected = inputs;
    brute_force(kernel, expected);
    expect_schedule_agrees(kernel, s, wide_target(), inputs, expected);
  }
}

// Pieces of as many tasks: one parallel loop, behind the copies that all of them need.
TEST(ScheduleSpace, PiecesShareTheirTasks) {
  KernelBuilder b;
  TensorId A = b.tensor("A", DType::f32, {12, 40}), W = b.tensor("W", DType::f32, {2, 40, 32});
  TensorId O = b.tensor("O", DType::f32, {12, 2, 32});
  auto piece = [&](const std::string& place) {
    return KernelBuilder::PieceText{{"i", "j", "k"},
                                    {12, 32, 40},
                                    2,
                                    {"i", place, "j"},
                                    {{A, {"i", "k"}}, {W, {place, "k", "j"}}},
                                    {},
                                    product};
  };
  b.stage(O, Aggregation::sum, DType::f32, {piece("0"), piece("1")});
  Kernel kernel = b.finish();
  Schedule s = parse_schedule(R"(
schedule {
  stage {
    piece outer (0:1 parallel, 1:32 serial) reduce (2:1 serial) tile (1:16 unroll, 1:1 vector)
      pack 1 level 0 (1:32 serial, 2:1 serial, 1:1 serial)
    piece outer (0:1 parallel, 1:32 serial) reduce (2:1 serial) tile (1:16 unroll, 1:1 vector)
      pack 1 level 0 (1:32 serial, 2:1 serial, 1:1 serial)
  }
}
)");
  ASSERT_EQ(illegal(s, kernel, wide_target()), "");
  nest::Nest nest = lower(kernel, s, wide_target());
  int tasks = 0;
  for (const nest::Statement& statement : nest.body) {
    const auto* loop = std::get_if<nest::For>(&statement.what);
    bool parallel = loop != nullptr && loop->kind == nest::LoopKind::parallel;
    tasks += parallel && loop->extent.is_constant(12) ? 1 : 0;
  }
  EXPECT_EQ(tasks, 1) << nest::print(nest);
  Values inputs = small_integers(kernel, 5), expected = inputs;
  brute_force(kernel, expected);
  expect_schedule_agrees(kernel, s, wide_target(), inputs, expected);
}

TEST(ScheduleSpace, BrokenRulesAreNamed) {
  Kernel kernel = matrix_product(8, 8, 8);
  Target target = small_target();
  auto broken = [&](const std::string& piece) {
    return illegal(parse_schedule("schedule { stage { piece " + piece + " } }"), kernel, target);
  };
  EXPECT_EQ(broken("outer (0:1 serial, 1:1 serial) reduce (2:1 serial) tile ()"), "");
  EXPECT_NE(broken("outer (0:1 serial) reduce (2:1 serial) tile ()"), "");
  EXPECT_NE(
      broken("outer (0:3 serial, 0:2 serial, 0:1 serial, 1:1 serial) reduce (2:1 serial) tile ()"),
      "");
  EXPECT_NE(broken("outer (0:1 serial, 2:1 serial) reduce (1:1 serial) tile ()"), "");
  EXPECT_NE(broken("outer (0:1 serial, 1:1 parallel) reduce (2:1 serial) tile ()"), "");
  EXPECT_NE(broken("outer (0:1 serial, 1:8 serial) reduce (2:1 vector) tile (1:1 vector)"), "");
  EXPECT_NE(
      broken("outer (0:8 serial, 1:8 serial) reduce (2:1 serial) tile (0:1 unroll, 1:1 unroll)"),
      "");
  EXPECT_NE(
      broken(
          "outer (0:1 serial, 1:1 serial) reduce (2:1 serial) tile () pack 0 level 1 (1:1 serial)"),
      "");
}

TEST(ScheduleSpace, SearchReturnsTheFastest) {
  Kernel kernel = matrix_product(64, 64, 64);
  std::vector<Schedule> all = field_of(kernel, wide_target(), {});
  ASSERT_GT(all.size(), 3U);
  const Schedule& fastest = all[all.size() / 2];
  size_t calls = 0;
  auto measure = [&](const Schedule& s) {
    ++calls;
    if (s == all[0]) return std::numeric_limits<double>::infinity();
    return s == fastest ? 100.0 : 200.0;
  };
  EXPECT_EQ(search(kernel, wide_target(), measure, {}), fastest);
  EXPECT_GE(calls, all.size());
  SearchOptions nothing;
  nothing.budget_ns = 0;
  EXPECT_EQ(search(kernel, wide_target(), measure, nothing), all[0]);
}

// The operand along the vector is packed once, however many blocks of rows there are.
TEST(ScheduleSpace, LargeProductsPackPanelsOnce) {
  Target target = wide_target();
  target.threads = 2;
  Kernel kernel = matrix_product(8192, 8192, 8192);
  const PieceSchedule s = analytic_schedule(kernel, target).stages[0][0];
  IteratorId vector = s.tile.back().iterator;
  auto along = std::find_if(s.packings.begin(), s.packings.end(),
                            [&](const Packing& p) { return p.order.back().iterator == vector; });
  ASSERT_NE(along, s.packings.end());
  EXPECT_EQ(along->level, 0U);
}

}  // namespace
}  // namespace tile::testing
