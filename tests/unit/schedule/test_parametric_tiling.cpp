// Kernels whose blocks have sizes given at launch: one nest computes what each schedule's own
// would, for its own blocks and for any others.
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "core/lower/lower.h"
#include "core/nest/nest.h"
#include "core/nest/passes/nest_passes.h"
#include "core/schedule/legality/legality.h"
#include "core/schedule/search/parametric_tiling.h"
#include "core/schedule/space/candidates.h"
#include "tests/support/random_schedule.h"
#include "tests/support/schedule_kernels.h"

namespace tile::testing {
namespace {

nest::Nest finished(const Kernel& kernel, const SharedForm& form, const Target& target) {
  nest::Nest nest = lower(kernel, form, target);
  nest::verify(nest);
  nest::Nest parts = nest::run_passes(nest, target);
  nest::verify(parts);
  return parts;
}

Values run_with(const nest::Nest& nest, const Kernel& kernel, Values values,
                const std::vector<int64_t>& arguments) {
  std::vector<HostTensor*> pointers;
  for (TensorId id : arguments_of(kernel)) pointers.push_back(&values[id]);
  nest::interpret(nest, pointers, arguments);
  return values;
}

// Other blocks for the pieces of a form: any sizes, larger than the extents too, any order, any
// number of threads. Parallel dimensions whose loops are all outside a copied block keep one tile
// in theirs.
std::vector<int64_t> random_blocks(SharedForm& form, const Schedule& schedule, const Kernel& kernel,
                                   uint64_t seed) {
  std::mt19937_64 random(seed);
  auto draw = [&](int64_t lo, int64_t hi) {
    return lo + static_cast<int64_t>(random() % static_cast<uint64_t>(hi - lo + 1));
  };
  std::vector<int64_t> arguments;
  for (size_t s = 0; s < form.blocks.size(); ++s) {
    for (size_t p = 0; p < form.blocks[s].size(); ++p) {
      size_t loops = form.blocks[s][p];
      if (loops == 0) continue;
      std::vector<Loop>& outer = form.schedule.stages[s][p].outer;
      const PieceSchedule& own = schedule.stages[s][p];
      size_t level = 0;
      for (const Packing& packing : own.packings) level = std::max(level, packing.level);
      std::vector<int64_t> tiles, counts, inside(loops);
      for (size_t i = 0; i < loops; ++i) {
        int64_t unit = 1;
        for (const Loop& l : outer) unit = l.iterator == outer[i].iterator ? l.step : unit;
        auto again =
            std::any_of(own.outer.begin() + static_cast<std::ptrdiff_t>(level), own.outer.end(),
                        [&](const Loop& l) { return l.iterator == outer[i].iterator; });
        int64_t box = kernel.stages[s].contraction.pieces[p].box[outer[i].iterator];
        int64_t whole = ceil_div(box, unit);
        tiles.push_back(again ? draw(1, whole + 2) : 1);
        counts.push_back(ceil_div(whole, tiles.back()));
        outer[i].step = std::max(outer[i].step, tiles.back() * unit);
      }
      std::vector<size_t> order(loops);
      std::iota(order.begin(), order.end(), size_t{0});
      std::shuffle(order.begin(), order.end(), random);
      int64_t all = 1;
      for (size_t j = loops; j-- > 0;) {  // order[j] is the parallel dimension of the j-th loop
        inside[j] = all;
        all *= counts[order[j]];
      }
      int64_t share = draw(1, all + 1);
      arguments.insert(arguments.end(), {ceil_div(all, share), share, all});
      arguments.insert(arguments.end(), inside.begin(), inside.end() - 1);
      for (size_t i = 0; i < loops; ++i) {
        arguments.push_back(tiles[i]);
        for (size_t j = 0; j < loops; ++j) arguments.push_back(order[j] == i ? tiles[i] : 0);
      }
    }
  }
  return arguments;
}

struct Shared {
  int forms = 0, members = 0;
};

void expect_blocks_agree(const Kernel& kernel, const Target& target, uint64_t seeds,
                         Shared& shared) {
  Values inputs = small_integers(kernel, 11);
  Values expected = inputs;
  brute_force(kernel, expected);
  std::vector<Schedule> schedules = candidates(kernel, target, 24);
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    schedules.push_back(random_schedule(kernel, target, seed));
  }
  for (const SharedKernel& k : shared_kernels(schedules, kernel, target)) {
    ++shared.forms;
    nest::Nest nest = finished(kernel, k.form, target);
    for (size_t m = 0; m < k.members.size(); ++m) {
      ++shared.members;
      SCOPED_TRACE(print(schedules[k.members[m]]) + print(k.form.schedule));
      ASSERT_EQ(difference(kernel, expected, run_with(nest, kernel, inputs, k.arguments[m])), "")
          << nest::print(nest);
    }
    SharedForm other = k.form;
    const Schedule& first = schedules[k.members[0]];
    for (uint64_t seed = 0; seed < 2; ++seed) {
      std::vector<int64_t> arguments = random_blocks(other, first, kernel, seed);
      nest = finished(kernel, other, target);
      SCOPED_TRACE(print(first) + print(other.schedule));
      ASSERT_EQ(difference(kernel, expected, run_with(nest, kernel, inputs, arguments)), "")
          << nest::print(nest);
    }
  }
}

void expect_blocks_agree(const std::vector<Kernel>& kernels, uint64_t seeds) {
  Shared shared;
  for (const Kernel& kernel : kernels) {
    for (const Target& target : {small_target(), wide_target()}) {
      ASSERT_NO_FATAL_FAILURE(expect_blocks_agree(kernel, target, seeds, shared));
    }
  }
  EXPECT_GT(shared.members, shared.forms);
}

TEST(ParametricTiling, ProductsOfAnySize) {
  expect_blocks_agree({matrix_product(23, 41, 9), matrix_product(1, 35, 7),
                       matrix_product(13, 1, 1), matrix_product(32, 48, 4)},
                      12);
}

TEST(ParametricTiling, FusedProductsAndNarrowTypes) {
  expect_blocks_agree({matrix_bias_gelu(21, 35, 6), matrix_product(17, 34, 11, DType::bf16)}, 12);
}

TEST(ParametricTiling, ConvolutionsAndTheirGradients) {
  expect_blocks_agree({convolution(2, 7, 3, 5, 3, 1, 1), convolution(1, 9, 2, 19, 3, 2, 0),
                       filter_gradient(2, 5, 3, 4, 3, 1)},
                      12);
}

TEST(ParametricTiling, WindowsReductionsAndCopies) {
  expect_blocks_agree({depthwise(9, 5, 3), max_pool(11, 6, 3, 2, 1), row_sum(11, 45, false),
                       row_sum(11, 45, true), scaled_copy({7, 9, 33}), transpose(19, 50)},
                      12);
}

// Orders of loops, blocks and threads around one register tile are one code.
TEST(ParametricTiling, OrdersAndThreadsShareOneForm) {
  Kernel kernel = matrix_product(96, 96, 64);
  std::vector<Schedule> schedules;
  for (const char* outer :
       {"0:8 parallel, 1:16 parallel", "1:16 serial, 0:8 serial",
        "1:48 parallel, 0:8 serial, 1:16 serial", "0:24 parallel, 0:8 serial, 1:16 serial",
        "0:8 parallel, 1:16 serial"}) {
    schedules.push_back(parse_schedule("schedule { stage { piece outer (" + std::string(outer) +
                                       ") reduce (2:1 serial) tile (0:1 unroll, 1:1 vector) } }"));
    ASSERT_EQ(illegal(schedules.back(), kernel, wide_target()), "");
  }
  std::vector<SharedKernel> kernels = shared_kernels(schedules, kernel, wide_target());
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_EQ(kernels[0].members.size(), schedules.size());
}

}  // namespace
}  // namespace tile::testing
