// Runs that come again with the same tensors in GPUs' memory are recordings: they give the same
// bits, whatever the streams do first; ranks that cannot record, have other tensors, fail or stay
// away leave nobody waiting.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "core/interpret/interpret.h"
#include "core/passes/bind/bind.h"
#include "tests/cuda_runtime/ranks/fake_gpus.h"
#include "tests/distribute/random_layouts.h"
#include "tests/distribute/random_products.h"
#include "tests/distribute/random_stencils.h"
#include "tests/distribute/sharded_run.h"
#include "tests/random/agreement/agreement.h"
#include "tests/random/random_program.h"
#include "tests/ranks/device_ranks.h"
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Steps = std::vector<std::string>;

constexpr const char* kProduct =
    "function (A[M, L], B[L, N]) -> (C) {\n  C[i, j: M, N] = +(A[i, k] * B[k, j]);\n}";
constexpr const char* kGathered = "A[x, *] B[*, x] C[x, *]";
constexpr const char* kAdded = "A[*, x] B[x, *] C[*, *]  C: k=x";
constexpr double kTimeout = 30;

class Replays : public OnFakeGpus {
 protected:
  std::unique_ptr<DeviceRanks> ranks(const std::string& mesh, double timeout = kTimeout) {
    return std::make_unique<DeviceRanks>(
        mesh, timeout, [this](size_t r) { return engine("cuda:" + std::to_string(r)); });
  }
  static int graphs() { return fake_driver().calls("cuGraphLaunch"); }

  struct Case {
    std::shared_ptr<const Program> source;
    BoundProgram program;
    std::vector<HostTensor> inputs;
    std::string layouts;
    bool exact = true;
  };
  static Case product(int64_t size, const std::string& layouts) {
    Case c{program_named(kProduct), {}, {}, layouts};
    c.inputs = {ramp(DType::f32, {size, size}), ramp(DType::f32, {size, size})};
    c.program = tile::bind(*c.source, {{DType::f32, {size, size}}, {DType::f32, {size, size}}});
    return c;
  }
  void expect_same_runs(const DeviceRanks& on, const Case& c, Overlap overlap, int runs) {
    MeshProgramOptions options{{}, c.layouts};
    for (const HostTensor& input : c.inputs) options.inputs.push_back({input.type, input.shape});
    options.overlap = overlap;
    Interpretation expected = interpret(c.program, c.inputs, {}, true);
    for (const std::vector<HostTensor>& outputs : on.run(c.source, options, c.inputs, runs)) {
      EXPECT_EQ(difference(expected, outputs, c.exact), "");
    }
  }
  // The next seeds whose programs are on so few ranks as there are GPUs.
  void expect_same_products(uint64_t first, int programs, int runs) {
    for (uint64_t seed = first; programs > 0; ++seed) {
      RandomProducts drawn = random_products(seed, true);
      if (mesh_of(drawn.mesh, "mesh").ranks() > static_cast<size_t>(kGpus)) continue;
      --programs;
      SCOPED_TRACE("seed " + std::to_string(seed) + ", " + drawn.text());
      expect_same_runs(*ranks(drawn.mesh),
                       {drawn.source, drawn.program, drawn.inputs, drawn.layouts}, Overlap::always,
                       runs);
    }
  }
  void expect_same_values(uint64_t first, int programs, int runs) {
    for (uint64_t seed = first; programs > 0; ++seed) {
      RandomCase drawn = random_case(seed);
      std::shared_ptr<const Program> source = program_named(drawn.text);
      BoundProgram program = tile::bind(*source, drawn.types);
      RandomLayouts layouts = random_layouts(program, seed, true);
      size_t count = mesh_of(layouts.mesh, "mesh").ranks();
      if (count < 2 || count > static_cast<size_t>(kGpus)) continue;
      --programs;
      SCOPED_TRACE("seed " + std::to_string(seed) + ", mesh " + layouts.mesh + "\n" +
                   layouts.layouts + drawn.text);
      expect_same_runs(*ranks(layouts.mesh),
                       {source, program, drawn.inputs, layouts.layouts, drawn.exact},
                       Overlap::always, runs);
    }
  }

