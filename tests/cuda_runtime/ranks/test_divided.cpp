// Divided programs on several GPUs give the undivided program's values, over a link and through the
// host's memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/distribute/overlap/pieces/in_pieces.h"
#include "core/interpret/interpret.h"
#include "core/passes/bind/bind.h"
#include "runtime/ranks/local_mesh.h"
#include "tests/cuda_runtime/ranks/fake_gpus.h"
#include "tests/distribute/random_layouts.h"
#include "tests/distribute/random_products.h"
#include "tests/distribute/sharded_run.h"
#include "tests/random/agreement/agreement.h"
#include "tests/random/random_program.h"
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class DividedOnGpus : public OnFakeGpus {
 protected:
  // The next seeds whose programs are on so few ranks as there are GPUs.
  void expect_same_values(uint64_t first, int programs, Overlap overlap = Overlap::never) {
    std::shared_ptr<Engine> gpus = engine();
    for (uint64_t seed = first; programs > 0; ++seed) {
      RandomCase drawn = random_case(seed);
      std::shared_ptr<const Program> source = program_named(drawn.text);
      BoundProgram program = tile::bind(*source, drawn.types);
      RandomLayouts layouts = random_layouts(program, seed, true);
      size_t ranks = mesh_of(layouts.mesh, "mesh").ranks();
      if (ranks < 2 || ranks > static_cast<size_t>(kGpus)) continue;
      --programs;
      SCOPED_TRACE("seed " + std::to_string(seed) + ", mesh " + layouts.mesh + "\n" +
                   layouts.layouts + drawn.text);
      try {
        LocalMesh mesh(gpus, source, program, divided(program, layouts.mesh, layouts.layouts),
                       {overlap, {}, {}});
        Interpretation expected = interpret(program, drawn.inputs, {}, true);
        for (int run = 0; run < runs_; ++run) {
          EXPECT_EQ(difference(expected, mesh.run(drawn.inputs), drawn.exact), "");
        }
      } catch (const Failure& failure) {
        ADD_FAILURE() << failure.diagnostic().message;
      }
    }
  }

  // Contractions of divided factors, most of them with exchanges in pieces.
  void expect_same_products(uint64_t first, int programs) {
    std::shared_ptr<Engine> gpus = engine();
    for (uint64_t seed = first; programs > 0; ++seed) {
      RandomProducts drawn = random_products(seed, true);
      if (mesh_of(drawn.mesh, "mesh").ranks() > static_cast<size_t>(kGpus)) continue;
      --programs;
      SCOPED_TRACE("seed " + std::to_string(seed) + ", " + drawn.text());
      try {
        PartitionedProgram parts = divided(drawn.program, drawn.mesh, drawn.layouts);
        pieces_ += in_pieces(parts, kAlways).pieces.size();
        LocalMesh mesh(gpus, drawn.source, drawn.program, parts, kAlways);
        Interpretation expected = interpret(drawn.program, drawn.inputs, {}, true);
        for (int run = 0; run < runs_; ++run) {
          EXPECT_EQ(difference(expected, mesh.run(drawn.inputs), true), "");
        }
      } catch (const Failure& failure) {
        ADD_FAILURE() << failure.diagnostic().message;
      }
    }
  }

  const OverlapOptions kAlways{Overlap::always, {}, {}};
  size_t pieces_ = 0;  // exchanges that were in pieces
  int runs_ = 2;       // of each program
};

constexpr int kPrograms = 12;

TEST_F(DividedOnGpus, ProductsInPiecesByCopyEngines) {
  expect_same_products(300, kPrograms);
  EXPECT_GT(pieces_, 5U);
}

TEST_F(DividedOnGpus, ProductsInPiecesOverNccl) {
  fake_driver().peers(0);
  expect_same_products(300, kPrograms);
  EXPECT_GT(fake_nccl().calls("ncclSend"), 10);
}

TEST_F(DividedOnGpus, ProductsInPiecesThroughTheHost) {
  setenv("TILE_NCCL", "off", 1);
  expect_same_products(300, 4);
}

TEST_F(DividedOnGpus, RandomProgramsThatTravel) {
  expect_same_values(150, kPrograms, Overlap::always);
  fake_driver().peers(0);
  expect_same_values(170, kPrograms, Overlap::always);
}

