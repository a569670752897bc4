// Divided programs on engines: every rank is a thread that compiles and runs its own segments.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/language/tile/tile.h"
#include "runtime/ranks/exchange_names.h"
#include "runtime/ranks/local_mesh.h"
#include "tests/distribute/random_layouts.h"
#include "tests/distribute/sharded_run.h"
#include "tests/random/agreement/agreement.h"
#include "tests/random/random_program.h"
#include "tests/ranks/mesh_runs.h"
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

TEST(LocalMesh, RandomProgramsOnTheReference) {
  std::shared_ptr<Engine> engine = engine_of("reference");
  for (uint64_t seed : seeds(100, 40)) expect_same_values(engine, seed);
}

TEST(LocalMesh, RandomProgramsOnTheCpu) {
  std::shared_ptr<Engine> engine = engine_of("cpu");
  for (uint64_t seed : seeds(200, 12)) expect_same_values(engine, seed);
}

const char* const kProduct =
    "function (A[M, L], B[L, N]) -> (C) {\n  C[i, j: M, N] = +(A[i, k] * B[k, j]);\n}";

TEST(LocalMesh, RunsAgainAndNamesItsExchanges) {
  auto text = std::make_shared<const Source>(Source{"mm.tile", kProduct});
  auto source = std::make_shared<const Program>(parse_tile(text));
  BoundProgram program = tile::bind(*source, {{DType::f32, {5, 3}}, {DType::f32, {3, 4}}});
  PartitionedProgram parts = divided(program, "x=2", "A[x, *] B[*, x] C[x, *]");
  EXPECT_EQ(exchange_names(parts, *text), std::vector<std::string>{"all-gather of B, mm.tile:2"});
  LocalMesh mesh(engine_of("reference"), source, program, std::move(parts));
  std::vector<HostTensor> inputs{HostTensor(DType::f32, {5, 3}), HostTensor(DType::f32, {3, 4})};
  for (int run = 0; run < 2; ++run) {
    for (HostTensor& t : inputs) {
      for (int64_t i = 0; i < t.count(); ++i) t.set(i, real_scalar(double(i + run), t.type));
    }
    EXPECT_EQ(mesh.run(inputs)[0].bytes, interpret(program, inputs).outputs[0].bytes);
  }
}

}  // namespace
}  // namespace tile::test
