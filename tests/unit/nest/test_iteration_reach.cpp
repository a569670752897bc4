// How far iterations of a parallel loop reach into each other's results.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/nest/iteration_reach.h"

namespace tile::nest {
namespace {

Nest nest_of(const std::string& body, const std::string& more = "") {
  std::string text =
      "nest n\nargument A: f32 [30, 8] strides [8, 1]\n"
      "argument B: f32 [30, 8] strides [8, 1] written\n" +
      more + body;
  return parse_nest(std::make_shared<const Source>(Source{"nest", text}));
}

std::optional<Reach> reach_of(const Nest& nest, const std::vector<int64_t>& grid, size_t along) {
  auto accesses = IterationAccesses::of(nest, grid);
  if (!accesses) return std::nullopt;
  EXPECT_EQ(accesses->written(), std::vector<BufferId>{BufferId(1)});
  auto stored = accesses->stored(BufferId(1), along);
  if (!stored) return std::nullopt;
  return accesses->reach(BufferId(0), along, *stored);
}

std::string in_place_of(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
    text.replace(at, what.size(), by);
  }
  return text;
}

// Rows of `rows` at a time: B[i, j] = A[row, j], with the row's index as a text of `$`.
std::string rows(int64_t rows, const std::string& index) {
  std::string i = std::to_string(rows) + "*t + r";
  std::string read = in_place_of(index, "$", "(" + i + ")");
  return "parallel t from [0] extent [" + std::to_string(30 / rows) + "] grain 1 {\n" +
         "  serial r from [0] extent [" + std::to_string(rows) + "] {\n" +
         "    serial j from [0] extent [8] {\n" + "      assign B[" + i + ", j] (A[" + read +
         ", j]) { %0:f32 = load 0; yield %0 }\n" + "    }\n  }\n}\n";
}
std::optional<Reach> reach_of_rows(int64_t block, const std::string& index) {
  return reach_of(nest_of(rows(block, index)), {30 / block}, 0);
}

TEST(IterationReach, OfClampedNeighbours) {
  for (int64_t block : {1, 2, 3, 5}) {
    for (int64_t far = 0; far < 7; ++far) {
      std::string by = std::to_string(far);
      int64_t expected = std::min<int64_t>((far + block - 1) / block, 30 / block - 1);
      for (const std::string& index : {"max(0, $ - " + by + ")", "min(29, $ + " + by + ")"}) {
        std::optional<Reach> found = reach_of_rows(block, index);
        ASSERT_TRUE(found.has_value()) << index;
        EXPECT_EQ(found->far, expected) << index << " by " << block;
        EXPECT_FALSE(found->wraps);
      }
    }
  }
}

TEST(IterationReach, OfWhatWrapsAround) {
  for (int64_t block : {1, 2, 3, 5}) {
    for (int64_t far = 1; far < 7; ++far) {
      int64_t expected = (far + block - 1) / block;
      for (int64_t by : {far, 30 - far}) {
        std::string index = "mod($ + " + std::to_string(by) + ", 30)";
        std::optional<Reach> found = reach_of_rows(block, index);
        ASSERT_TRUE(found.has_value()) << index;
        EXPECT_EQ(found->far, std::min(expected, 30 / block - 1)) << index << " by " << block;
        EXPECT_TRUE(found->wraps) << index << " by " << block;
      }
    }
  }
}

// A grid of rows and of ranges of columns; reads at an offset along each.
std::string cells(const std::string& row, const std::string& column) {
  return "parallel t from [0] extent [60] grain 1 {\n  serial c from [0] extent [4] {\n"
         "    assign B[floordiv(t, 2), 4*mod(t, 2) + c] (A[" +
         row + ", " + column + "]) { %0:f32 = load 0; yield %0 }\n  }\n}\n";
}

TEST(IterationReach, AlongTwoDimensions) {
  Nest nest = nest_of(cells("max(0, floordiv(t, 2) - 3)", "min(7, 4*mod(t, 2) + c + 1)"));
  auto along_rows = reach_of(nest, {30, 2}, 0), along_columns = reach_of(nest, {30, 2}, 1);
  ASSERT_TRUE(along_rows && along_columns);
  EXPECT_EQ(along_rows->far, 3);
  EXPECT_EQ(along_columns->far, 1);
  nest = nest_of(cells("floordiv(t, 2)", "4*mod(t, 2) + c"));
  along_rows = reach_of(nest, {30, 2}, 0), along_columns = reach_of(nest, {30, 2}, 1);
  ASSERT_TRUE(along_rows && along_columns);
  EXPECT_EQ(along_rows->far, 0);
  EXPECT_EQ(along_columns->far, 0);
  EXPECT_FALSE(reach_of(nest, {15, 4}, 1)) << "no grid of this loop's iterations";
  EXPECT_FALSE(reach_of(nest, {30, 3}, 0)) << "too many iterations";
}

TEST(IterationReach, IsNotSeenWhereItIsNotKnown) {
  EXPECT_TRUE(reach_of_rows(1, "$"));
  // Two loops, one behind the other.
  EXPECT_FALSE(reach_of(nest_of(rows(1, "$") + rows(1, "$")), {30}, 0));
  std::string serial = in_place_of(rows(1, "$"), "parallel", "serial");
  EXPECT_FALSE(reach_of(nest_of(in_place_of(serial, " grain 1", "")), {30}, 0));
  std::string back = in_place_of(rows(1, "$"), "B[1*t + r", "B[29 - 1*t - r");
  EXPECT_FALSE(reach_of(nest_of(back), {30}, 0)) << "in the other direction";
  std::string data = in_place_of(rows(1, "$"), "A[(1*t + r)", "A[1*t + r");
  Nest nest = nest_of(data);
  auto accesses = IterationAccesses::of(nest, {30});
  ASSERT_TRUE(accesses.has_value());
  auto stored = accesses->stored(BufferId(1), 0);
  ASSERT_TRUE(stored.has_value());
  StoredRanges other = *stored;
  other.shape = {30, 9};
  EXPECT_FALSE(accesses->reach(BufferId(0), 0, other)) << "another shape";
}

}  // namespace
}  // namespace tile::nest
