// Kernels built by hand for the tests of schedules and lowering, and their brute-force results.
#pragma once

#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "core/ir/scalar.h"
#include "core/kernel/kernel.h"
#include "core/kernel/schedule.h"
#include "core/lower/lower.h"
#include "core/nest/nest.h"

namespace tile::testing {

// "i + 2*k - 1": sums of integer multiples of iterators.
struct KernelBuilder {
  Kernel kernel;

  TensorId tensor(const std::string& name, DType type, Shape shape);
  // A stage with one piece whose body is made by `body` from its loads.
  struct PieceText {
    std::vector<std::string> iterators;
    std::vector<int64_t> box;
    size_t parallel_dims = 0;
    std::vector<std::string> store;
    std::vector<std::pair<TensorId, std::vector<std::string>>> loads;
    std::vector<std::tuple<std::string, int64_t, int64_t>> constraints;
    std::function<NodeId(Body&, const std::vector<NodeId>& loads)> body;
  };
  KernelStage& stage(TensorId output, Aggregation aggregation, DType accumulator,
                     std::vector<PieceText> pieces);
  // Reads and writes from the stages.
  Kernel finish();

  static Affine affine(const std::string& text, const std::vector<std::string>& iterators);
};

// One tensor for each of the kernel's, by position; those written by no stage hold small integers.
using Values = IdVector<TensorId, HostTensor>;
Values small_integers(const Kernel& kernel, uint64_t seed);
// Runs every stage by visiting all points of its boxes.
void brute_force(const Kernel& kernel, Values& values);
// Runs the nest on copies of the inputs; the written tensors first hold nonsense. `prepared`: what
// the nest reads packed before all runs.
Values run_nest(const nest::Nest& nest, const Kernel& kernel, const Values& inputs,
                nest::NestCounts* counts = nullptr, Values prepared = {});
// What prepackings() make of the inputs.
Values prepacked_copies(const Kernel& kernel, const Schedule& schedule, const Target& target,
                        const Values& inputs);
// Compares what the kernel writes; an empty text if all is equal.
std::string difference(const Kernel& kernel, const Values& a, const Values& b);

// Lowers, verifies, runs the nest and its partitioned form under the plain and `count` random
// schedules, and expects the brute-force results.
void expect_all_schedules_agree(const Kernel& kernel, int count, uint64_t first_seed = 1);
// The same for one legal schedule, and for the first `wanted` random ones below `seeds` that are
// `chosen`; so many there must be. Targets take turns.
void expect_schedule_agrees(const Kernel& kernel, const Schedule& schedule, const Target& target,
                            const Values& inputs, const Values& expected);
void expect_chosen_schedules_agree(const Kernel& kernel, const Values& inputs, int wanted,
                                   uint64_t seeds,
                                   const std::function<bool(const Schedule&)>& chosen,
                                   const std::vector<Target>& targets = {});

Target small_target();  // 256 bits, 16 registers, 2 threads
Target wide_target();   // 512 bits, 32 registers, 8 threads
Target tile_target();   // the same, with registers that hold matrices

// Kernels of each class.
Kernel matrix_product(int64_t m, int64_t n, int64_t k, DType type = DType::f32);
Kernel matrix_bias_gelu(int64_t m, int64_t n, int64_t k);
Kernel convolution(int64_t batch, int64_t size, int64_t in, int64_t out, int64_t taps,
                   int64_t stride, int64_t pad);
// The gradient of such a convolution with respect to its filter.
Kernel filter_gradient(int64_t batch, int64_t size, int64_t in, int64_t out, int64_t taps,
                       int64_t pad);
Kernel depthwise(int64_t size, int64_t channels, int64_t taps);
Kernel max_pool(int64_t size, int64_t channels, int64_t taps, int64_t stride, int64_t pad);
Kernel row_sum(int64_t rows, int64_t columns, bool columns_first);
Kernel prefix_sum(int64_t n);
// Maximum of each row, the distances to it, the sum of their squares plus one (attached), and their
// product: four stages in rows. `columns_first`: the reduced axis is the strided one. `causal`: the
// sum takes the columns up to the row's number.
Kernel normalised_rows(int64_t rows, int64_t columns, bool columns_first, bool causal);
Kernel scaled_copy(Shape shape);
Kernel transpose(int64_t rows, int64_t columns);

}  // namespace tile::testing
