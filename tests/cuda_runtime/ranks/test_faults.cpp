// GPUs that cannot be linked, exchanges that fail, ranks that are silent: every rank that is left
// has an error at the statement, nothing waits for ever, and nothing is left in the driver or in
// NCCL.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "runtime/engine/concurrency/call_control.h"
#include "tests/cuda_runtime/ranks/fake_gpus.h"

namespace tile::test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kInternalError = 3;  // of NCCL
const char* const kProduct =
    "function (A[M, L], B[L, N]) -> (C) {\n  C[i, j: M, N] = +(A[i, k] * B[k, j]);\n}";
const char* const kGather = "all-gather of B, test.tile:2";

// Ranks that are connected as threads are, and as processes are.
class FaultsOnGpus : public OnFakeGpus, public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    OnFakeGpus::SetUp();
    as_processes_ = GetParam();
    source_ = program_named(kProduct);
  }

  std::unique_ptr<MeshProgram> compiled(const std::shared_ptr<Engine>& gpu,
                                        const std::shared_ptr<RankMesh>& mesh) const {
    MeshProgramOptions what{{{DType::f32, {6, 6}}, {DType::f32, {6, 6}}},
                            "A[x, *] B[*, x] C[x, *]"};
    what.overlap = overlap_;
    return std::make_unique<MeshProgram>(gpu, source_, mesh, what);
  }
  // Keeps where errors are.
  void run(const MeshProgram& program) {
    std::vector<HostTensor> inputs, outputs;
    size_t rank = program.mesh()->rank();
    for (size_t i = 0; i < 2; ++i) {
      inputs.push_back(ramp(DType::f32, program.inputs()[i].boxes[rank].shape()));
    }
    outputs.emplace_back(DType::f32, program.outputs()[0].boxes[rank].shape());
    try {
      program.run(views_of(inputs), views_of(outputs));
    } catch (const Failure& failure) {
      lines_[rank] = position_of(*source_->source, failure.diagnostic().span.begin).line;
      throw;
    }
  }
  std::vector<std::string> errors_of_runs(const std::string& mesh, double timeout) {
    return errors_of(mesh, timeout,
                     [&](const auto& gpu, const auto& ranks) { run(*compiled(gpu, ranks)); });
  }

  // So that ranks which wait for each other for a short time only find them in the cache.
  void compile_kernels(const std::string& mesh) {
    errors_of(mesh, 30, [&](const auto& gpu, const auto& ranks) { compiled(gpu, ranks); });
  }
  // Of runs in which one call of the driver fails.
  void expect_error_or_values(const std::string& name, int after) {
    SCOPED_TRACE(name + " after " + std::to_string(after));
    std::vector<std::string> errors = errors_of("x=2", 30, [&](const auto& gpu, const auto& mesh) {
      if (name == "cuMemPoolSetAccess") {
        if (mesh->rank() == 0) fake_driver().fail(name.c_str(), CUDA_ERROR_INVALID_VALUE, after);
        mesh->meet("test");
      }
      std::unique_ptr<MeshProgram> program = compiled(gpu, mesh);
      mesh->meet("test");
      if (mesh->rank() == 0) fake_driver().fail(name.c_str(), CUDA_ERROR_INVALID_VALUE, after);
      mesh->meet("test");
      run(*program);
    });
    fake_driver().fail(name.c_str(), CUDA_SUCCESS, 0);
    for (const std::string& error : errors) {
      EXPECT_THAT(error, ::testing::AnyOf("", HasSubstr("cuda: "), HasSubstr("rank: ")));
    }
  }

  Overlap overlap_ = Overlap::automatic;
  std::shared_ptr<const Program> source_;
  std::array<size_t, kGpus> lines_{};
};

TEST_P(FaultsOnGpus, RunsOverTheLink) {
  EXPECT_THAT(errors_of_runs("x=3", 30), Each(""));
  EXPECT_EQ(fake_nccl().calls("ncclSend"), 6);
  EXPECT_EQ(fake_nccl().calls("ncclRecv"), 6);
}

