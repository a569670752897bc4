// Copies of inputs that stay the same: what a schedule packs of them is made once, as a tensor of
// its own, whatever the schedule.
#include <gtest/gtest.h>

#include "core/kernel/forms/prepacking.h"
#include "core/kernel/geometry.h"
#include "core/schedule/cost/piece/piece_model.h"
#include "core/schedule/legality/legality.h"
#include "core/schedule/space/candidates.h"
#include "tests/support/schedule_kernels.h"

namespace tile::testing {
namespace {

// With these reads, by their number, the same in every run.
Kernel with_fixed(Kernel kernel, const std::vector<size_t>& reads) {
  for (size_t i : reads) {
    BoundTensor& t = kernel.tensors.edit(kernel.reads[i]);
    t.role = TensorRole::input;
    t.fixed = true;
  }
  return kernel;
}

bool prepares(const Schedule& schedule, const Kernel& kernel) {
  return !prepacked_packings(kernel, schedule, wide_target()).empty();
}

void expect_copies_agree(const Kernel& kernel, int wanted, uint64_t seeds = 2000) {
  expect_chosen_schedules_agree(kernel, small_integers(kernel, 3), wanted, seeds,
                                [&](const Schedule& s) { return prepares(s, kernel); });
}

TEST(PrepackedCopies, ProductsOfOddSizes) {
  expect_copies_agree(with_fixed(matrix_product(23, 41, 19), {1}), 60);
  expect_copies_agree(with_fixed(matrix_product(13, 7, 33), {0, 1}), 60);
  expect_copies_agree(with_fixed(matrix_product(9, 30, 11, DType::f64), {0}), 30);
}

TEST(PrepackedCopies, NeighboursOfDots) {
  for (DType type : {DType::bf16, DType::i8, DType::u8}) {
    expect_copies_agree(with_fixed(matrix_product(17, 34, 11, type), {1}), 30);
    expect_copies_agree(with_fixed(matrix_product(6, 9, 16, type), {0, 1}), 30);
  }
}

TEST(PrepackedCopies, FusedProducts) {
  expect_copies_agree(with_fixed(matrix_bias_gelu(21, 35, 6), {1, 2}), 30);
}

TEST(PrepackedCopies, FiltersOfConvolutions) {
  expect_copies_agree(with_fixed(convolution(2, 7, 5, 19, 3, 1, 1), {1}), 40);
  expect_copies_agree(with_fixed(convolution(1, 9, 2, 7, 3, 2, 0), {0, 1}), 40);
}

TEST(PrepackedCopies, SizesOfOne) {
  expect_copies_agree(with_fixed(matrix_product(1, 1, 1), {0, 1}), 10);
  expect_copies_agree(with_fixed(matrix_product(13, 1, 9), {0, 1}), 20);
}

// The candidates of the search too, which the model prefers with copies that cost nothing.
TEST(PrepackedCopies, CandidatesAgreeAndThePickPacks) {
  for (const Kernel& kernel : {with_fixed(matrix_product(40, 70, 50), {1}),
                               with_fixed(convolution(1, 6, 9, 40, 3, 1, 1), {1})}) {
    Values inputs = small_integers(kernel, 5);
    Values expected = inputs;
    brute_force(kernel, expected);
    size_t copies = 0;
    for (const Schedule& s : candidates(kernel, wide_target(), 30)) {
      ASSERT_NO_FATAL_FAILURE(expect_schedule_agrees(kernel, s, wide_target(), inputs, expected));
      copies += prepares(s, kernel) ? 1 : 0;
    }
    EXPECT_GT(copies, 0U);
  }
}

// Copies outside of all loops are shared among threads where they are large.
TEST(PrepackedCopies, SmallCopiesAreTheCallingThreads) {
  Target target = wide_target();
  target.threads = 2;
  auto parallel_loops = [&](int64_t columns, int64_t terms) {
    Kernel kernel = matrix_product(64, columns, terms);
    Schedule s = parse_schedule(
        "schedule { stage { piece outer (0:8 parallel, 1:32 serial) reduce (2:1 serial) tile (0:1 "
        "unroll, 1:16 unroll, 1:1 vector) pack 1 level 0 (1:32 serial, 2:1 serial, 1:1 serial) } "
        "}");
    EXPECT_EQ(illegal(s, kernel, target), "");
    std::string nest = nest::print(lower(kernel, s, target));
    int count = 0;
    for (size_t at = 0; (at = nest.find("\nparallel", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  EXPECT_EQ(parallel_loops(32, 64), 1);
  EXPECT_EQ(parallel_loops(1024, 1024), 2);
}

// The packing stands outside the kernel: the nest copies nothing.
TEST(PrepackedCopies, TheKernelPacksNothing) {
  Kernel plain = matrix_product(64, 64, 64), kernel = with_fixed(plain, {1});
  Schedule s = parse_schedule(
      "schedule { stage { piece outer (1:32 serial, 0:8 serial) reduce (2:1 serial) tile (0:1 "
      "unroll, 1:16 unroll, 1:1 vector) pack 1 level 1 (2:1 serial, 1:1 serial) } }");
  ASSERT_EQ(illegal(s, kernel, wide_target()), "");
  nest::Nest nest = lower(kernel, s, wide_target());
  EXPECT_EQ(nest.argument_count(), 4U);
  EXPECT_EQ(nest.buffers[3].shape, (std::vector<int64_t>{2, 64, 32}));
  EXPECT_FALSE(nest.buffers[3].written);
  for (const nest::Buffer& b : nest.buffers) EXPECT_NE(b.scope, nest::Scope::scratch);
  EXPECT_EQ(lower(plain, s, wide_target()).argument_count(), 3U);
  const Piece& piece = kernel.stages[0].contraction.pieces[0];
  const Contraction& c = kernel.stages[0].contraction;
  EXPECT_LT(PieceModel(piece, c, kernel, wide_target()).serial_ns(s.stages[0][0]),
            PieceModel(piece, c, plain, wide_target()).serial_ns(s.stages[0][0]));
}

// A copy in which each element stands for every window that has it is not kept.
TEST(PrepackedCopies, WindowsOfPicturesArePackedInEachRun) {
  Kernel kernel = with_fixed(convolution(2, 32, 16, 16, 5, 1, 2), {0});
  const Piece& piece = kernel.stages[0].contraction.pieces[0];
  PieceSchedule how = plain_schedule(piece);
  Packing all{0, 0, {}};
  for (const std::vector<Loop>* loops : {&how.outer, &how.reduce}) {
    for (const Loop& l : *loops) {
      bool uses = false;
      for (const Index& i : piece.loads[0].index) {
        uses = uses || !i.affine.coefficient(l.iterator).is_zero();
      }
      if (uses) all.order.push_back(l);
    }
  }
  EXPECT_FALSE(packed_once(all, how, piece, kernel, wide_target()));
}

}  // namespace
}  // namespace tile::testing
