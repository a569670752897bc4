// Ranks that compute while parts travel: the same bits, the same bytes, and what is expected to go
// first.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/distribute/overlap/overlap.h"
#include "tests/distribute/random_layouts.h"
#include "tests/distribute/random_stencils.h"
#include "tests/distribute/sharded_run.h"
#include "tests/random/agreement/agreement.h"
#include "tests/random/random_program.h"
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

const OverlapOptions kAlways{Overlap::always, {}, {}};

struct Overlapped {
  PartitionedProgram parts;
  std::vector<std::vector<Travel>> travels;  // of each rank

  size_t divided() const {
    size_t count = 0;
    for (const RankProgram& rank : parts.ranks) count += !rank.parts.empty();
    return count;
  }
};

Overlapped overlapped_ranks(PartitionedProgram parts, const OverlapOptions& options = kAlways) {
  Overlapped result;
  const PartitionedProgram before = parts;
  for (size_t r = 0; r < parts.ranks.size(); ++r) {
    OverlappedProgram own = overlapped(before, r, options);
    parts.ranks[r] = std::move(own.program);
    result.travels.push_back(std::move(own.travels));
  }
  verify(parts.ranks);
  result.parts = std::move(parts);
  return result;
}

std::vector<Exchange::Part> of_others(const std::vector<Exchange::Part>& parts, size_t rank) {
  std::vector<Exchange::Part> others;
  std::ranges::copy_if(parts, std::back_inserter(others), [&](const Exchange::Part& part) {
    return part.rank != static_cast<int64_t>(rank);
  });
  return others;
}

// From whom, and of which extents: the result may be no more than the box that is received.
std::vector<std::pair<int64_t, Shape>> extents_of(const std::vector<Exchange::Part>& parts) {
  std::vector<std::pair<int64_t, Shape>> extents;
  for (const Exchange::Part& part : parts) extents.emplace_back(part.rank, part.box.shape());
  return extents;
}

// What ranks send each other is as before.
void expect_same_bytes(const PartitionedProgram& before, const PartitionedProgram& after) {
  for (size_t r = 0; r < before.ranks.size(); ++r) {
    ASSERT_EQ(before.ranks[r].exchanges.size(), after.ranks[r].exchanges.size());
    for (size_t e = 0; e < before.ranks[r].exchanges.size(); ++e) {
      const Exchange& a = before.ranks[r].exchanges[e].what;
      const Exchange& b = after.ranks[r].exchanges[e].what;
      EXPECT_EQ(of_others(a.sends, r), of_others(b.sends, r));
      EXPECT_EQ(extents_of(of_others(a.receives, r)), extents_of(of_others(b.receives, r)));
    }
  }
}

// How many ranks divide a statement.
size_t expect_same_meaning(const BoundProgram& program, const PartitionedProgram& p,
                           const std::vector<HostTensor>& inputs) {
  Overlapped o = overlapped_ranks(p);
  expect_same_bits(run_ranks(p, program, inputs), run_ranks(o.parts, program, inputs));
  expect_same_bytes(p, o.parts);
  for (const RankProgram& rank : o.parts.ranks) {
    auto text = std::make_shared<const Source>(Source{"rank", print(rank)});
    EXPECT_EQ(print(parse_rank_program(text)), text->text);
  }
  return o.divided();
}

size_t expect_same_meaning(uint64_t seed, bool divide, const RandomOptions& options = {}) {
  RandomCase drawn = random_case(seed, options);
  BoundProgram program = bind_text(drawn.text, drawn.types);
  RandomLayouts layouts = random_layouts(program, seed, divide);
  SCOPED_TRACE("seed " + std::to_string(seed) + ", mesh " + layouts.mesh + "\n" + layouts.layouts +
               drawn.text);
  try {
    return expect_same_meaning(program, divided(program, layouts.mesh, layouts.layouts, divide),
                               drawn.inputs);
  } catch (const Failure& failure) {
    ADD_FAILURE() << failure.diagnostic().message;
    return 0;
  }
}