TEST_P(FaultsOnGpus, GpusThatCannotBeLinkedExchangeThroughTheHost) {
  fake_nccl().fail("ncclCommInitRankConfig", 1, kInternalError, 0);
  EXPECT_THAT(errors_of_runs("x=2", 2), Each(""));
  EXPECT_THAT(log(), HasSubstr("through the host's memory: "));
  fake_nccl().fail("ncclGetUniqueId", -1, kInternalError, 0);
  EXPECT_THAT(errors_of_runs("x=2", 30), Each(""));
  EXPECT_THAT(log(), HasSubstr("naming a communicator: internal error (as the test asked)"));
  EXPECT_EQ(fake_nccl().calls("ncclSend"), 0);
}

TEST_P(FaultsOnGpus, OldLibrariesAreNotUsed) {
  fake_nccl().reset(21304);
  EXPECT_THAT(errors_of_runs("x=2", 30), Each(""));
  EXPECT_THAT(log(), HasSubstr("rank 0 has no NCCL"));
  EXPECT_THAT(log(), HasSubstr("is NCCL 2.13.4; 2.14 is needed"));
}

TEST_P(FaultsOnGpus, ASendThatFailsEndsAllRanks) {
  fake_nccl().fail("ncclSend", 1, kInternalError, 0);
  std::vector<std::string> errors = errors_of_runs("x=3", 30);
  EXPECT_EQ(errors[1], "nccl: exchanging parts: internal error (as the test asked)");
  for (size_t other : {0U, 2U}) {
    EXPECT_THAT(errors[other],
                AllOf(HasSubstr("rank: "), HasSubstr(kGather), HasSubstr("internal error")));
  }
  EXPECT_THAT(lines_, ::testing::ElementsAre(2, 2, 2, 0));
  EXPECT_GE(fake_nccl().calls("ncclCommAbort"), 3);
}

TEST_P(FaultsOnGpus, AnErrorWhileItRunsEndsAllRanks) {
  std::vector<std::string> errors = errors_of("x=2", 30, [&](const auto& gpu, const auto& mesh) {
    std::unique_ptr<MeshProgram> program = compiled(gpu, mesh);
    mesh->meet("test");
    if (mesh->rank() == 0) fake_nccl().fail("ncclCommGetAsyncError", 0, kInternalError, 0);
    mesh->meet("test");
    run(*program);
  });
  EXPECT_THAT(errors[0], HasSubstr("nccl: an exchange between GPUs: internal error"));
  EXPECT_THAT(errors[1], AllOf(HasSubstr("rank: rank 0 of 2 failed"), HasSubstr(kGather)));
}

TEST_P(FaultsOnGpus, ARankThatIsSilentIsNamedByAllOthers) {
  compile_kernels("x=4");
  std::vector<std::string> errors = errors_of("x=4", 0.5, [&](const auto& gpu, const auto& mesh) {
    std::unique_ptr<MeshProgram> program = compiled(gpu, mesh);
    if (mesh->rank() != 2) run(*program);
  });
  EXPECT_EQ(errors[2], "");
  for (size_t other : {0U, 1U, 3U}) {
    EXPECT_EQ(errors[other],
              std::string("rank: rank 2 of 4 was silent for 0.5 s in the ") + kGather);
    EXPECT_EQ(lines_[other], 2U);
  }
}

// By copy engines, and over NCCL.
TEST_P(FaultsOnGpus, ASilentRankIsNamedWherePiecesTravel) {
  overlap_ = Overlap::always;
  for (int peers : {1, 0}) {
    fake_driver().peers(peers);
    compile_kernels("x=3");
    std::vector<std::string> errors = errors_of("x=3", 0.5, [&](const auto& gpu, const auto& mesh) {
      std::unique_ptr<MeshProgram> program = compiled(gpu, mesh);
      if (mesh->rank() != 2) run(*program);
    });
    EXPECT_EQ(errors[2], "");
    for (size_t other : {0U, 1U}) {
      EXPECT_EQ(errors[other],
                std::string("rank: rank 2 of 3 was silent for 0.5 s in the ") + kGather);
      EXPECT_EQ(lines_[other], 2U);
    }
  }
}

TEST_P(FaultsOnGpus, EveryCallOfTheDriverMayFailBesideKernels) {
  overlap_ = Overlap::always;
  for (int peers : {1, 0}) {
    fake_driver().peers(peers);
    for (const char* name :
         {"cuStreamCreateWithPriority", "cuCtxGetStreamPriorityRange", "cuStreamWaitEvent",
          "cuMemcpyDtoDAsync", "cuEventRecord", "cuEventCreate", "cuEventQuery"}) {
      for (int after = 0; after < 4; ++after) expect_error_or_values(name, after);
    }
  }
}

