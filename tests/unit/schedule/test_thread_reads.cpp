// What a thread of a GPU reads for the cells and taps that its code writes out.
#include <gtest/gtest.h>

#include "core/schedule/facts/thread_reads.h"
#include "tests/support/schedule_kernels.h"

namespace tile::testing {
namespace {

// O[y, x, c] = sum over 3 x 3 taps of I[y + i, x + j, c] * K[i, j, c], inside I.
Kernel windows(int64_t channels) {
  KernelBuilder b;
  TensorId in = b.tensor("I", DType::f32, {34, 34, channels});
  TensorId filter = b.tensor("K", DType::f32, {3, 3, channels});
  TensorId out = b.tensor("O", DType::f32, {32, 32, channels});
  b.stage(out, Aggregation::sum, DType::f32,
          {{{"y", "x", "c", "i", "j"},
            {32, 32, channels, 3, 3},
            3,
            {"y", "x", "c"},
            {{in, {"y + i", "x + j", "c"}}, {filter, {"i", "j", "c"}}},
            {},
            [](Body& body, const std::vector<NodeId>& loads) {
              return body.operation(Op::mul, {loads[0], loads[1]}, DType::f32);
            }}});
  return b.finish();
}

gpu::ThreadReads reads_of(const Kernel& kernel, const std::string& loops) {
  Schedule s = parse_schedule("schedule { stage { piece " + loops + " } }");
  return gpu::thread_reads(s.stages[0][0], kernel.stages[0].contraction.pieces[0], kernel,
                           h200_target());
}

TEST(ThreadReads, WindowsOfNeighboursShareWhatTheyOverlapIn) {
  Kernel kernel = windows(64);
  gpu::ThreadReads one = reads_of(
      kernel,
      "outer (0:1 parallel, 1:1 parallel, 2:1 parallel) reduce (3:1 serial, 4:1 serial) tile ()");
  EXPECT_EQ(one.positions, 1);
  EXPECT_EQ(one.distinct, 2);
  EXPECT_EQ(one.read_lines, 2);  // a warp's 32 floats of each
  gpu::ThreadReads four = reads_of(
      kernel,
      "outer (0:1 parallel, 1:4 parallel, 2:1 parallel) reduce (3:1 unroll, 4:1 unroll) tile (1:1 "
      "unroll)");
  EXPECT_EQ(four.positions, 4 * 9);
  EXPECT_EQ(four.each, 2 * 4 * 9);
  EXPECT_EQ(four.distinct, 3 * 6 + 9);
  gpu::ThreadReads block = reads_of(
      kernel,
      "outer (0:4 parallel, 1:4 parallel, 2:1 parallel) reduce (3:1 unroll, 4:1 unroll) tile (0:1 "
      "unroll, 1:1 unroll)");
  EXPECT_EQ(block.distinct, 6 * 6 + 9);
  EXPECT_EQ(block.stored_lines, 16);
}

TEST(ThreadReads, WindowsOverlapAlongTheirOwnDimensions) {
  Kernel kernel = windows(64);
  const Piece& piece = kernel.stages[0].contraction.pieces[0];
  const Target target = h200_target();
  EXPECT_TRUE(gpu::windows_overlap(IteratorId(0), piece, kernel, target));
  EXPECT_TRUE(gpu::windows_overlap(IteratorId(1), piece, kernel, target));
  EXPECT_FALSE(gpu::windows_overlap(IteratorId(2), piece, kernel, target));
}

TEST(ThreadReads, NeighboursOfAThreadAreOneAccessWhereTheyAreAligned) {
  const std::string wide =
      "outer (0:1 parallel, 1:1 parallel, 2:4 parallel) reduce (3:1 serial, 4:1 serial) tile (2:1 "
      "vector)";
  // 32 threads of 16 bytes are 4 lines; apart, each of four accesses takes every fourth word.
  EXPECT_EQ(reads_of(windows(64), wide).read_lines, 2 * 4);
  EXPECT_EQ(reads_of(windows(66), wide).read_lines, 2 * 16);
}

}  // namespace
}  // namespace tile::testing
