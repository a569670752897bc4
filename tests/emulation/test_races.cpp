// The machine that runs printed kernels finds accesses that no barrier orders: shown on kernels
// from whose text a barrier or a wait was taken, and on kernels written for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "backends/cuda/print/prelude.h"
#include "core/fusion/group.h"
#include "core/kernel/forms/gpu_forms.h"
#include "core/lower/lower.h"
#include "core/nest/passes/nest_passes.h"
#include "core/pipeline/pipeline.h"
#include "core/schedule/space/candidates.h"
#include "core/schedule/space/gpu_schedule.h"
#include "tests/emulation/emulated.h"
#include "tests/random/training_programs.h"
#include "tests/support/run_tile.h"
#include "tests/support/schedule_kernels.h"

namespace tile::test {
namespace {

using ::testing::HasSubstr;

// What running source number `index` on zeros says; empty where nothing is wrong. Sums of products
// that have not been waited for hold no numbers.
std::string complaint(const Emulated& code, size_t index, const nest::Nest& nest) {
  std::vector<HostTensor> tensors;
  std::vector<HostTensor*> arguments;
  for (size_t i = 0; i < nest.argument_count(); ++i) {
    tensors.emplace_back(nest.buffers[i].type, nest.buffers[i].shape);
  }
  for (HostTensor& t : tensors) arguments.push_back(&t);
  try {
    code.run(index, nest, arguments);
  } catch (const InternalError& error) {
    return error.what();
  }
  for (const HostTensor& t : tensors) {
    for (int64_t i = 0; is_float(t.type) && i < t.count(); ++i) {
      if (std::isnan(convert(t.at(i), DType::f64).f)) return "a result is no number";
    }
  }
  return {};
}

// A kernel of two blocks of 64 threads on two tensors of 128 elements.
std::string complaint_of(const std::string& body,
                         const std::string& parameters = "float* b0, float* b1, u8* workspace") {
  cuda::CudaSource source;
  source.text = std::string(cuda::prelude()) + "extern \"C\" __global__ void tile_0(" + parameters +
                ") {\nfloat* const s = (float*)shared_memory;\nconst int t = threadIdx.x, "
                "g = blockIdx.x, i = 64 * g + t;\n" +
                body + "\n}\n";
  source.text.insert(cuda::prelude().size(), std::string(cuda::copy_prelude()));
  cuda::CudaKernel kernel;
  kernel.name = "tile_0";
  kernel.grid = 2;
  kernel.block = 64;
  kernel.shared_bytes = 1024;
  source.kernels = {kernel};
  nest::Nest nest;
  nest.buffers = {{"A", DType::f32, nest::Scope::argument, {128}, {1}, true, false, 0, {}},
                  {"B", DType::f32, nest::Scope::argument, {128}, {1}, true, false, 0, {}}};
  return complaint(Emulated({source}), 0, nest);
}

TEST(Races, AreNotWhereThereAreBarriers) {
  EXPECT_EQ(complaint_of("s[t] = b0[i];\n__syncthreads();\n"
                         "b1[i] = s[63 - t];"),
            "");
  EXPECT_EQ(complaint_of("b1[i] = b0[i];\n__syncthreads();\nb0[i] = b1[i ^ 1];"), "");
  EXPECT_EQ(complaint_of("s[t] = 1;\n__syncwarp();\nb1[i] = s[t ^ 1];"), "");
  EXPECT_EQ(complaint_of("copy_later<4>(&s[t], &b0[i]);\ncopy_barrier<0>();\n"
                         "b1[i] = s[63 - t];"),
            "");
}

TEST(Races, ReadsOfWhatAnotherThreadWrote) {
  EXPECT_THAT(complaint_of("s[t] = b0[i];\nb1[i] = s[63 - t];"),
              HasSubstr("with no barrier between"));
  EXPECT_THAT(complaint_of("s[t] = 1;\n__syncwarp();\nb1[i] = s[63 - t];"),
              HasSubstr("with no barrier between"));
  // An exchange between the threads of a warp orders no memory.
  EXPECT_THAT(complaint_of("s[t] = 1;\nfloat v = __shfl_xor_sync(~0u, 1.0f, 1);\n"
                           "b1[i] = v + s[t ^ 1];"),
              HasSubstr("with no barrier between"));
}

TEST(Races, WritesOfWhatAnotherThreadReads) {
  EXPECT_THAT(complaint_of("b1[i] = b0[i ^ 1];\nb0[i] = 1;"), HasSubstr("was read by thread"));
}

TEST(Races, TwoWritesOfOneElement) {
  EXPECT_THAT(complaint_of("if (t < 2) b0[64 * g] = t;"), HasSubstr("is written by thread"));
  EXPECT_THAT(complaint_of("((u8*)b0)[i] = 1; ((u8*)b0)[i ^ 1] = 2;"),
              HasSubstr("is written by thread"));
}

// A statistic that one thread stores and all read.
TEST(Races, AStatisticInGlobalMemory) {
  const std::string store = "if (t == 0) b0[g] = 1;\n", read = "b1[i] = b0[g];";
  EXPECT_EQ(complaint_of(store + "__syncthreads();\n" + read), "");
  EXPECT_THAT(complaint_of(store + read), HasSubstr("with no barrier between"));
  // The compiler may move the loads before the barrier.
  EXPECT_THAT(complaint_of(store + "__syncthreads();\n" + read,
                           "float* __restrict__ b0, float* __restrict__ b1, u8* workspace"),
              HasSubstr("__restrict__"));
}

TEST(Races, BlocksOfOneLaunch) {
  EXPECT_THAT(complaint_of("b0[i] = 1;\n__syncthreads();\nb1[i] = b0[127 - i];"),
              HasSubstr("another block"));
  EXPECT_THAT(complaint_of("b1[i] = b0[127 - i];\n__syncthreads();\nb0[i] = 1;"),
              HasSubstr("another block"));
}

TEST(Races, CopiesThatAreNotWaitedFor) {
  const std::string copy = "copy_later<4>(&s[t], &b0[i]);\n";
  EXPECT_THAT(complaint_of(copy + "b1[i] = s[t];"), HasSubstr("waited for"));
  EXPECT_THAT(complaint_of(copy + "copy_barrier<1>();\nb1[i] = s[63 - t];"),
              HasSubstr("waited for"));
  EXPECT_THAT(complaint_of(copy + "__syncthreads();\nb0[i ^ 1] = 2;\ncopy_barrier<0>();"),
              HasSubstr("copies it"));
}

// A barrier in shared memory hands on what the warp of who arrives did before its last barrier.
TEST(Races, BarriersInSharedMemory) {
  auto handed = [](const std::string& between, const std::string& waits) {
    return complaint_of(
        "using namespace tile_emulation;\nif (t == 0) init_barrier(4096, 1);\n__syncthreads();\n"
        "if (t < 32) {\ns[t] = b0[i];\n" +
        between + "if (t == 0) arrive(4096, 0);\n} else {\n" + waits + "b1[i] = s[63 - t];\n}");
  };
  EXPECT_EQ(handed("__syncwarp();\n", "wait_for_phase(4096, 0);\n"), "");
  EXPECT_THAT(handed("", "wait_for_phase(4096, 0);\n"), HasSubstr("with no barrier between"));
  EXPECT_THAT(handed("__syncwarp();\n", ""), HasSubstr("with no barrier between"));
}

TEST(Races, BarriersThatSomeThreadsDoNotReach) {
  EXPECT_THAT(complaint_of("if (t < 32) __syncthreads();\nb0[i] = 1;"),
              HasSubstr("some threads do not reach"));
}

// The kernels of a program, and the text of each with one call less, or another in its place.
struct Kernels {
  std::vector<nest::Nest> nests;
  std::vector<cuda::CudaSource> sources;
};
Kernels kernels_of(const RandomCase& c, const std::function<Schedule(const Kernel&)>& pick,
                   const Target& target = h200_target()) {
  Kernels all;
  BoundProgram program = bind_text(c.text, c.types);
  run_pipeline(program, target);
  GroupOptions options;
  options.streams = true;
  for (const Step& step : group(program, target, options)) {
    const Kernel& kernel = std::get<Kernel>(step);
    all.nests.push_back(nest::run_passes(lower(kernel, pick(kernel), target), target));
    all.sources.push_back(cuda::print_cuda(all.nests.back(), target));
  }
  return all;
}

struct Tried {
  size_t places = 0, found = 0;
};
// Each place of the call changed by itself.
Tried changed_one_by_one(const Kernels& kernels, const std::string& call,
                         const std::string& instead) {
  std::vector<cuda::CudaSource> changed;
  std::vector<size_t> nest_of;
  for (size_t k = 0; k < kernels.sources.size(); ++k) {
    const std::string& text = kernels.sources[k].text;
    size_t begin = text.find("__global__");
    for (size_t at = text.find(call, begin); at != text.npos; at = text.find(call, at + 1)) {
      cuda::CudaSource source = kernels.sources[k];
      source.text.replace(at, call.size(), instead);
      changed.push_back(std::move(source));
      nest_of.push_back(k);
    }
  }
  if (changed.empty()) return {};
  Emulated whole(kernels.sources), code(changed);
  for (size_t k = 0; k < kernels.nests.size(); ++k) {
    EXPECT_EQ(complaint(whole, k, kernels.nests[k]), "");
  }
  Tried tried{changed.size(), 0};
  for (size_t i = 0; i < changed.size(); ++i) {
    if (!complaint(code, i, kernels.nests[nest_of[i]]).empty()) ++tried.found;
  }
  return tried;
}

// Some barriers stand beside others that order the same accesses, or where these sizes never come.
TEST(Races, MissingBarriersOfRowKernels) {
  for (const TrainingProgram& program : training_programs()) {
    if (program.name != "layer_norm" && program.name != "softmax") continue;
    SCOPED_TRACE(program.name);
    Kernels kernels =
        kernels_of(training_types(program, DType::f32, 2, 256, true),
                   [](const Kernel& k) { return analytic_schedule(k, h200_target()); });
    Tried tried = changed_one_by_one(kernels, "__syncthreads();", "");
    EXPECT_GT(tried.places, 3U);
    EXPECT_GE(2 * tried.found, tried.places);
  }
}

TEST(Races, MissingBarriersOfClusters) {
  auto pick = [](const Kernel& kernel) {
    for (const Schedule& s : gpu::line_schedules(kernel, h200_target())) {
      if (s.gpu_lines->blocks == 2) return s;
    }
    ADD_FAILURE() << "no schedule by clusters";
    return analytic_schedule(kernel, h200_target());
  };
  Kernels kernels =
      kernels_of(training_types(training_programs()[0], DType::f32, 2, 2052, false), pick);
  Tried tried = changed_one_by_one(kernels, "cluster_barrier();", "__syncthreads();");
  EXPECT_GT(tried.places, 1U);
  EXPECT_GE(2 * tried.found, tried.places);
}

TEST(Races, MissingWaitsOfCopiesAhead) {
  Kernel kernel = testing::matrix_product(64, 64, 64);
  Schedule s;
  s.stages = {{PieceSchedule{}}};
  s.stages[0][0].gpu_form = SimtGemm{32, 64, 16, 8, 4, 1, 3, false};
  Kernels kernels;
  kernels.nests = {nest::run_passes(lower(kernel, s, h200_target()), h200_target())};
  kernels.sources = {cuda::print_cuda(kernels.nests[0], h200_target())};
  Tried tried = changed_one_by_one(kernels, "copy_barrier<1>();", "copy_barrier<2>();");
  EXPECT_GT(tried.places, 0U);
  EXPECT_GE(2 * tried.found, tried.places);
}

// Streams whose products run beside what threads do (wgmma). A wait that leaves one more group
// running lets its sum be read too early, its factors be written, or its blocks be overwritten.
TEST(Races, MissingWaitsOfProducts) {
  RandomCase c;
  c.text =
      "function (Q[S, D], K[T, D], V[T, C]) -> (O) {\n"
      "  L[s, t: S, T] = +(as_float(Q[s, d], 32) * as_float(K[t, d], 32));\n"
      "  Top[s, 0: S, 1] = >(L[s, t]);\n  E = exp(L - Top);\n  Sum[s, 0: S, 1] = +(E[s, t]);\n"
      "  P = as_bf16(E / Sum);\n  O[s, c: S, C] = +(P[s, t] * V[t, c]);\n}\n";
  c.types = {{DType::bf16, {64, 32}}, {DType::bf16, {300, 32}}, {DType::bf16, {300, 32}}};
  Target target = *gpu_target("sm_90a");
  Kernels kernels = kernels_of(
      c,
      [&](const Kernel& kernel) {
        Schedule s = analytic_schedule(kernel, target);
        s.gpu_stream = GpuStream{64, 32, 3};
        return s;
      },
      target);
  for (auto [wait, instead] : {std::pair{"group_wait<0>();", "group_wait<1>();"},
                               std::pair{"group_wait<1>();", "group_wait<2>();"}}) {
    Tried tried = changed_one_by_one(kernels, wait, instead);
    EXPECT_GT(tried.places, 1U) << wait;
    EXPECT_EQ(tried.found, tried.places) << wait;
  }
}

}  // namespace
}  // namespace tile::test