TEST(Overlap, RandomProgramsKeepTheirBits) {
  size_t divided = 0;
  for (uint64_t seed : seeds(21000, 200)) divided += expect_same_meaning(seed, false);
  EXPECT_GT(divided, 20U);
}

TEST(Overlap, RandomProgramsWithDividedTermsKeepTheirBits) {
  for (uint64_t seed : seeds(26000, 150)) expect_same_meaning(seed, true);
}

TEST(Overlap, RealsNanAndInfinities) {
  RandomOptions reals;
  reals.real_values = true;
  for (uint64_t seed : seeds(29000, 40)) expect_same_meaning(seed, false, reals);
}

// Windows wider than shards, strided, dilated, with boundary rules; gradients.
TEST(Overlap, RandomStencilsKeepTheirBits) {
  size_t divided_ranks = 0;
  for (uint64_t seed : seeds(51000, 200)) {
    RandomStencils drawn = random_stencils(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + drawn.text());
    try {
      PartitionedProgram p = divided(drawn.program, drawn.mesh, drawn.layouts);
      divided_ranks += expect_same_meaning(drawn.program, p, drawn.inputs);
    } catch (const std::exception& failure) {
      ADD_FAILURE() << failure.what();
    }
  }
  EXPECT_GT(divided_ranks, 100U);
}

BoundProgram bound(const std::string& text, const std::vector<Shape>& shapes) {
  std::vector<InputType> types;
  for (const Shape& shape : shapes) types.push_back({DType::f32, shape});
  return bind_text(text, types);
}

HostTensor counted(const Shape& shape) {
  HostTensor t(DType::f32, shape);
  for (int64_t i = 0; i < t.count(); ++i) t.set(i, real_scalar(double(i % 23), t.type));
  return t;
}

std::vector<HostTensor> inputs_of(const BoundProgram& program) {
  std::vector<HostTensor> inputs;
  for (TensorId id : program.inputs) inputs.push_back(counted(program.tensors[id].shape));
  return inputs;
}

// The shapes of the tensors whose names begin so.
std::vector<Shape> shapes_of(const RankProgram& rank, const std::string& begin) {
  std::vector<Shape> shapes;
  for (const BoundTensor& t : rank.program.tensors) {
    if (t.name.starts_with(begin)) shapes.push_back(t.shape);
  }
  return shapes;
}

// Rank 4 of 3x3 has neighbours on all sides. A cross is no box: its own cells come in several
// parts.
TEST(Overlap, AStencilIsAnInnerBoxAndFourEdges) {
  std::string text =
      "function (A[M, N]) -> (O) {\n"
      "  O[i, j: M - 2, N - 2] = =(A[i, j + 1] + A[i + 2, j + 1] + A[i + 1, j] + A[i + 1, j + "
      "2]);\n}";
  BoundProgram program = bound(text, {{32, 32}});
  PartitionedProgram p = divided(program, "x=3, y=3", "A[x(11, 10, 11), y(11, 10, 11)] O[x, y]");
  Overlapped o = overlapped_ranks(p);
  EXPECT_THAT(shapes_of(o.parts.ranks[4], "O.inner"), testing::ElementsAre(Shape{8, 8}));
  EXPECT_THAT(shapes_of(o.parts.ranks[4], "O.edge"),
              testing::UnorderedElementsAre(Shape{1, 10}, Shape{1, 10}, Shape{8, 1}, Shape{8, 1}));
  EXPECT_DOUBLE_EQ(o.travels[4][0].inner, 0.64);
  expect_same_bits(run_ranks(p, program, inputs_of(program)),
                   run_ranks(o.parts, program, inputs_of(program)));
}