// Whatever the streams do first: only events order them. Runs of one program meet many orders.
TEST_F(DividedOnGpus, StreamsThatRunLateAndInAnyOrder) {
  constexpr int kEach = 3;
  runs_ = 12;
  for (int reach : {1, 0}) {
    fake_driver().peers(reach);
    fake_driver().late(1);
    expect_same_products(300, kEach);
    expect_same_values(150, kEach, Overlap::always);
    fake_driver().late(0);
  }
}

TEST_F(DividedOnGpus, StreamsThatRunLateThroughTheHost) {
  setenv("TILE_NCCL", "off", 1);
  fake_driver().late(1);
  expect_same_values(100, 3, Overlap::always);
}

TEST_F(DividedOnGpus, RandomProgramsOverNccl) {
  int before = fake_driver().calls("cuMemHostAlloc");
  expect_same_values(100, kPrograms);
  EXPECT_GT(fake_nccl().calls("ncclSend"), 0);
  EXPECT_EQ(fake_driver().calls("cuMemHostAlloc"), before)
      << "parts went through the host's memory";
  EXPECT_THAT(log(), HasSubstr("ranks exchange between GPUs over NCCL 2.28.9"));
  EXPECT_THAT(log(), Not(HasSubstr("through the host's memory")));
}

TEST_F(DividedOnGpus, RandomProgramsThroughTheHost) {
  setenv("TILE_NCCL", "off", 1);
  expect_same_values(100, kPrograms);
  EXPECT_EQ(fake_nccl().calls("ncclSend"), 0);
  EXPECT_THAT(log(), HasSubstr("ranks exchange through the host's memory: rank 0 has no NCCL: "
                               "TILE_NCCL is off"));
}

TEST_F(DividedOnGpus, RanksThatShareAGpuExchangeThroughTheHost) {
  fake_driver().set(13000, 1);
  expect_same_values(100, 3);
  EXPECT_EQ(fake_nccl().calls("ncclSend"), 0);
  EXPECT_THAT(log(), HasSubstr("ranks 0 and 1 share a GPU"));
}

// Text, mesh and layouts, and what exchanges must do.
struct Known {
  const char *text, *mesh, *layouts;
  Shape a, b;
  DType type;
  Overlap overlap = Overlap::never;
};
constexpr const char* kProduct =
    "function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }";

void expect_known(const std::shared_ptr<Engine>& gpus, const Known& known) {
  std::shared_ptr<const Program> source = program_named(known.text);
  std::vector<HostTensor> inputs{ramp(known.type, known.a), ramp(known.type, known.b)};
  BoundProgram program = tile::bind(*source, {{known.type, known.a}, {known.type, known.b}});
  LocalMesh mesh(gpus, source, program, divided(program, known.mesh, known.layouts),
                 {known.overlap, {}, {}});
  Interpretation expected = interpret(program, inputs, {}, true);
  EXPECT_EQ(difference(expected, mesh.run(inputs), true), "") << known.layouts;
}

TEST_F(DividedOnGpus, ProductsInEveryDivision) {
  std::shared_ptr<Engine> gpus = engine();
  Shape a{7, 5}, b{5, 6};
  // Rows are gathered where they lie, columns are packed and unpacked, sums are scattered and kept.
  for (const char* layouts :
       {"A[x, *] B[x, *] C[x, *]", "A[x, *] B[*, x] C[x, *]", "A[*, x] B[x, *] C[x, *]  C: k=x",
        "A[*, x] B[x, *] C[*, x]  C: k=x", "A[*, x] B[x, *] C[*, *]  C: k=x",
        "A[*, x] B[x, *] C[*, *] + x  C: k=x"}) {
    expect_known(gpus, {kProduct, "x=3", layouts, a, b, DType::f32});
  }
  expect_known(gpus, {kProduct, "x=2,y=2", "A[x, y] B[y, x] C[x, y]", a, b, DType::f32});
  expect_known(
      gpus, {kProduct, "x=4", "A[x(1, 0, 4, 2), *] B[x, *] C[x(3, 3, 1, 0), *]", a, b, DType::f32});
}