  void expect_same_stencils(uint64_t first, int programs, int runs) {
    for (uint64_t seed = first; programs > 0; ++seed) {
      RandomStencils drawn = random_stencils(seed);
      size_t count = mesh_of(drawn.mesh, "mesh").ranks();
      if (count < 2 || count > static_cast<size_t>(kGpus)) continue;
      --programs;
      SCOPED_TRACE("seed " + std::to_string(seed) + ", " + drawn.text());
      std::vector<InputType> types;
      for (const HostTensor& input : drawn.inputs) types.push_back({input.type, input.shape});
      BoundProgram program = tile::bind(*drawn.source, types);  // without rules of its own
      expect_same_runs(*ranks(drawn.mesh), {drawn.source, program, drawn.inputs, drawn.layouts},
                       Overlap::always, runs);
    }
  }

  // What two ranks throw that run a product several times; `before` each run of a rank.
  using Before = std::function<void(const MeshProgram& program, size_t rank, int run)>;
  std::vector<std::string> errors_of_runs(double timeout, int runs, const Before& before) {
    MeshProgramOptions what{{{DType::f32, {6, 6}}, {DType::f32, {6, 6}}}, kGathered};
    return errors_of_runs("x=2", timeout, kProduct, what, runs, before);
  }
  std::vector<std::string> errors_of_runs(const std::string& on, double timeout,
                                          const std::string& text, const MeshProgramOptions& what,
                                          int runs, const Before& before) {
    return errors_of(on, timeout, [&](const auto& gpu, const auto& mesh) {
      MeshProgram program(gpu, program_named(text), mesh, what);
      size_t rank = mesh->rank();
      TensorsOnDevice inputs, outputs;
      for (const MeshProgram::Part& part : program.inputs()) {
        inputs.push_back(
            std::make_unique<TensorOnDevice>(*gpu, part.type, part.boxes[rank].shape()));
        inputs.back()->set(ramp(part.type, part.boxes[rank].shape()).bytes.data());
      }
      for (const MeshProgram::Part& part : program.outputs()) {
        outputs.push_back(
            std::make_unique<TensorOnDevice>(*gpu, part.type, part.boxes[rank].shape()));
      }
      for (int run = 0; run < runs; ++run) {
        if (before) before(program, rank, run);
        program.run(views_of(inputs), views_of(outputs));
      }
    });
  }

  // What each rank gives its streams while its second run is recorded, but for events.
  std::vector<Steps> recorded(const std::string& on, const std::string& text,
                              const MeshProgramOptions& what) {
    std::vector<Steps> steps(mesh_of(on, "mesh").ranks());
    auto errors =
        errors_of_runs(on, kTimeout, text, what, 3, [&](const auto& program, size_t rank, int run) {
          program.mesh()->meet("test");  // the others are behind the run before
          if (run == 1) fake_driver().trace(1);
          program.mesh()->meet("test");
          if (run != 2) return;
          std::istringstream lines(fake_driver().traced());
          for (std::string line; std::getline(lines, line);) {
            bool orders = line.starts_with("record") || line.starts_with("wait");
            if (!orders) steps[rank].push_back(line);
          }
        });
    fake_driver().trace(0);
    EXPECT_THAT(errors, Each(""));
    return steps;
  }
};

// The parts that a rank sends are made where the other one wants them, and its border is computed,
// on the stream whose blocks go first: neither comes behind the inner cells.
TEST_F(Replays, TheBorderOfAStencilRunsBesideItsInnerCells) {
  MeshProgramOptions what{{{DType::f32, {36, 20}}}, "A[x, *] O[x, *]"};
  what.overlap = Overlap::always;
  const char* text =
      "function (A[M, N]) -> (O) {\n  O[i, j: M - 4, N - 4] = "
      "=(A[i, j + 1] + A[i + 4, j + 1] + A[i + 2, j]);\n}";
  for (const Steps& steps : recorded("x=2", text, what)) {
    EXPECT_THAT(steps, ElementsAre("launch", "launch beside", "signals beside", "launch beside",
                                   "priorities", "graph"));
  }
}

