// Kernels for classes of sizes: one nest serves every size, and computes what each size's own
// would.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "core/lower/lower.h"
#include "core/nest/nest.h"
#include "core/nest/passes/nest_passes.h"
#include "core/schedule/search/dynamic_extent.h"
#include "core/schedule/space/candidates.h"
#include "tests/support/random_schedule.h"
#include "tests/support/schedule_kernels.h"

namespace tile::testing {
namespace {

Target eager(Target target) {
  target.class_work_ns = 0;
  return target;
}

Values run_sized(const nest::Nest& nest, const Kernel& kernel, Values values, int64_t size) {
  std::vector<HostTensor*> arguments;
  for (TensorId id : arguments_of(kernel)) arguments.push_back(&values[id]);
  nest::interpret(nest, arguments, {size});
  return values;
}

const std::vector<int64_t> kSizes{2, 3, 5, 8, 9, 14, 31, 64, 65};

// The kernels of the sizes up to `most`, under the analytic pick and random schedules: those of one
// class have one nest, and each agrees with brute force. Returns the number of nests.
size_t expect_sizes_agree(const std::function<Kernel(int64_t)>& make, int64_t most,
                          const Target& target, uint64_t seed) {
  std::set<std::string> nests;
  for (int64_t size : kSizes) {
    if (size > most) break;
    Kernel kernel = make(size);
    std::optional<ClassKernel> found = for_class_of_sizes(kernel, target);
    if (!found) {
      ADD_FAILURE() << "no class for size " << size;
      return 0;
    }
    EXPECT_EQ(found->size, size);
    Schedule schedule = seed == 0 ? analytic_schedule(found->kernel, target)
                                  : random_schedule(found->kernel, target, seed);
    if (!suits_class(schedule, *found)) continue;
    SCOPED_TRACE("size " + std::to_string(size) + "\n" + print(schedule));
    nest::Nest nest = lower(*found, schedule, target);
    nest::verify(nest);
    nest::Nest parts = nest::run_passes(nest, target);
    nest::verify(parts);
    std::string text = nest::print(parts, true);
    EXPECT_EQ(
        nest::print(nest::parse_nest(std::make_shared<Source>(Source{"n", nest::print(parts)})),
                    true),
        text);
    nests.insert(text);
    Values inputs = small_integers(kernel, 7);
    Values expected = inputs;
    brute_force(kernel, expected);
    EXPECT_EQ(difference(kernel, expected, run_sized(parts, kernel, inputs, size)), "")
        << nest::print(parts);
  }
  return nests.size();
}

TEST(DynamicExtent, ProductsOfAllSizesShareTheirNests) {
  auto make = [](int64_t m) { return matrix_product(m, 21, 5); };
  for (const Target& target : {eager(small_target()), eager(wide_target())}) {
    EXPECT_LE(expect_sizes_agree(make, 65, target, 0), 3U);
    for (uint64_t seed = 1; seed < 7; ++seed) expect_sizes_agree(make, 14, target, seed);
  }
}

TEST(DynamicExtent, FusedProductsToo) {
  auto make = [](int64_t m) { return matrix_bias_gelu(m, 19, 3); };
  EXPECT_LE(expect_sizes_agree(make, 65, eager(wide_target()), 0), 3U);
  for (uint64_t seed = 1; seed < 6; ++seed)
    expect_sizes_agree(make, 14, eager(small_target()), seed);
}

TEST(DynamicExtent, BatchesOfConvolutionsShareTheirNests) {
  auto make = [](int64_t batch) { return convolution(batch, 4, 2, 3, 3, 1, 1); };
  for (const Target& target : {eager(small_target()), eager(wide_target())}) {
    EXPECT_LE(expect_sizes_agree(make, 14, target, 0), 2U);
    for (uint64_t seed = 1; seed < 5; ++seed) expect_sizes_agree(make, 9, target, seed);
  }
}

// Kernels with rows, and light ones whose vectors run along the extent.
size_t expect_open_sizes_agree(const std::function<Kernel(int64_t)>& make, const Target& target,
                               uint64_t seed) {
  std::set<std::string> nests;
  for (int64_t size : {3, 8, 31}) {
    Kernel kernel = make(size);
    std::optional<ClassKernel> found = with_open_extent(kernel, target);
    if (!found) {
      ADD_FAILURE() << "no class for size " << size;
      return 0;
    }
    std::optional<Schedule> schedule =
        seed == 0 ? class_schedule(*found, target)
                  : std::optional(random_schedule(found->kernel, target, seed));
    if (!schedule) {
      ADD_FAILURE() << "no schedule for size " << size;
      return 0;
    }
    if (!suits_class(*schedule, *found)) continue;
    SCOPED_TRACE("size " + std::to_string(size) + "\n" + print(*schedule));
    nest::Nest nest = nest::run_passes(lower(*found, *schedule, target), target);
    nest::verify(nest);
    nests.insert(nest::print(nest, true));
    Values inputs = small_integers(kernel, 7);
    Values expected = inputs;
    brute_force(kernel, expected);
    EXPECT_EQ(difference(kernel, expected, run_sized(nest, kernel, inputs, found->size)), "")
        << nest::print(nest);
  }
  return nests.size();
}

TEST(DynamicExtent, LightKernelsAndRowsShareTheirNests) {
  const std::function<Kernel(int64_t)> makes[] = {
      [](int64_t m) { return row_sum(m, 37, false); },
      [](int64_t m) { return row_sum(m * 19, 3, false); },
      [](int64_t m) { return scaled_copy({m, 13}); },
      [](int64_t m) { return scaled_copy({m * 37}); },
      [](int64_t m) { return normalised_rows(m, 21, false, false); },
      [](int64_t m) { return normalised_rows(m * 5, 9, false, false); },
  };
  for (const auto& make : makes) {
    for (const Target& target : {small_target(), wide_target()}) {
      EXPECT_LE(expect_open_sizes_agree(make, target, 0), 3U);
      for (uint64_t seed = 1; seed < 3; ++seed) expect_open_sizes_agree(make, target, seed);
    }
  }
}

// A size in a stride, a row of the input beside the batch's own, one row alone: no class.
TEST(DynamicExtent, OnlyFreeExtentsAreParameters) {
  Target target = eager(wide_target());
  EXPECT_FALSE(for_class_of_sizes(matrix_product(1, 16, 16), target));
  EXPECT_FALSE(for_class_of_sizes(row_sum(8, 16, false), target));             // no product
  EXPECT_FALSE(for_class_of_sizes(depthwise(8, 16, 3), target));               // rows of a window
  EXPECT_FALSE(for_class_of_sizes(matrix_product(8, 16, 16), wide_target()));  // little work
  EXPECT_FALSE(for_class_of_sizes(matrix_product(64, 64, 64), h200_target()));
}

TEST(DynamicExtent, ShortBlocksMakeUpEverySize) {
  for (int64_t step = 2; step < 40; ++step) {
    for (int64_t vectors : {step, 3 * step, 4 * step, 1000 * step}) {
      std::vector<int64_t> sizes = short_blocks(step, vectors);
      int64_t most = step - 1;  // that may be left: lowering counts on one block of a size
      for (int64_t size : sizes) {
        EXPECT_LT(most, 2 * size) << step;
        most = size - 1;
      }
      for (int64_t left = 1; left < step; ++left) {
        int64_t sum = 0;
        for (int64_t size : sizes) sum += left - sum >= size ? size : 0;
        EXPECT_EQ(sum, left) << step;
        bool one = std::find(sizes.begin(), sizes.end(), left) != sizes.end();
        EXPECT_TRUE(one || !halves_last_blocks(step, vectors)) << step;
      }
    }
  }
  // What registers hold: all sizes that may be left have a block. What they do not: few have.
  EXPECT_TRUE(halves_last_blocks(6, 24));
  EXPECT_TRUE(halves_last_blocks(13, 26));
  EXPECT_FALSE(halves_last_blocks(32, 32));
  EXPECT_LE(short_blocks(32, 32 * 100).size(), 5U);
}

// Runs the kernels of the sizes from 9 to 64 under one schedule that suits their class; returns
// their nest.
std::string one_nest(const std::function<Kernel(int64_t)>& make, const std::string& schedule) {
  Target target = eager(wide_target());
  std::set<std::string> nests;
  for (int64_t size : {9, 10, 11, 12, 13, 14, 19, 23, 30, 61, 64}) {
    Kernel kernel = make(size);
    std::optional<ClassKernel> found = for_class_of_sizes(kernel, target);
    bool suits = found && suits_class(parse_schedule(schedule), *found);
    EXPECT_TRUE(suits) << size;
    if (!suits) return {};
    nest::Nest nest = nest::run_passes(lower(*found, parse_schedule(schedule), target), target);
    nest::verify(nest);
    nests.insert(nest::print(nest, true));
    Values inputs = small_integers(kernel, 3), expected = inputs;
    brute_force(kernel, expected);
    EXPECT_EQ(difference(kernel, expected, run_sized(nest, kernel, inputs, size)), "") << size;
  }
  EXPECT_EQ(nests.size(), 1U);
  return *nests.begin();
}

size_t times(const std::string& what, const std::string& text) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++count;
  return count;
}

// A factor that all rows share is read once for each block of rows: whatever is left of a block is
// one block, or two with the last whole one.
TEST(DynamicExtent, LastBlocksAreNotDividedFurther) {
  std::string text = one_nest([](int64_t m) { return matrix_product(m, 16, 5); },
                              "schedule { stage { piece outer (1:16 serial, 0:6 serial)"
                              " reduce (2:1 serial) tile (0:1 unroll, 1:1 vector) } }");
  EXPECT_EQ(times("fma ", text), 6U) << text;  // one for each number of rows
  EXPECT_EQ(times("else", text), 4U) << text;  // of the rest only one is done
}

// Rows of a block that all stages share, whose number is known at run time alone.
TEST(DynamicExtent, LastBlocksOfRowsAreHalves) {
  Schedule schedule = parse_schedule(
      "schedule { shared 1"
      " stage { piece outer (0:5 serial) reduce (1:16 serial, 1:1 vector) tile (0:1 unroll) }"
      " stage { piece outer (1:5 serial, 1:4 serial, 0:16 serial) reduce ()"
      " tile (1:1 unroll, 0:1 vector) }"
      " stage { piece outer (0:5 serial) reduce (1:16 serial, 1:1 vector) tile (0:1 unroll) }"
      " stage { }"
      " stage { piece outer (0:5 serial, 0:4 serial, 1:16 serial) reduce ()"
      " tile (0:1 unroll, 1:1 vector) } }");
  Target target = eager(wide_target());
  for (int64_t size : {3, 5, 6, 7, 8}) {
    Kernel kernel = normalised_rows(size, 21, false, false);
    std::optional<ClassKernel> found = with_open_extent(kernel, target);
    ASSERT_TRUE(found);
    ASSERT_TRUE(suits_class(schedule, *found));
    nest::Nest nest = nest::run_passes(lower(*found, schedule, target), target);
    Values inputs = small_integers(kernel, 7), expected = inputs;
    brute_force(kernel, expected);
    EXPECT_EQ(difference(kernel, expected, run_sized(nest, kernel, inputs, found->size)), "")
        << nest::print(nest);
  }
}

// The sums of a reduction's blocks wait in a buffer beside the tensors, if that is small.
TEST(DynamicExtent, PartialSumsOfAClassWaitInABuffer) {
  const char* blocked =
      "schedule { stage { piece outer (2:4 serial, 1:16 serial, 0:6 serial) reduce (2:1 serial)"
      " tile (0:1 unroll, 1:1 vector) } stage { } }";
  std::string text = one_nest([](int64_t m) { return matrix_bias_gelu(m, 16, 9); }, blocked);
  EXPECT_NE(text.find("workspace"), std::string::npos) << text;
  Target target = eager(wide_target());
  auto large = for_class_of_sizes(matrix_bias_gelu(40, 1 << 17, 9), target);
  ASSERT_TRUE(large);
  EXPECT_FALSE(suits_class(parse_schedule(blocked), *large));
}

// Each block's place is a remainder of the size, not a choice of all the places before it, whose
// text would double with each block.
TEST(DynamicExtent, IndicesOfShortBlocksAreShort) {
  Target target = eager(wide_target());
  std::optional<ClassKernel> found = with_open_extent(normalised_rows(7, 4, false, false), target);
  ASSERT_TRUE(found);
  Schedule schedule = analytic_schedule(found->kernel, target);
  std::istringstream text(nest::print(nest::run_passes(lower(*found, schedule, target), target)));
  size_t blocks = 0;
  for (std::string line; std::getline(text, line);) {
    EXPECT_LT(line.size(), 400U) << line;
    blocks += line.find("alloc ") != std::string::npos ? 1 : 0;
  }
  EXPECT_GT(blocks, 2U) << "there are short blocks";
}

struct Machine {
  int bits;
  int64_t l2_bytes;
  double fma_per_ns, l2_bytes_per_ns, l3_bytes_per_ns;
  int threads;
};
Target as(const Machine& m) {
  Target t;
  t.device = "cpu";
  t.vector_bits = m.bits;
  t.vector_registers = m.bits == 512 ? 32 : 16;
  t.threads = m.threads;
  t.l1_bytes = 48 << 10;
  t.l2_bytes = m.l2_bytes;
  t.l2_shared_bytes = m.l2_bytes / 4;
  t.l3_bytes = 32 << 20;
  t.fma_per_ns = m.fma_per_ns;
  t.l2_bytes_per_ns = m.l2_bytes_per_ns;
  t.l3_bytes_per_ns = m.l3_bytes_per_ns;
  t.parallel_overhead_ns = 500;
  return t;
}

// Whatever a machine's constants are, the sizes of a plain product and a convolution share code.
TEST(DynamicExtent, LayersShareTheirCodeOnEveryMachine) {
  const Machine machines[] = {{512, 2 << 20, 96, 192, 30, 2},   {512, 1 << 20, 96, 192, 30, 2},
                              {512, 1 << 20, 120, 200, 110, 8}, {256, 512 << 10, 48, 96, 30, 64},
                              {256, 256 << 10, 40, 60, 15, 1},  {128, 256 << 10, 12, 12, 9, 2}};
  for (const Machine& m : machines) {
    Target target = as(m);
    SCOPED_TRACE(to_string(target));
    for (int64_t size : {5, 40}) {
      for (const Kernel& kernel :
           {matrix_product(size, 640, 512), convolution(size, 7, 32, 32, 3, 1, 1)}) {
        auto found = for_class_of_sizes(kernel, target);
        ASSERT_TRUE(found) << size;
        EXPECT_TRUE(class_schedule(*found, target)) << size;
      }
    }
  }
}

// With 1 MiB of second cache the best schedules of this layer block the reduction, and none of
// those suits a class, as its partial sums would wait in a large buffer: others are found.
TEST(DynamicExtent, SchedulesThatSuitAreLookedFor) {
  Target target = as({512, 1 << 20, 96, 192, 30, 2});
  auto found = for_class_of_sizes(matrix_bias_gelu(40, 1 << 17, 768), target);
  ASSERT_TRUE(found);
  EXPECT_TRUE(class_schedule(*found, target));
}

// The interpreter refuses what is outside the extent of this launch.
TEST(DynamicExtent, IndicesAreCheckedAgainstTheExtent) {
  auto source = std::make_shared<Source>(
      Source{"n",
             "nest n\nargument a: f32 [8, 2] strides [2, 1] extent [m]\n"
             "argument b: f32 [2] strides [1] written\nparameter m [1, 100]\n"
             "serial i from [0] extent [2] {\n  assign b[i] (a[3, i]) { %0:f32 = load 0; yield %0 "
             "}\n}\n"});
  HostTensor b(DType::f32, {2});
  nest::Nest nest;
  try {
    nest = nest::parse_nest(source);
  } catch (const Failure& f) {
    FAIL() << f.what();
  }
  nest::verify(nest);
  HostTensor enough(DType::f32, {4, 2}), few(DType::f32, {3, 2});
  nest::interpret(nest, {&enough, &b}, {4});
  EXPECT_THROW(nest::interpret(nest, {&few, &b}, {3}), InternalError);
  EXPECT_THROW(nest::interpret(nest, {&few, &b}, {4}), InternalError);
  nest.parameters.clear();
  EXPECT_THROW(nest::verify(nest), InternalError);
}

}  // namespace
}  // namespace tile::testing