// Even parts that stand side by side travel by one call of NCCL's own.
TEST_F(DividedOnGpus, CollectivesAreCalled) {
  struct {
    const char *layouts, *name;
  } const kinds[] = {{"A[x, *] B[*, x] C[*, x]", "ncclAllGather"},
                     {"A[*, x] B[x, *] C[x, *]  C: k=x", "ncclReduceScatter"},
                     {"A[*, x] B[x, *] C[*, *]  C: k=x", "ncclAllReduce"}};
  std::shared_ptr<Engine> gpus = engine();
  for (const auto& kind : kinds) {
    for (DType type : {DType::f32, DType::bf16, DType::i32}) {
      int sends = fake_nccl().calls("ncclSend"), calls = fake_nccl().calls(kind.name);
      expect_known(gpus, {kProduct, "x=2", kind.layouts, {6, 4}, {4, 8}, type});
      EXPECT_EQ(fake_nccl().calls(kind.name), calls + 2) << kind.layouts;
      EXPECT_EQ(fake_nccl().calls("ncclSend"), sends);
    }
    // Floats of more ranks are added in the order of the ranks; integers in any.
    int calls = fake_nccl().calls(kind.name);
    expect_known(gpus, {kProduct, "x=3", kind.layouts, {6, 3}, {3, 6}, DType::i32});
    EXPECT_EQ(fake_nccl().calls(kind.name), calls + 3) << kind.layouts;
    expect_known(gpus, {kProduct, "x=3", kind.layouts, {6, 3}, {3, 6}, DType::f32});
    bool sums = std::string(kind.name) != "ncclAllGather";
    EXPECT_EQ(fake_nccl().calls(kind.name), calls + (sums ? 3 : 6)) << kind.layouts;
    // Uneven parts are sent one by one.
    int sends = fake_nccl().calls("ncclSend");
    expect_known(gpus, {kProduct, "x=2", kind.layouts, {5, 5}, {5, 5}, DType::f32});
    EXPECT_GE(fake_nccl().calls("ncclSend"), sends);
  }
}

TEST_F(DividedOnGpus, SumsOfNarrowTypes) {
  std::shared_ptr<Engine> gpus = engine();
  for (DType type : {DType::bf16, DType::i8}) {
    expect_known(gpus, {kProduct, "x=2", "A[*, x] B[x, *] C[x, *]  C: k=x", {4, 2}, {2, 4}, type});
  }
}

constexpr const char* kStencil =
    "function (A[M, N], B[K, L]) -> (O) {\n"
    "  O[i, j: M - 2, N - 2] = +(A[i + k, j + l] * B[k, l]);\n}";

TEST_F(DividedOnGpus, HalosInTwoDimensions) {
  expect_known(engine(),
               {kStencil, "x=2,y=2", "A[x, y] B[*, *] O[x, y]", {9, 7}, {3, 3}, DType::f32});
}

// Inner cells and borders are written with the strides of the whole; sums travel beside a product.
TEST_F(DividedOnGpus, WhatTravelsOnAStreamHasTheSameValues) {
  for (bool linked : {true, false}) {
    setenv("TILE_NCCL", linked ? "" : "off", 1);
    std::shared_ptr<Engine> gpus = engine();
    const Known halos{kStencil,   "x=2,y=2",      "A[x, y] B[*, *] O[x, y]", {9, 7}, {3, 3},
                      DType::f32, Overlap::always};
    expect_known(gpus, halos);
    const char* two =
        "function (A[M, L], B[L, N]) -> (C, Y) {\n"
        "  C[i, j: M, N] = +(A[i, k] * B[k, j]);\n"
        "  Y[i, j: M, M] = +(A[i, k] * A[j, k]);\n}";
    expect_known(gpus, {two,
                        "x=2",
                        "A[*, x] B[x, *] C[x, *] Y[*, *]  C: k=x  Y: k=x",
                        {6, 4},
                        {4, 8},
                        DType::f32,
                        Overlap::always});
  }
  EXPECT_EQ(overlap_on(*engine(), Overlap::automatic, false), Overlap::never);
  EXPECT_EQ(overlap_on(*engine(), Overlap::automatic, true), Overlap::automatic);
}

}  // namespace
}  // namespace tile::test
