// Runs in which ranks compute while parts travel: values, memory, and ends that differ.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "core/distribute/overlap/pieces/in_pieces.h"
#include "core/language/tile/tile.h"
#include "runtime/ranks/local_mesh.h"
#include "runtime/ranks/rank_mesh.h"
#include "runtime/transport/courier.h"
#include "runtime/transport/local_transport.h"
#include "tests/distribute/random_layouts.h"
#include "tests/distribute/random_products.h"
#include "tests/distribute/sharded_run.h"
#include "tests/random/agreement/agreement.h"
#include "tests/random/random_program.h"
#include "tests/ranks/mesh_runs.h"
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<const Program> program_of(const std::string& text) {
  return std::make_shared<const Program>(
      parse_tile(std::make_shared<const Source>(Source{"test.tile", text})));
}

const OverlapOptions kAlways{Overlap::always, {}, {}};

TEST(OverlappedRuns, RandomProgramsOnTheReference) {
  std::shared_ptr<Engine> engine = engine_of("reference");
  for (uint64_t seed : seeds(31000, 60)) expect_same_values(engine, seed, kAlways, 2);
}

TEST(OverlappedRuns, RandomProgramsOnTheCpu) {
  std::shared_ptr<Engine> engine = engine_of("cpu");
  for (uint64_t seed : seeds(33000, 12)) expect_same_values(engine, seed, kAlways, 2);
}

// Contractions of divided factors: gathers and sums in pieces.
void expect_same_products(const std::string& backend, uint64_t first, uint64_t programs) {
  std::shared_ptr<Engine> engine = engine_of(backend);
  size_t pieces = 0;
  for (uint64_t seed : seeds(first, programs)) {
    RandomProducts drawn = random_products(seed, true);
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + drawn.text());
    try {
      PartitionedProgram parts = divided(drawn.program, drawn.mesh, drawn.layouts);
      OverlapOptions how = kAlways;
      how.links.any = {100, seed % 2 == 0 ? 1e-6 : 10};  // slow ones have finer pieces
      pieces += in_pieces(parts, how).pieces.size();
      LocalMesh mesh(engine, drawn.source, drawn.program, parts, how);
      Interpretation expected = interpret(drawn.program, drawn.inputs, {}, true);
      for (int run = 0; run < 2; ++run) {
        EXPECT_EQ(difference(expected, mesh.run(drawn.inputs), true), "");
      }
    } catch (const Failure& failure) {
      ADD_FAILURE() << failure.diagnostic().message;
    }
  }
  EXPECT_GT(pieces, programs / 3);
}

TEST(OverlappedRuns, ProductsInPiecesOnTheReference) {
  expect_same_products("reference", 81000, 60);
}
TEST(OverlappedRuns, ProductsInPiecesOnTheCpu) { expect_same_products("cpu", 82000, 16); }

HostTensor counted(const Shape& shape) {
  HostTensor t(DType::f32, shape);
  for (int64_t i = 0; i < t.count(); ++i) t.set(i, real_scalar(double(i % 29 - 7), t.type));
  return t;
}

// A program of one input on a CPU: what ranks that overlap have is what ranks have that do not.
void expect_same_bits(const std::string& text, const Shape& shape, const std::string& mesh,
                      const std::string& layouts) {
  SCOPED_TRACE(mesh + " " + layouts + "\n" + text);
  std::shared_ptr<Engine> engine = engine_of("cpu");
  std::shared_ptr<const Program> source = program_of(text);
  BoundProgram program = tile::bind(*source, {{DType::f32, shape}});
  std::vector<HostTensor> inputs{counted(shape)};
  LocalMesh blocking(engine, source, program, divided(program, mesh, layouts),
                     {Overlap::never, {}, {}});
  LocalMesh overlapping(engine, source, program, divided(program, mesh, layouts), kAlways);
  std::vector<HostTensor> expected = blocking.run(inputs), got = overlapping.run(inputs);
  for (size_t o = 0; o < expected.size(); ++o) EXPECT_EQ(expected[o].bytes, got[o].bytes);
}

// Borders along the last dimension are written with the strides of the whole.
TEST(OverlappedRuns, StencilsOnACpuKeepTheirBits) {
  const std::string flat =
      "function (A[M, N]) -> (O) {\n"
      "  O[i, j: M - 2, N - 2] = =(A[i, j + 1] + A[i + 2, j + 1] + A[i + 1, j] + A[i + 1, j + "
      "2]);\n}";
  for (const char* layouts : {"A[x, *] O[x, *]", "A[*, x] O[*, x]"}) {
    expect_same_bits(flat, {67, 101}, "x=3", layouts);
  }
  expect_same_bits(flat, {67, 101}, "x=2, y=2", "A[x, y] O[x, y]");
  const std::string deep =
      "function (A[L, M, N]) -> (O) {\n"
      "  H[i, j, k: L - 2, M - 2, N - 2] = +(A[i + a, j + b, k + c]), a < 3, b < 3, c < 3;\n"
      "  O = max(H, 3) * 2;\n}";
  expect_same_bits(deep, {13, 17, 35}, "x=2, y=2", "A[x, *, y] O[x, *, y] H[x, *, y]");
  expect_same_bits(deep, {13, 17, 35}, "x=2, y=2, z=2", "A[x, y, z] O[x, y, z] H[x, y, z]");
}

// The cells of one step travel while those of the next are computed from it.
TEST(OverlappedRuns, StepsOfAStencil) {
  expect_same_bits(
      "function (A[N]) -> (O) {\n"
      "  B[i: N - 2] = =(A[i] + 2 * A[i + 1] + A[i + 2]);\n"
      "  C[i: N - 4] = =(B[i] + 2 * B[i + 1] + B[i + 2]);\n"
      "  O[i: N - 6] = =(C[i] + 2 * C[i + 1] + C[i + 2]);\n}",
      {103}, "x=4", "A[x] B[x] C[x] O[x]");
}