// What follows cell by cell is divided alike, so that kernels stay joined; H is no tensor of its
// own then.
TEST(Overlap, WhatFollowsCellByCellIsDividedAlike) {
  BoundProgram program = bound(
      "function (A[N]) -> (O) {\n  H[i: N - 4] = +(A[i + j]), j < 5;\n  O = max(H, 0);\n}", {{64}});
  PartitionedProgram p = divided(program, "x=2", "A[x] O[x] H[x]");
  Overlapped o = overlapped_ranks(p);
  const RankProgram& rank = o.parts.ranks[0];
  EXPECT_EQ(shapes_of(rank, "H.inner"), shapes_of(rank, "O.inner"));
  EXPECT_EQ(shapes_of(rank, "H.edge"), shapes_of(rank, "O.edge"));
  EXPECT_THAT(shapes_of(rank, "H.edge"), testing::SizeIs(1));
  for (const PartOfTensor& part : rank.parts) {
    EXPECT_EQ(rank.program.tensors[part.whole].name, "O");
  }
  expect_same_bits(run_ranks(p, program, inputs_of(program)),
                   run_ranks(o.parts, program, inputs_of(program)));
}

// Of its own cells a rank copies those that its edge reads.
TEST(Overlap, OwnCellsThatTheEdgeDoesNotReadAreNotCopied) {
  BoundProgram program =
      bound("function (A[N]) -> (O) {\n  O[i: N - 4] = +(A[i + j]), j < 5;\n}", {{1000}});
  Overlapped o = overlapped_ranks(divided(program, "x=2", "A[x] O[x(498, 498)]"));
  const Exchange& what = o.parts.ranks[0].exchanges[0].what;
  EXPECT_TRUE(what.sparse);
  ASSERT_EQ(what.receives.size(), 2U);
  int64_t own = 0;
  for (const Exchange::Part& part : what.receives) own += part.rank == 0 ? part.box.count() : 0;
  EXPECT_EQ(own, 4);
}

// Loads of an edge that reach the rank's own cells alone read them where they are, and what is
// received is a tensor of its own size.
TEST(Overlap, AnEdgeReadsOwnCellsWhereTheyAre) {
  std::string text =
      "function (A[M, N]) -> (O) {\n"
      "  O[i, j: M - 2, N - 2] = =(A[i, j + 1] + A[i + 2, j + 1] + A[i + 1, j] + A[i + 1, j + "
      "2]);\n}";
  BoundProgram program = bound(text, {{34, 20}});
  PartitionedProgram p = divided(program, "x=2", "A[x, *] O[x, *]");
  Overlapped o = overlapped_ranks(p);
  for (size_t r = 0; r < 2; ++r) {
    const RankProgram& rank = o.parts.ranks[r];
    EXPECT_THAT(shapes_of(rank, "A.part"), testing::ElementsAre(Shape{1, 18}));
    const Exchange& what = rank.exchanges[0].what;
    ASSERT_EQ(what.receives.size(), 1U);
    EXPECT_EQ(what.receives[0].rank, static_cast<int64_t>(1 - r));
  }
  expect_same_bits(run_ranks(p, program, inputs_of(program)),
                   run_ranks(o.parts, program, inputs_of(program)));
}

// Kernels of devices store where 16 bytes begin: a border takes the rows before that. Rows have 72
// bytes, or 64.
TEST(Overlap, PartsOnDevicesBeginWhereKernelsStore) {
  OverlapOptions device = kAlways;
  device.on_device = true;
  for (int64_t columns : {18, 16}) {
    BoundProgram program =
        bound("function (A[M, N]) -> (O) {\n  O[i, j: M - 2, N] = =(A[i, j] + A[i + 2, j]);\n}",
              {{66, columns}});
    PartitionedProgram p = divided(program, "x=2", "A[x, *] O[x, *]");
    Overlapped o = overlapped_ranks(p, device);
    int64_t border = columns == 18 ? 2 : 1;
    for (const RankProgram& rank : o.parts.ranks) {
      EXPECT_THAT(shapes_of(rank, "O.inner"), testing::ElementsAre(Shape{32 - border, columns}));
      EXPECT_THAT(shapes_of(rank, "O.edge"), testing::ElementsAre(Shape{border, columns}));
    }
    expect_same_bits(run_ranks(p, program, inputs_of(program)),
                     run_ranks(o.parts, program, inputs_of(program)));
  }
}

