// In which order ranks on GPUs give their two streams work: what is sent is made before, what has
// arrived is read behind, nothing else waits, and kernels that run meanwhile are given first.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <sstream>

#include "tests/cuda_runtime/ranks/fake_gpus.h"

namespace tile::test {
namespace {

using ::testing::ElementsAre;
using Steps = std::vector<std::string>;

class Streams : public OnFakeGpus {
 protected:
  // What each of two ranks gives its streams in the second run.
  std::array<Steps, 2> steps_of(const std::string& text, const std::string& layouts,
                                const std::vector<Shape>& shapes, Overlap overlap) {
    std::array<Steps, 2> steps;
    std::shared_ptr<const Program> source = program_named(text);
    auto work = [&](const std::shared_ptr<Engine>& gpu, const std::shared_ptr<RankMesh>& mesh) {
      MeshProgramOptions what{{}, layouts};
      for (const Shape& shape : shapes) what.inputs.push_back({DType::f32, shape});
      what.overlap = overlap;
      MeshProgram program(gpu, source, mesh, what);
      std::vector<HostTensor> inputs, outputs;
      for (const MeshProgram::Part& part : program.inputs()) {
        inputs.push_back(ramp(DType::f32, part.boxes[mesh->rank()].shape()));
      }
      for (const MeshProgram::Part& part : program.outputs()) {
        outputs.emplace_back(DType::f32, part.boxes[mesh->rank()].shape());
      }
      program.run(views_of(inputs), views_of(outputs));
      mesh->meet("test");
      fake_driver().trace(1);
      mesh->meet("test");
      program.run(views_of(inputs), views_of(outputs));
      std::istringstream lines(fake_driver().traced());
      for (std::string line; std::getline(lines, line);) steps[mesh->rank()].push_back(line);
    };
    EXPECT_THAT(errors_of("x=2", 30, work), ::testing::Each(""));
    fake_driver().trace(0);
    return steps;
  }
};

constexpr const char* kProduct =
    "function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }";

TEST_F(Streams, AnExchangeThatDoesNotTravelIsInLine) {
  for (const Steps& steps :
       steps_of(kProduct, "A[x, *] B[*, x] C[*, x]", {{4, 4}, {4, 8}}, Overlap::never)) {
    EXPECT_THAT(steps, ElementsAre("record 1", "collective", "record 2", "launch"));
  }
}

// Each rank copies what the other one has, behind what made it, and comes behind the other's copy.
TEST_F(Streams, PeersCopyBesideOwnRows) {
  for (const Steps& steps :
       steps_of(kProduct, "A[x, *] B[*, x] C[*, x]", {{4, 4}, {4, 8}}, Overlap::always)) {
    EXPECT_THAT(steps, ElementsAre("record 1", "launch", "wait 1 beside", "wait 2 beside",
                                   "copy beside", "record 3 beside", "wait 4 beside",
                                   "record 5 beside", "wait 5", "launch"));
  }
}

// Own rows are computed while others come.
TEST_F(Streams, AGatherTravelsBesideOwnRows) {
  fake_driver().peers(0);
  for (const Steps& steps :
       steps_of(kProduct, "A[x, *] B[*, x] C[*, x]", {{4, 4}, {4, 8}}, Overlap::always)) {
    EXPECT_THAT(steps, ElementsAre("record 1", "launch", "wait 1 beside", "parts beside",
                                   "record 2 beside", "wait 2", "launch"));
  }
}

// What the other rank adds up is computed, and then goes while own terms are.
TEST_F(Streams, SumsTravelBesideOwnTerms) {
  fake_driver().peers(0);
  for (const Steps& steps :
       steps_of(kProduct, "A[*, x] B[x, *] C[x, *]  C: k=x", {{4, 4}, {4, 8}}, Overlap::always)) {
    EXPECT_THAT(steps, ElementsAre("launch", "record 1", "launch", "wait 1 beside", "parts beside",
                                   "record 2 beside", "wait 2", "launch"));
  }
}

// The border waits, and what the rank itself has for it is copied beside the inner cells.
TEST_F(Streams, AHaloTravelsBesideInnerCells) {
  fake_driver().peers(0);
  std::array<Steps, 2> steps =
      steps_of("function (A[M, N]) -> (O) {\n  O[i, j: M - 2, N] = +(A[i + k, j]), k < 3;\n}",
               "A[x, *] O[x, *]", {{18, 4}}, Overlap::always);
  for (const Steps& of_rank : steps) {
    EXPECT_THAT(of_rank, ElementsAre("record 1", "launch", "wait 1 beside", "parts beside",
                                     "copy beside", "record 2 beside", "wait 2", "launch"));
  }
}

}  // namespace
}  // namespace tile::test