// The words that end one piece and begin the next are one piece of work.
TEST_F(Replays, PiecesShareTheirWords) {
  MeshProgramOptions what{{{DType::f32, {8, 8}}, {DType::f32, {8, 8}}}, kGathered};
  what.overlap = Overlap::always;
  for (const Steps& steps : recorded("x=4", kProduct, what)) {
    EXPECT_EQ(std::ranges::count(steps, "copy beside"), 3);
    EXPECT_EQ(std::ranges::count(steps, "signals beside"), 4);
  }
}

// Any dimension cut, wider than a shard, with boundary rules.
TEST_F(Replays, RandomStencils) {
  expect_same_stencils(51000, 3, 4);
  fake_driver().late(1);
  expect_same_stencils(51100, 3, 6);
  fake_driver().late(0);
}

TEST_F(Replays, TheSecondRunIsRecordedAndFurtherOnesAreReplayed) {
  std::unique_ptr<DeviceRanks> two = ranks("x=2");
  for (const char* layouts : {kGathered, kAdded}) {
    int before = graphs(), collectives = fake_nccl().calls("ncclAllGather");
    expect_same_runs(*two, product(6, layouts), Overlap::never, 5);
    EXPECT_EQ(graphs() - before, 2 * 4) << "all runs but the first one, on two ranks";
    EXPECT_LE(fake_nccl().calls("ncclAllGather") - collectives, 2);
  }
}

TEST_F(Replays, RandomProductsInPieces) { expect_same_products(300, 8, 4); }

TEST_F(Replays, RandomPrograms) { expect_same_values(150, 8, 4); }

// Only words in memory and events order the streams.
TEST_F(Replays, StreamsThatRunLateAndInAnyOrder) {
  fake_driver().late(1);
  expect_same_products(300, 3, 12);
  expect_same_values(150, 3, 12);
  fake_driver().late(0);
}

TEST_F(Replays, RanksThatDoNotReachEachOtherRecordNothing) {
  fake_driver().peers(0);
  int before = graphs();
  expect_same_runs(*ranks("x=2"), product(6, kGathered), Overlap::never, 4);
  EXPECT_EQ(graphs(), before);
}

TEST_F(Replays, WhatOneRankCannotRecordNoneDoes) {
  int before = fake_driver().calls("cuStreamBatchMemOp");
  fake_driver().fail("cuStreamBatchMemOp", CUDA_ERROR_NOT_SUPPORTED, 0);
  expect_same_runs(*ranks("x=2"), product(6, kGathered), Overlap::never, 6);
  EXPECT_GT(fake_driver().calls("cuStreamBatchMemOp"), before);
}

TEST_F(Replays, MemoryThatIsShortLeavesRunsAsTheyWere) {
  for (const char* call : {"cuMemHostAlloc", "cuGraphInstantiateWithFlags"}) {
    fake_driver().fail(call, CUDA_ERROR_OUT_OF_MEMORY, 0);
    expect_same_runs(*ranks("x=2"), product(6, kGathered), Overlap::never, 5);
  }
}

// One rank has other tensors in one of its runs: that one is nobody's recording.
TEST_F(Replays, OtherTensorsOfOneRank) {
  constexpr int kRuns = 6, kOther = 3;
  std::unique_ptr<DeviceRanks> two = ranks("x=2");
  Case c = product(6, kGathered);
  Interpretation expected = interpret(c.program, c.inputs, {}, true);
  MeshProgramOptions options{{{DType::f32, {6, 6}}, {DType::f32, {6, 6}}}, c.layouts};
  std::vector<std::vector<HostTensor>> parts(kRuns, std::vector<HostTensor>(2));
  std::vector<MeshProgram::Part> outputs;
  two->on_each([&](size_t r) {
    Engine& gpu = *two->engine(r);
    MeshProgram program(two->engine(r), c.source, two->mesh(r), options);
    TensorsOnDevice given, results;
    for (size_t i = 0; i < 2; ++i) {
      HostTensor part = program.part_of_input(c.inputs[i], i);
      given.push_back(std::make_unique<TensorOnDevice>(gpu, part.type, part.shape));
      given.back()->set(part.bytes.data());
    }
    const MeshProgram::Part& part = program.outputs()[0];
    for (int i = 0; i < 2; ++i) {
      results.push_back(std::make_unique<TensorOnDevice>(gpu, part.type, part.boxes[r].shape()));
    }
    for (size_t run = 0; run < kRuns; ++run) {
      const TensorOnDevice& result = *results[r == 1 && run == kOther ? 1 : 0];
      program.run(views_of(given), {result.view()});
      parts[run][r] = result.get();
    }
    if (r == 0) outputs = program.outputs();
  });
  for (const std::vector<HostTensor>& run : parts) {
    HostTensor whole = put_together(outputs[0], mesh_of("x=2", "mesh"),
                                    {run[0].bytes.data(), run[1].bytes.data()});
    EXPECT_EQ(difference(expected, {whole}, true), "");
  }
}