TEST(Courier, MakesExchangesInOrder) {
  auto ends = local_transports(2, 30);
  std::vector<int> got(2), told{7, 9};
  auto bytes = [](int& value) { return reinterpret_cast<std::byte*>(&value); };
  std::thread other([&] {
    for (int& value : told) {
      SentPart part{0, bytes(value), sizeof value};
      ends[1]->exchange({&part, 1}, {}, "numbers");
    }
  });
  for (int& value : got) {
    ends[0]->courier().begin({}, {{1, bytes(value), sizeof value}}, "numbers");
  }
  ends[0]->courier().end();
  EXPECT_EQ(got[0], 7);
  ends[0]->courier().end();
  EXPECT_EQ(got[1], 9);
  other.join();
}

TEST(Courier, TellsAtTheEndWhatFailedMeanwhile) {
  auto ends = local_transports(2, 0.2);
  std::byte place{};
  ends[0]->courier().begin({}, {{1, &place, 1}}, "halo of A");
  ends[0]->courier().begin({}, {{1, &place, 1}}, "halo of B");
  for (int e = 0; e < 2; ++e) {
    try {
      ends[0]->courier().end();
      ADD_FAILURE() << "a silent rank";
    } catch (const Failure& failure) {
      EXPECT_THAT(failure.diagnostic().message, HasSubstr("silent for 0.2 s in the halo of A"));
    }
  }
}

// Whoever fails beside an exchange does not wait for it, and is who others name.
TEST(Courier, StopsAtOnceAndSaysWhy) {
  auto ends = local_transports(2, 300);
  std::byte place{};
  ends[0]->courier().begin({}, {{1, &place, 1}}, "halo of A");
  ends[0]->courier().stop("out of memory");
  ends[0]->abort("out of memory");
  EXPECT_THROW(ends[0]->courier().begin({}, {}, "halo of B"), Failure);
  try {
    ReceivedPart part{0, &place, 1};
    ends[1]->exchange({}, {&part, 1}, "halo of A");
    ADD_FAILURE() << "a rank that failed";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.diagnostic().message,
              "rank 0 of 2 failed before the halo of A: out of memory");
  }
}

// The rank is dead before the other one's inner cells are done.
TEST(OverlappedRuns, ADeadRankIsNamedAtTheStatement) {
  std::shared_ptr<Engine> engine = engine_of("cpu");
  std::shared_ptr<const Program> source =
      program_of("function (A[N]) -> (O) {\n  O[i: N - 4] = +(A[i + j]), j < 5;\n}");
  Mesh axes = mesh_of("x=2", "mesh");
  auto ends = local_transports(2, 30);
  std::vector<std::string> errors(2);
  std::vector<std::thread> threads;
  for (size_t r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      auto mesh = std::make_shared<RankMesh>(axes, std::move(ends[r]));
      MeshProgram program(engine, source, mesh,
                          {{{DType::f32, {4000}}}, "A[x] O[x]", "<layouts>", Overlap::always});
      if (r == 1) return mesh->transport().abort("killed");
      std::vector<HostTensor> inputs{HostTensor(DType::f32, program.inputs()[0].boxes[0].shape())};
      std::vector<HostTensor> outputs{
          HostTensor(DType::f32, program.outputs()[0].boxes[0].shape())};
      try {
        program.run(views_of(inputs), views_of(outputs));
      } catch (const Failure& failure) {
        errors[0] = failure.diagnostic().message;
        EXPECT_EQ(position_of(*source->source, failure.diagnostic().span.begin).line, 2);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(errors[0], "rank 1 of 2 failed before the halo of A, test.tile:2: killed");
}

// Exchanges are in pieces where all ranks want that; else each still overlaps as it likes.
TEST(OverlappedRuns, RanksThatWantDifferentOverlapHaveNoPieces) {
  std::shared_ptr<Engine> engine = engine_of("cpu");
  std::shared_ptr<const Program> source = program_of(
      "function (A[M, L], B[L, N]) -> (C) {\n  C[i, j: M, N] = +(A[i, k] * B[k, j]);\n}");
  Mesh axes = mesh_of("x=3", "mesh");
  for (Overlap other : {Overlap::always, Overlap::never}) {
    auto ends = local_transports(3, 30);
    std::vector<size_t> travelling(3);
    std::vector<std::vector<std::byte>> results(3);
    std::vector<std::thread> threads;
    for (size_t r = 0; r < 3; ++r) {
      threads.emplace_back([&, r] {
        auto mesh = std::make_shared<RankMesh>(axes, std::move(ends[r]));
        MeshProgram program(engine, source, mesh,
                            {{{DType::f32, {9, 4}}, {DType::f32, {4, 6}}},
                             "A[x, *] B[*, x] C[*, x]",
                             "<layouts>",
                             r == 0 ? Overlap::always : other});
        travelling[r] = program.travelling();
        std::vector<HostTensor> inputs, outputs;
        for (size_t i = 0; i < 2; ++i)
          inputs.push_back(counted(program.inputs()[i].boxes[r].shape()));
        outputs.emplace_back(DType::f32, program.outputs()[0].boxes[r].shape());
        program.run(views_of(inputs), views_of(outputs));
        results[r] = outputs[0].bytes;
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::vector<size_t> pieces{2, 2, 2}, own{1, 0, 0};
    EXPECT_EQ(travelling, other == Overlap::always ? pieces : own);
    EXPECT_EQ(results[0], results[1]);  // their inputs are alike
    EXPECT_EQ(results[0], results[2]);
  }
}

}  // namespace
}  // namespace tile::test
