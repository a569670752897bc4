// Domains that are found without algebra are those that algebra finds.
#include <gtest/gtest.h>

#include "core/passes/normalize/normalize.h"
#include "core/passes/normalize/plain_piece.h"
#include "tests/random/random_program.h"
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

// Says of an iterator of each plain piece what holds already, in words that are not plain; how
// many.
int made_intricate(BoundProgram& program) {
  int count = 0;
  for (BoundStatement& statement : program.statements) {
    auto* contraction = std::get_if<Contraction>(&statement);
    if (contraction == nullptr || contraction->normalized) continue;
    for (Piece& piece : contraction->pieces) {
      std::optional<PlainDomain> domain = plain_domain(piece);
      if (!domain || domain->box.empty()) continue;
      size_t last = domain->box.size() - 1;
      piece.constraints.push_back(
          {iterator_affine(last) * Rational(2), 0, 2 * domain->box[last], true});
      EXPECT_FALSE(plain_domain(piece).has_value());
      ++count;
    }
  }
  return count;
}

TEST(PlainPieces, AreWhatAlgebraFinds) {
  int count = 0;
  for (uint64_t seed : seeds(0, 400)) {
    RandomCase drawn = random_case(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + ":\n" + drawn.text);
    BoundProgram plain = bind_text(drawn.text, drawn.types);
    gather_constraints(plain, Target{});
    BoundProgram intricate = plain;
    count += made_intricate(intricate);
    for (BoundProgram* program : {&plain, &intricate}) {
      reduce(*program, Target{});
      defract(*program, Target{});
    }
    ASSERT_EQ(print(plain), print(intricate));
  }
  std::printf("%d plain pieces\n", count);
  EXPECT_GT(count, 100);
}

Piece piece_of(std::vector<Constraint> constraints, std::vector<Affine> cell) {
  Piece piece;
  piece.iterators = IdVector<IteratorId, std::string>({"i", "k"});
  piece.constraints = std::move(constraints);
  Access store;
  for (Affine& form : cell) {
    store.index.emplace_back();
    store.index.back().affine = std::move(form);
  }
  piece.stores = {store};
  return piece;
}

TEST(PlainPieces, OthersAreLeftToAlgebra) {
  Affine i = iterator_affine(size_t{0}), k = iterator_affine(size_t{1}), zero = constant_affine(0);
  std::vector<Constraint> domain{{i, 0, 5}, {k, 0, 7}, {i, 0, 9}};
  std::optional<PlainDomain> plain = plain_domain(piece_of(domain, {i, zero}));
  ASSERT_TRUE(plain.has_value());
  EXPECT_EQ(plain->box, (std::vector<int64_t>{5, 7}));
  EXPECT_EQ(plain->parallel_dims, 1U);
  EXPECT_FALSE(plain_domain(piece_of(domain, {k})).has_value()) << "k is the second iterator";
  EXPECT_FALSE(plain_domain(piece_of(domain, {k, i})).has_value());
  EXPECT_FALSE(plain_domain(piece_of(domain, {i, i})).has_value());
  EXPECT_FALSE(plain_domain(piece_of(domain, {i + k})).has_value());
  EXPECT_FALSE(plain_domain(piece_of(domain, {i * Rational(2)})).has_value());
  EXPECT_FALSE(plain_domain(piece_of({{i, 0, 5}}, {i})).has_value()) << "k has no end";
  for (Constraint more : {Constraint{i, 1, 5}, Constraint{i, 0, 1}, Constraint{i, 0, 0},
                          Constraint{i - k, 0, 5}, Constraint{i + constant_affine(1), 0, 6},
                          Constraint{i * Rational(1, 2), 0, 9}, Constraint{zero, 1, 5}}) {
    std::vector<Constraint> all = domain;
    all.push_back(more);
    EXPECT_FALSE(plain_domain(piece_of(all, {i})).has_value());
  }
}

}  // namespace
}  // namespace tile::test