TEST_P(FaultsOnGpus, PartsThatGetLostEndTheRun) {
  fake_nccl().mute(1);
  std::vector<std::string> errors = errors_of_runs("x=2", 0.3);
  EXPECT_EQ(errors[0], std::string("rank: rank 1 of 2 was silent for 0.3 s in the ") + kGather);
  EXPECT_EQ(errors[1], "");  // has all that it needs
}

// The devices begin an exchange and do not come to its end.
TEST_P(FaultsOnGpus, DevicesThatHangEndTheRun) {
  std::vector<std::string> errors = errors_of("x=2", 0.5, [&](const auto& gpu, const auto& mesh) {
    std::unique_ptr<MeshProgram> program = compiled(gpu, mesh);
    mesh->meet("test");
    fake_driver().hold_events(1);
    run(*program);
  });
  EXPECT_THAT(errors, Each(std::string("rank: nothing came for 0.5 s in the ") + kGather +
                           ", and all ranks wait"));
  EXPECT_THAT(lines_, ::testing::ElementsAre(2, 2, 0, 0));
}

TEST_P(FaultsOnGpus, ARankThatFailsByItselfEndsTheOthers) {
  std::vector<std::string> errors = errors_of("x=3", 30, [&](const auto& gpu, const auto& mesh) {
    std::unique_ptr<MeshProgram> program = compiled(gpu, mesh);
    mesh->meet("test");
    if (mesh->rank() == 1) {
      mesh->device()->abort();
      mesh->transport().abort("a.npy: cut short");
      fail(Stage::run, "file", {}, "a.npy: cut short");
    }
    run(*program);
  });
  EXPECT_EQ(errors[1], "file: a.npy: cut short");
  for (size_t other : {0U, 2U}) {
    // Perhaps by way of the other one that it ended.
    EXPECT_THAT(errors[other], HasSubstr(std::string("rank 1 of 3 failed before the ") + kGather +
                                         ": a.npy: cut short"));
  }
}

TEST_P(FaultsOnGpus, ARunThatWaitsCanBeCancelled) {
  std::vector<std::string> errors = errors_of("x=3", 30, [&](const auto& gpu, const auto& mesh) {
    std::unique_ptr<MeshProgram> program = compiled(gpu, mesh);
    if (mesh->rank() == 2) return;  // so that the others wait
    bool cancels = mesh->rank() == 0;
    CallControl control(Stage::run, [cancels] { return cancels; });
    Controlled now(&control);
    run(*program);
  });
  EXPECT_THAT(errors[0], HasSubstr("cancelled: "));
  EXPECT_THAT(errors[1], AllOf(HasSubstr("rank: rank 0 of 3 failed"), HasSubstr(kGather)));
}

TEST_P(FaultsOnGpus, AMeshThatFailedStaysSoAndAnotherWorks) {
  std::vector<std::string> errors = errors_of("x=2", 30, [&](const auto& gpu, const auto& mesh) {
    std::unique_ptr<MeshProgram> program = compiled(gpu, mesh);
    mesh->meet("test");
    if (mesh->rank() == 0) fake_nccl().fail("ncclSend", 0, kInternalError, 0);
    mesh->meet("test");
    EXPECT_THROW(run(*program), Failure);
    run(*program);
  });
  EXPECT_THAT(errors, Each(HasSubstr(std::string("rank: the mesh failed before the ") + kGather)));
  EXPECT_THAT(errors_of_runs("x=2", 30), Each(""));
}

// Failures of the driver at every call of a run, one after the other: an error or the values, and
// nothing left.
TEST_P(FaultsOnGpus, EveryCallOfTheDriverMayFail) {
  for (const char* name :
       {"cuMemAllocFromPoolAsync", "cuMemcpy3DAsync", "cuEventRecord", "cuEventQuery",
        "cuLaunchKernelEx", "cuMemcpyDtoDAsync", "cuMemPoolSetAccess", "cuEventCreate"}) {
    for (int after = 0; after < 3; ++after) expect_error_or_values(name, after);
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, FaultsOnGpus, ::testing::Bool(),
                         [](const auto& of) { return of.param ? "LikeProcesses" : "Threads"; });

}  // namespace
}  // namespace tile::test
