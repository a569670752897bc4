// Ranks that compile and run their own parts: agreement, boxes, memory, and ends that differ.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "core/language/tile/tile.h"
#include "runtime/ranks/rank_mesh.h"
#include "runtime/transport/local_transport.h"
#include "tests/distribute/random_layouts.h"
#include "tests/distribute/sharded_run.h"
#include "tests/random/agreement/agreement.h"
#include "tests/random/random_program.h"
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

std::shared_ptr<Engine> reference() {
  EngineOptions options;
  options.backend = "reference";
  options.cache_mode = "off";
  return Engine::create(options);
}
std::shared_ptr<const Program> program_of(const std::string& text) {
  return std::make_shared<const Program>(
      parse_tile(std::make_shared<const Source>(Source{"test.tile", text})));
}

// Every rank does its work on a thread; what each throws, as "code: message".
std::vector<std::string> errors_of(const std::string& mesh, double timeout,
                                   const std::function<void(std::shared_ptr<RankMesh>)>& work) {
  Mesh axes = mesh_of(mesh, "mesh");
  auto ends = local_transports(axes.ranks(), timeout);
  std::vector<std::string> errors(ends.size());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < ends.size(); ++r) {
    threads.emplace_back([&, r] {
      try {
        work(std::make_shared<RankMesh>(axes, std::move(ends[r])));
      } catch (const Failure& failure) {
        errors[r] = failure.diagnostic().code + ": " + failure.diagnostic().message;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

const char* const kProduct =
    "function (A[M, L], B[L, N]) -> (C) {\n  C[i, j: M, N] = +(A[i, k] * B[k, j]);\n}";
const MeshProgramOptions kFour{{{DType::f32, {4, 4}}, {DType::f32, {4, 4}}},
                               "A[x, *] B[*, x] C[x, *]"};

TEST(RankMesh, RandomProgramsRunTwiceInOneArena) {
  std::shared_ptr<Engine> engine = reference();
  for (uint64_t seed : seeds(400, 40)) {
    RandomCase drawn = random_case(seed);
    std::shared_ptr<const Program> source = program_of(drawn.text);
    BoundProgram bound = tile::bind(*source, drawn.types);
    RandomLayouts layouts = random_layouts(bound, seed, true);
    SCOPED_TRACE("seed " + std::to_string(seed) + ", mesh " + layouts.mesh + "\n" +
                 layouts.layouts + drawn.text);
    Interpretation expected = interpret(bound, drawn.inputs, {}, true);
    std::vector<std::string> differences(mesh_of(layouts.mesh, "mesh").ranks());
    auto errors = errors_of(layouts.mesh, 30, [&](std::shared_ptr<RankMesh> mesh) {
      MeshProgram program(engine, source, mesh, {drawn.types, layouts.layouts});
      std::vector<HostTensor> inputs, outputs, whole;
      for (size_t i = 0; i < drawn.inputs.size(); ++i) {
        inputs.push_back(program.part_of_input(drawn.inputs[i], i));
      }
      for (int run = 0; run < 2; ++run) {
        outputs.clear();
        for (const MeshProgram::Part& part : program.outputs()) {
          outputs.emplace_back(part.type, part.boxes[mesh->rank()].shape());
        }
        program.run(views_of(inputs), views_of(outputs));
      }
      for (size_t o = 0; o < outputs.size(); ++o) {
        whole.push_back(program.gathered(o, outputs[o], 0));
      }
      if (mesh->rank() == 0) differences[0] = difference(expected, whole, drawn.exact);
    });
    EXPECT_THAT(errors, Each(""));
    EXPECT_EQ(differences[0], "");
  }
}

TEST(RankMesh, RanksThatWereGivenOtherThingsSaySo) {
  std::shared_ptr<Engine> engine = reference();
  auto compile = [&](std::shared_ptr<RankMesh> mesh, std::string text, MeshProgramOptions what) {
    MeshProgram(engine, program_of(text), mesh, what);
  };
  auto errors = errors_of("x=3", 30, [&](std::shared_ptr<RankMesh> mesh) {
    std::string text = kProduct;
    if (mesh->rank() == 2) text.replace(text.find('*'), 1, "+");
    compile(mesh, text, kFour);
  });
  EXPECT_THAT(errors, Each("agreement: rank 2 of 3 was given another program than rank 0"));
  errors = errors_of("x=3", 30, [&](std::shared_ptr<RankMesh> mesh) {
    MeshProgramOptions what = kFour;
    if (mesh->rank() == 1) what.layouts = "A[x, *]";
    compile(mesh, kProduct, what);
  });
  EXPECT_THAT(errors, Each("agreement: rank 1 of 3 was given another layout than rank 0"));
  errors = errors_of("x=2", 30, [&](std::shared_ptr<RankMesh> mesh) {
    MeshProgramOptions what = kFour;
    if (mesh->rank() == 0) what.inputs[0].shape = {5, 4};
    compile(mesh, kProduct, what);
  });
  EXPECT_THAT(errors, Each(HasSubstr("another shape or type of an input than rank 0")));
}

TEST(RankMesh, ErrorsThatAllRanksHaveLeaveTheMeshAlive) {
  std::shared_ptr<Engine> engine = reference();
  auto errors = errors_of("x=2", 30, [&](std::shared_ptr<RankMesh> mesh) {
    MeshProgramOptions wrong = kFour;
    wrong.layouts = "A[x, q]";
    EXPECT_THROW(MeshProgram(engine, program_of(kProduct), mesh, wrong), FailureInText);
    MeshProgram(engine, program_of(kProduct), mesh, kFour);
  });
  EXPECT_THAT(errors, Each(""));
}

TEST(RankMesh, OneRankThatFailsEndsTheStepOfAll) {
  auto errors = errors_of("x=3", 30, [](std::shared_ptr<RankMesh> mesh) {
    mesh->compare_ends(mesh->rank() == 1 ? "no memory" : "", "compilation");
    if (mesh->rank() == 1) fail(Stage::run, "memory", {}, "no memory");
  });
  EXPECT_EQ(errors[1], "memory: no memory");
  EXPECT_EQ(errors[0], "rank: rank 1 of 3 failed before the end of the compilation: no memory");
  EXPECT_EQ(errors[2], errors[0]);
}

TEST(RankMesh, SilentRanksAreNamedAtTheirStatement) {
  std::shared_ptr<Engine> engine = reference();
  std::shared_ptr<const Program> source = program_of(kProduct);
  std::vector<uint32_t> places(2);
  auto errors = errors_of("x=2", 0.2, [&](std::shared_ptr<RankMesh> mesh) {
    MeshProgram program(engine, source, mesh, kFour);
    if (mesh->rank() == 1) return;  // makes no run
    std::vector<HostTensor> inputs, outputs;
    for (const auto& part : program.inputs()) inputs.emplace_back(part.type, part.boxes[0].shape());
    for (const auto& part : program.outputs()) {
      outputs.emplace_back(part.type, part.boxes[0].shape());
    }
    try {
      program.run(views_of(inputs), views_of(outputs));
    } catch (const Failure& failure) {
      places[0] = failure.diagnostic().span.begin;
      throw;
    }
  });
  EXPECT_EQ(errors[0],
            "rank: rank 1 of 2 was silent for 0.2 s in the all-gather of B, test.tile:2");
  EXPECT_EQ(position_of(*source->source, places[0]).line, 2);
}

TEST(RankMesh, OtherNumbersOfRanksAreRefused) {
  auto ends = local_transports(2, 1);
  EXPECT_THROW(RankMesh(mesh_of("x=3", "mesh"), std::move(ends[0])), Failure);
}

}  // namespace
}  // namespace tile::test