// A product of other factors runs while sums over ranks are under way.
TEST(Overlap, IndependentStatementsRunMeanwhile) {
  BoundProgram program = bound(
      "function (A[M, L], B[L, N], X[M, L]) -> (C, Y) {\n"
      "  C[i, j: M, N] = +(A[i, k] * B[k, j]);\n"
      "  Y[i, j: M, N] = +(X[i, k] * B[k, j]);\n}",
      {{8, 8}, {8, 8}, {8, 8}});
  PartitionedProgram p =
      divided(program, "x=2", "A[*, x] B[x, *] C[*, *] X[*, x] Y[*, *] C: k=x Y: k=x");
  Overlapped o = overlapped_ranks(p);
  size_t travelling = 0;
  for (const PlacedExchange& e : o.parts.ranks[0].exchanges) travelling += e.travels();
  EXPECT_GT(travelling, 0U);
  expect_same_bits(run_ranks(p, program, inputs_of(program)),
                   run_ranks(o.parts, program, inputs_of(program)));
}

TEST(Overlap, NothingTravelsWhereNothingIsGained) {
  BoundProgram program =
      bound("function (A[N]) -> (O) {\n  O[i: N - 4] = +(A[i + j]), j < 5;\n}", {{64}});
  PartitionedProgram p = divided(program, "x=2", "A[x] O[x]");
  Overlapped few = overlapped_ranks(p, {Overlap::automatic, {}, {}});
  EXPECT_EQ(few.divided(), 0U);
  EXPECT_FALSE(few.travels[0][0].travels);
  program = bound("function (A[N]) -> (O) {\n  O[i: N - 4] = +(A[i + j]), j < 5;\n}", {{1 << 24}});
  OverlapOptions slow{Overlap::automatic, {}, {}};
  slow.links.any = {1e6, 1};
  Overlapped many = overlapped_ranks(divided(program, "x=2", "A[x] O[x]"), slow);
  EXPECT_EQ(many.divided(), 2U);
  EXPECT_GT(many.travels[0][0].hidden_ns, 9e5);
  // Quick links: what is gained is that a rank's own cells are not copied.
  OverlapOptions quick{Overlap::automatic, {}, {}};
  Overlapped behind = overlapped_ranks(divided(program, "x=2", "A[x] O[x]"), quick);
  EXPECT_EQ(behind.divided(), 2U);
  EXPECT_FALSE(behind.travels[0][0].travels);
  EXPECT_GT(behind.travels[0][0].inner, 0.99);
  EXPECT_EQ(print(overlapped(p, 0, {Overlap::never, {}, {}}).program), print(p.ranks[0]));
}

// Ranks whose own cells are others would add the terms of the same sum in kernels of their own.
TEST(Overlap, SumsThatSeveralRanksComputeAreLeftAlone) {
  OverlapOptions slow{Overlap::automatic, {}, {}};
  slow.links.any = {1e6, 1};
  for (const char* what : {"+(A[i + j]), j < 5", ">(A[i + j]), j < 5"}) {
    BoundProgram program = bound(
        std::string("function (A[N]) -> (O) {\n  O[i: N - 4] = ") + what + ";\n}", {{1 << 24}});
    size_t alone = overlapped_ranks(divided(program, "x=2", "A[x] O[x]"), slow).divided();
    size_t all = overlapped_ranks(divided(program, "x=2", "A[x] O[*]"), slow).divided();
    EXPECT_EQ(alone, 2U);
    EXPECT_EQ(all, what[0] == '+' ? 0U : 2U) << what;
  }
}

// Cell by cell behind a stencil nothing is saved but that kernels stay joined.
TEST(Overlap, WhatFollowsADividedStencilIsDividedWhereTheModelDecides) {
  BoundProgram program =
      bound("function (A[N]) -> (O) {\n  H[i: N - 4] = +(A[i + j]), j < 5;\n  O = max(H, 0);\n}",
            {{1 << 20}});
  Overlapped o =
      overlapped_ranks(divided(program, "x=2", "A[x] O[x] H[x]"), {Overlap::automatic, {}, {}});
  EXPECT_EQ(shapes_of(o.parts.ranks[0], "H.inner"), shapes_of(o.parts.ranks[0], "O.inner"));
  EXPECT_THAT(shapes_of(o.parts.ranks[0], "O.inner"), testing::SizeIs(1));
}

}  // namespace
}  // namespace tile::test
