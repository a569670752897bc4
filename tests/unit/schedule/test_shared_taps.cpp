// Windows that overlap along a tile's rows: where every reduction is a tap, one of them is written
// out and the rows share what they read.
#include <gtest/gtest.h>

#include "core/lower/lower.h"
#include "core/schedule/cost/estimate.h"
#include "core/schedule/facts/access_facts.h"
#include "core/schedule/space/candidates.h"
#include "tests/support/schedule_kernels.h"

namespace tile::testing {
namespace {

NodeId product_of(Body& body, const std::vector<NodeId>& loads) {
  return body.operation(Op::mul, {loads[0], loads[1]}, DType::f32);
}
NodeId same(Body&, const std::vector<NodeId>& loads) { return loads[0]; }

std::string tap_of(const char* parallel_dim, const char* tap, int64_t stride, int64_t dilation) {
  return std::to_string(stride) + "*" + parallel_dim + " + " + std::to_string(dilation) + "*" +
         tap + " - 1";
}

// A filter of taps x taps for each channel; without filters the largest of each window.
Kernel windows(int64_t size, int64_t channels, int64_t taps, int64_t stride, int64_t dilation,
               bool filters) {
  KernelBuilder b;
  int64_t cells = (size + stride - 1) / stride;
  TensorId I = b.tensor("I", DType::f32, {size, size, channels});
  TensorId K = b.tensor("K", DType::f32, {taps, taps, channels});
  TensorId O = b.tensor("O", DType::f32, {cells, cells, channels});
  std::string y = tap_of("y", "j", stride, dilation), x = tap_of("x", "i", stride, dilation);
  std::vector<std::pair<TensorId, std::vector<std::string>>> loads{{I, {y, x, "c"}}};
  if (filters) loads.push_back({K, {"j", "i", "c"}});
  b.stage(O, filters ? Aggregation::sum : Aggregation::max, DType::f32,
          {{{"y", "x", "c", "j", "i"},
            {cells, cells, channels, taps, taps},
            3,
            {"y", "x", "c"},
            {loads.begin(), loads.end()},
            {{y, 0, size}, {x, 0, size}},
            filters ? product_of : same}});
  return b.finish();
}

bool writes_out(const Schedule& s) {
  const std::vector<Loop>& reduce = s.stages[0][0].reduce;
  return !reduce.empty() && reduce.back().binding == Binding::unroll;
}

TEST(SharedTaps, WrittenOutForDepthwiseFiltersAndPools) {
  for (bool filters : {true, false}) {
    Schedule s = analytic_schedule(windows(56, 128, 3, filters ? 1 : 2, 1, filters), wide_target());
    EXPECT_TRUE(writes_out(s)) << print(s);
    EXPECT_EQ(s.stages[0][0].tile[0].binding, Binding::unroll) << print(s);
  }
  // Windows side by side share nothing.
  Schedule apart = analytic_schedule(windows(64, 128, 2, 2, 1, false), wide_target());
  EXPECT_FALSE(writes_out(apart)) << print(apart);
}

TEST(SharedTaps, DistinctReadsOfOverlappingWindows) {
  AccessFacts a;
  auto part = [&](int64_t row, int64_t rows, int64_t tap, int64_t taps) {
    a.strides = {row, tap};
    return a.distinct_part(0, rows, 1, taps) * static_cast<double>(rows * taps);
  };
  EXPECT_DOUBLE_EQ(part(8, 7, 8, 3), 9);
  EXPECT_DOUBLE_EQ(part(16, 4, 8, 3), 9);  // stride 2
  EXPECT_DOUBLE_EQ(part(8, 4, 16, 3), 8);  // dilation 2
  EXPECT_DOUBLE_EQ(part(16, 4, 8, 2), 8);  // side by side
  EXPECT_DOUBLE_EQ(part(8, 4, 0, 3), 4);   // no tap in it
  EXPECT_DOUBLE_EQ(part(0, 4, 8, 3), 12);  // no row in it: not told here
}

TEST(SharedTaps, CandidatesComputeTheSameValues) {
  Target target = wide_target();
  for (bool filters : {true, false}) {
    for (auto [size, channels, taps, stride, dilation] :
         std::vector<std::array<int64_t, 5>>{{9, 5, 3, 1, 1},
                                             {7, 17, 3, 2, 1},
                                             {8, 3, 3, 1, 2},
                                             {5, 33, 5, 1, 1},
                                             {1, 4, 3, 1, 1}}) {
      Kernel kernel = windows(size, channels, taps, stride, dilation, filters);
      Values inputs = small_integers(kernel, 7), expected = inputs;
      brute_force(kernel, expected);
      for (const Schedule& s : candidates(kernel, target, 40)) {
        expect_schedule_agrees(kernel, s, target, inputs, expected);
      }
    }
  }
}

// Rows of the picture in tiles of `rows`, the taps along them written out.
Schedule rows_of(int64_t rows) {
  return parse_schedule(
      "schedule { stage { piece outer (1:1 serial, 2:16 serial, 0:" + std::to_string(rows) +
      " serial) reduce (4:1 serial, 3:1 unroll) tile (0:1 unroll, 2:1 vector) } }");
}
Schedule in_parallel(int64_t rows) {
  Schedule s = rows_of(rows);
  std::vector<Loop>& outer = s.stages[0][0].outer;
  std::rotate(outer.begin(), outer.end() - 1, outer.end());
  outer[0].binding = Binding::parallel;
  return s;
}

// Inside the domain nothing stands between the taps: the test is before their loop.
TEST(SharedTaps, OneTestForAllTapsOfATile) {
  Target target = wide_target();
  for (bool filters : {true, false}) {
    Kernel kernel = windows(20, 16, 3, 1, 1, filters);
    Schedule s = in_parallel(5);
    std::string text = nest::print(lower(kernel, s, target));
    size_t test = text.find(" if ["), taps = text.find("unrolled j_0");
    ASSERT_NE(taps, std::string::npos) << text;
    EXPECT_LT(test, taps) << text;
    EXPECT_GT(text.find(" if [", test + 1), text.find("else")) << text;
    Values inputs = small_integers(kernel, 7), expected = inputs;
    brute_force(kernel, expected);
    expect_schedule_agrees(kernel, s, target, inputs, expected);
  }
}

// Of two tiles each is at a border: as tasks they test every tap's points, side by side in one loop
// each is known to begin or to end there.
TEST(SharedTaps, TilesThatKnowTheirBorderCostLess) {
  Kernel kernel = windows(19, 16, 3, 1, 1, true);
  Target target = wide_target();
  target.threads = 1;
  double known = estimate(rows_of(10), kernel, target);
  double tested = estimate(in_parallel(10), kernel, target);
  EXPECT_LT(1.5 * known, tested);
}

// From behind the second cache windows come along the rows of the picture: down its columns each
// row's next elements are asked for long after the last.
TEST(SharedTaps, PicturesAreWalkedAlongTheirRows) {
  Kernel kernel = windows(300, 64, 3, 2, 1, false);
  Target target = wide_target();
  target.threads = 1;
  auto walked = [&](const char* outer) {
    return estimate(
        parse_schedule("schedule { stage { piece outer (" + std::string(outer) +
                       ") reduce (4:1 serial, 3:1 unroll) tile (0:1 unroll, 2:16 unroll, "
                       "2:1 vector) } }"),
        kernel, target);
  };
  EXPECT_LT(1.2 * walked("0:3 serial, 1:1 serial, 2:32 serial"),
            walked("1:1 serial, 2:32 serial, 0:3 serial"));
}

}  // namespace
}  // namespace tile::testing
