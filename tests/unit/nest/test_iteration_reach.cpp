// How far iterations of a parallel loop reach into each other's blocks.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/nest/iteration_reach.h"
#include "tests/random/random_source.h"

namespace tile::nest {
namespace {

std::optional<IterationReach> reach_of(const std::string& body, const std::string& more = "") {
  std::string text =
      "nest n\nargument A: f32 [30, 8] strides [8, 1]\n"
      "argument B: f32 [30, 8] strides [8, 1] written\n" +
      more + body;
  Nest nest = parse_nest(std::make_shared<const Source>(Source{"nest", text}));
  return iteration_reach(nest, BufferId(0), BufferId(1));
}

// Rows of `rows` at a time: B[i, j] = A[row, j], with the row's index as a text of `i`.
std::string rows(int64_t rows, const std::string& index) {
  std::string i = std::to_string(rows) + "*t + r";
  std::string read = index;
  for (size_t at; (at = read.find("$")) != std::string::npos;) read.replace(at, 1, "(" + i + ")");
  return "parallel t from [0] extent [" + std::to_string(30 / rows) + "] grain 1 {\n" +
         "  serial r from [0] extent [" + std::to_string(rows) + "] {\n" +
         "    serial j from [0] extent [8] {\n" + "      assign B[" + i + ", j] (A[" + read +
         ", j]) { %0:f32 = load 0; yield %0 }\n" + "    }\n  }\n}\n";
}

TEST(IterationReach, OfClampedNeighbours) {
  for (int64_t block : {1, 2, 3, 5}) {
    for (int64_t far = 0; far < 7; ++far) {
      std::string by = std::to_string(far);
      int64_t expected = std::min<int64_t>((far + block - 1) / block, 30 / block - 1);
      for (const std::string& index : {"max(0, $ - " + by + ")", "min(29, $ + " + by + ")"}) {
        std::optional<IterationReach> found = reach_of(rows(block, index));
        ASSERT_TRUE(found.has_value()) << index;
        EXPECT_EQ(found->iterations, 30 / block);
        EXPECT_EQ(found->reach, expected) << index << " by " << block;
      }
    }
  }
}

TEST(IterationReach, OfWhatWrapsAround) {
  std::optional<IterationReach> found = reach_of(rows(1, "($ + 29) % 30"));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->reach, 29);
}

TEST(IterationReach, IsNotSeenWhereItIsNotKnown) {
  EXPECT_TRUE(reach_of(rows(1, "$")).has_value());
  // Two loops, one behind the other.
  EXPECT_FALSE(reach_of(rows(1, "$") + rows(1, "$")).has_value());
  // A serial loop.
  std::string serial = rows(1, "$");
  serial.replace(0, std::string("parallel").size(), "serial");
  serial.replace(serial.find(" grain 1"), std::string(" grain 1").size(), "");
  EXPECT_FALSE(reach_of(serial).has_value());
  // Blocks that overlap: the loop writes one row in several iterations' places.
  std::string other = rows(1, "$");
  other.replace(other.find("B[1*t + r"), std::string("B[1*t + r").size(), "B[29 - 1*t - r");
  EXPECT_FALSE(reach_of(other).has_value()) << "in the other direction";
  // Memory that iterations share.
  EXPECT_FALSE(
      reach_of("parallel t from [0] extent [30] grain 1 {\n  serial j from [0] extent [8] {\n"
               "    assign W[t] (A[t, j]) { %0:f32 = load 0; yield %0 }\n"
               "    assign B[t, j] (W[t]) { %0:f32 = load 0; yield %0 }\n  }\n}\n",
               "argument W: f32 [30] strides [1] written\n")
          .has_value());
}

}  // namespace
}  // namespace tile::nest