TEST_F(Replays, ARankThatStaysAwayIsSilent) {
  constexpr double kShort = 0.3;
  auto errors = errors_of_runs(kShort, 5, [](const MeshProgram& program, size_t rank, int run) {
    if (rank != 1 || run != 4) return;
    std::this_thread::sleep_for(std::chrono::seconds(2));
    program.mesh()->transport().abort("it was away");
    fail(Stage::run, "argument", {}, "it was away");
  });
  EXPECT_THAT(errors[0], StartsWith("rank: "));
  EXPECT_EQ(errors[1], "argument: it was away");
}

TEST_F(Replays, ARankThatFailsBeforeItsRunIsTold) {
  auto errors = errors_of_runs(kTimeout, 5, [](const MeshProgram& program, size_t rank, int run) {
    if (rank != 1 || run != 4) return;
    program.mesh()->transport().abort("no more");
    fail(Stage::run, "argument", {}, "no more");
  });
  EXPECT_THAT(errors[0], HasSubstr("no more"));
}

// Failures of the driver in a run that is recorded and in runs that are replayed: errors or none,
// no rank that waits for ever, and nothing left.
TEST_F(Replays, EveryCallOfTheDriverMayFail) {
  constexpr int kRuns = 5;
  for (const char* name :
       {"cuStreamBatchMemOp", "cuEventCreate", "cuEventRecord", "cuEventQuery", "cuStreamWaitEvent",
        "cuMemcpyDtoDAsync", "cuGraphLaunch", "cuStreamCreate", "cuStreamCreateWithPriority",
        "cuStreamBeginCapture", "cuPointerGetAttribute", "cuLaunchKernelEx",
        "cuMemAllocFromPoolAsync"}) {
    for (int at : {1, 3}) {
      for (int after = 0; after < 4; ++after) {
        SCOPED_TRACE(std::string(name) + ", run " + std::to_string(at) + ", call " +
                     std::to_string(after));
        fake_driver().late(after % 2);
        auto errors =
            errors_of_runs(kTimeout, kRuns, [&](const MeshProgram&, size_t rank, int run) {
              if (rank == 0 && run == at) fake_driver().fail(name, CUDA_ERROR_INVALID_VALUE, after);
            });
        // A rank may have all that it needs before the other one's last run fails.
        EXPECT_THAT(errors, Each(::testing::AnyOf("", StartsWith("cuda: "), StartsWith("rank: "),
                                                  StartsWith("memory: "), StartsWith("nccl: "))));
        fake_driver().fail(name, CUDA_SUCCESS, 0);
        fake_driver().late(0);
      }
    }
  }
}

// The device of one rank does not come to its recording: the other one's waits, and is let go.
TEST_F(Replays, ALaunchThatFailsIsToldToAll) {
  std::atomic<bool> failed = false;
  auto errors = errors_of_runs(kTimeout, 5, [&](const MeshProgram&, size_t rank, int run) {
    if (rank != 1 || run != 4 || failed.exchange(true)) return;
    fake_driver().fail("cuGraphLaunch", CUDA_ERROR_UNKNOWN, 0);
  });
  EXPECT_THAT(errors, Each(::testing::Not("")));
}

}  // namespace
}  // namespace tile::test
