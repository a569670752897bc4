// Gathers, and sums for other ranks, in pieces: the same bits, the same bytes, and what is expected
// to be in pieces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/distribute/overlapped_ranks.h"
#include "tests/distribute/random_layouts.h"
#include "tests/distribute/random_products.h"
#include "tests/distribute/sharded_run.h"
#include "tests/random/agreement/agreement.h"
#include "tests/random/random_program.h"
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const OverlapOptions kAlways{Overlap::always, {}, {}};

// Links that make finer pieces worth it.
OverlapOptions slow_links(uint64_t seed) {
  OverlapOptions options = kAlways;
  options.links.any = {100, seed % 2 == 0 ? 1e-6 : 10};
  return options;
}

struct Count {
  size_t gathers = 0, scatters = 0, fine = 0, followed = 0;
};

void expect_same_meaning(const BoundProgram& program, const PartitionedProgram& p,
                         const std::vector<HostTensor>& inputs, const OverlapOptions& options,
                         Count& count) {
  PiecewiseProgram pieces = in_pieces(p, options);
  OverlappedRanks o = in_pieces_and_overlapped(p, options);
  std::vector<HostTensor> expected = run_ranks(p, program, inputs);
  expect_same_bits(expected, run_ranks(pieces.parts, program, inputs));
  expect_same_bits(expected, run_ranks(o.parts, program, inputs));
  EXPECT_EQ(sent_bytes(p), sent_bytes(o.parts));
  for (const RankProgram& rank : o.parts.ranks) {
    auto text = std::make_shared<const Source>(Source{"rank", print(rank)});
    EXPECT_EQ(print(parse_rank_program(text)), text->text);
  }
  for (const PiecedExchange& one : o.pieces) {
    ++(one.gathers ? count.gathers : count.scatters);
    count.fine += one.pieces >= p.ranks.size();
    count.followed += one.results.size() > 1;
  }
}

TEST(Pieces, RandomProductsKeepTheirBits) {
  Count count;
  for (uint64_t seed : seeds(71000, 300)) {
    RandomProducts drawn = random_products(seed, false);
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + drawn.text());
    try {
      PartitionedProgram p = divided(drawn.program, drawn.mesh, drawn.layouts);
      expect_same_meaning(drawn.program, p, drawn.inputs, slow_links(seed), count);
    } catch (const std::exception& failure) {
      ADD_FAILURE() << failure.what();
    }
  }
  EXPECT_GT(count.gathers, 60U);
  EXPECT_GT(count.scatters, 60U);
  EXPECT_GT(count.fine, 10U);
  EXPECT_GT(count.followed, 20U);
}

TEST(Pieces, RandomProgramsKeepTheirBits) {
  Count count;
  for (uint64_t seed : seeds(74000, 200)) {
    RandomCase drawn = random_case(seed);
    BoundProgram program = bind_text(drawn.text, drawn.types);
    RandomLayouts layouts = random_layouts(program, seed, seed % 2 == 0);
    SCOPED_TRACE("seed " + std::to_string(seed) + ", mesh " + layouts.mesh + "\n" +
                 layouts.layouts + drawn.text);
    try {
      PartitionedProgram p = divided(program, layouts.mesh, layouts.layouts, seed % 2 == 0);
      expect_same_meaning(program, p, drawn.inputs, slow_links(seed), count);
    } catch (const std::exception& failure) {
      ADD_FAILURE() << failure.what();
    }
  }
  EXPECT_GT(count.gathers, 10U);
}

BoundProgram bound(const std::string& text, const std::vector<Shape>& shapes) {
  std::vector<InputType> types;
  for (const Shape& shape : shapes) types.push_back({DType::f32, shape});
  return bind_text(text, types);
}

const char* const kProduct =
    "function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }";

std::vector<std::string> steps_of_text(const RankProgram& rank) {
  std::vector<std::string> steps;
  for (RankStep step : steps_of(rank)) {
    if (step.kind == RankStep::Kind::statement) {
      const auto& c = std::get<Contraction>(rank.program.statements[step.number]);
      steps.push_back(rank.program.tensors[c.outputs[0]].name);
    } else {
      const Exchange& what = rank.exchanges[step.number].what;
      bool begins = step.kind == RankStep::Kind::begin;
      steps.push_back((begins ? "begin " : "end ") + rank.program.tensors[what.result].name);
    }
  }
  return steps;
}

// Rank 1 of 3 has its own rows first, then those of rank 2, which come first, and of rank 0.
TEST(Pieces, AGatherIsWaitedForRankByRank) {
  BoundProgram program = bound(kProduct, {{9, 4}, {4, 6}});
  PartitionedProgram p = divided(program, "x=3", "A[x, *] B[*, x] C[*, x]");
  PiecewiseProgram pieces = in_pieces(p, kAlways);
  ASSERT_EQ(pieces.pieces.size(), 1U);
  EXPECT_TRUE(pieces.pieces[0].gathers);
  const RankProgram& rank = pieces.parts.ranks[1];
  EXPECT_THAT(steps_of_text(rank),
              ElementsAre("begin A.part.piece", "begin A.part.piece.2", "C.piece",
                          "end A.part.piece", "C.piece.2", "end A.part.piece.2", "C.piece.3"));
  EXPECT_EQ(rank.exchanges[0].what.receives[0].rank, 2);
  EXPECT_EQ(rank.exchanges[1].what.receives[0].rank, 0);
  ASSERT_EQ(rank.parts.size(), 3U);
  EXPECT_THAT(rank.parts[0].at, ElementsAre(3, 0));
  EXPECT_THAT(rank.parts[1].at, ElementsAre(6, 0));
  EXPECT_THAT(rank.parts[2].at, ElementsAre(0, 0));
}

// What is added up by others is computed first, and given away at once.
TEST(Pieces, SumsAreComputedForOthersFirst) {
  BoundProgram program = bound(kProduct, {{9, 6}, {6, 4}});
  PartitionedProgram p = divided(program, "x=3", "A[*, x] B[x, *] C[x, *]  C: k=x");
  PiecewiseProgram pieces = in_pieces(p, kAlways);
  ASSERT_EQ(pieces.pieces.size(), 1U);
  EXPECT_FALSE(pieces.pieces[0].gathers);
  EXPECT_THAT(
      steps_of_text(pieces.parts.ranks[0]),
      ElementsAre("C.terms.piece.2", "begin C.terms.2", "C.terms.piece.3", "begin C.terms.3",
                  "C.terms.piece", "end C.terms.2", "end C.terms.3", "C"));
  EXPECT_EQ(pieces.parts.ranks[0].exchanges[0].what.sends[0].rank, 1);
}

// A product of which everybody needs everything, or sums that everybody keeps, are left alone.
TEST(Pieces, WhatNoPieceIsEnoughForIsLeftAlone) {
  BoundProgram program = bound(kProduct, {{8, 8}, {8, 8}});
  for (const char* layouts : {"A[*, x] B[*, *] C[x, *]", "A[*, x] B[x, *] C[*, *] + x  C: k=x"}) {
    EXPECT_TRUE(in_pieces(divided(program, "x=2", layouts, false), kAlways).pieces.empty())
        << layouts;
  }
  PartitionedProgram p = divided(program, "x=2", "A[x, *] B[*, x] C[*, x]");
  OverlapOptions never = kAlways;
  never.mode = Overlap::never;
  EXPECT_EQ(print(in_pieces(p, never).parts.ranks[0]), print(p.ranks[0]));
}

// Two products of what is gathered, and what follows one of them cell by cell, wait together.
TEST(Pieces, AllThatReadsAGatherIsInPieces) {
  BoundProgram program = bound(
      "function (X[M, L], U[L, N], V[L, N]) -> (G, Y) {\n"
      "  H[i, j: M, N] = +(X[i, k] * U[k, j]);\n  G = max(H, 0);\n"
      "  Y[i, j: M, N] = +(X[i, k] * V[k, j]);\n}",
      {{8, 4}, {4, 6}, {4, 6}});
  PartitionedProgram p = divided(program, "x=2", "X[x, *] U[*, x] V[*, x] H[*, x] G[*, x] Y[*, x]");
  PiecewiseProgram pieces = in_pieces(p, kAlways);
  ASSERT_EQ(pieces.pieces.size(), 1U);
  EXPECT_THAT(pieces.pieces[0].results, ::testing::UnorderedElementsAre("H", "G", "Y"));
}

TEST(Pieces, TheModelDecides) {
  auto pieces_of = [](int64_t size, double bytes_per_ns) {
    BoundProgram program = bound(kProduct, {{size, size}, {size, size}});
    OverlapOptions options{Overlap::automatic, {}, {}};
    options.links.any = {2000, bytes_per_ns};
    size_t count = 0;
    for (const char* layouts : {"A[x, *] B[*, x] C[*, x]", "A[*, x] B[x, *] C[x, *]  C: k=x"}) {
      count += in_pieces(divided(program, "x=2", layouts), options).pieces.size();
    }
    return count;
  };
  EXPECT_EQ(pieces_of(32, 10), 0U);
  EXPECT_EQ(pieces_of(1024, 10), 2U);
}

// Slow links: a part is cut, so that less waits for its end.
TEST(Pieces, SlowPartsAreCutFiner) {
  BoundProgram program = bound(kProduct, {{1024, 512}, {512, 1024}});
  OverlapOptions options{Overlap::automatic, {}, {}};
  options.links.any = {2000, 0.1};
  for (const char* layouts : {"A[x, *] B[*, x] C[*, x]", "A[*, x] B[x, *] C[x, *]  C: k=x"}) {
    PiecewiseProgram pieces = in_pieces(divided(program, "x=2", layouts), options);
    ASSERT_EQ(pieces.pieces.size(), 1U);
    EXPECT_GT(pieces.pieces[0].pieces, 1U) << layouts;
    EXPECT_THAT(explain_pieces(pieces.pieces, {"exchange of A"}),
                HasSubstr("exchange of A: in " + std::to_string(pieces.pieces[0].pieces)));
  }
}

}  // namespace
}  // namespace tile::test
