// Who makes and reads the tensors of a program, and how accesses move with iterators.
#include "core/ir/analysis/accesses.h"
#include "core/ir/analysis/plain_contraction.h"
#include "core/ir/analysis/statement_uses.h"
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

const char* const kText = R"(tensor A: f32 [4] input
tensor I: i32 [5] input
tensor T: f32 [5] temporary
tensor W: f32 [5] temporary
tensor V: f32 [5, 1] temporary view T
tensor O: f32 [5] output
inputs [A, I]
outputs [O]
contraction [T] = f32 default A {
  piece [i, j] box [5, 3] parallel 1 {
    store T[i]
    load A[%0]
    load A[j + 1]
    load I[i]
    load I[i + j - 1 !wrap]
    load I[0]
    load I[j]
    body { %0:f32 = load 1; yield %0 }
  }
}
contraction [W] = f32 normalized {
  piece [i] box [5] parallel 1 {
    store W[i]
    load T[i]
    load A[i !clamp]
    body { %0:f32 = load 0; %1:f32 = load 1; %2:f32 = add %0 %1; yield %2 }
  }
}
contraction [O] = f32 normalized {
  piece [i] box [5] parallel 1 {
    store O[i]
    load W[i]
    load V[i, 0]
    load A[i !clamp]
    load W[i]
    body { %0:f32 = load 0; %1:f32 = load 1; %2:f32 = load 2; %3:f32 = add %0 %1; %4:f32 = add %3 %2; %5:f32 = load 3; %6:f32 = add %4 %5; yield %6 }
  }
}
)";

BoundProgram program() {
  return parse_bound(std::make_shared<const Source>(Source{"test.bound", kText}));
}
TensorId named(const BoundProgram& p, const std::string& name) {
  for (TensorId id : p.tensors.ids()) {
    if (p.tensors[id].name == name) return id;
  }
  ADD_FAILURE() << name;
  return {};
}
const Piece& first_piece(const BoundProgram& p) {
  return std::get<Contraction>(p.statements[0]).pieces[0];
}

// Each reader once, in order; a fill is read; what is read through a view is the view.
TEST(StatementUses, MakersAndReaders) {
  BoundProgram p = program();
  StatementUses uses(p);
  auto readers = [&](const char* name) { return uses.readers(named(p, name)); };
  EXPECT_EQ(readers("A"), (std::vector<size_t>{0, 1, 2}));
  EXPECT_EQ(readers("I"), (std::vector<size_t>{0}));
  EXPECT_EQ(readers("T"), (std::vector<size_t>{1}));
  EXPECT_EQ(readers("V"), (std::vector<size_t>{2}));
  EXPECT_EQ(readers("W"), (std::vector<size_t>{2}));
  EXPECT_TRUE(readers("O").empty());
  EXPECT_EQ(uses.maker(named(p, "T")), 0U);
  EXPECT_EQ(uses.maker(named(p, "O")), 2U);
  EXPECT_EQ(uses.maker(named(p, "A")), std::nullopt);
  EXPECT_EQ(uses.maker(named(p, "V")), std::nullopt);
}

TEST(StatementUses, OutputsAndWhatIsViewedAreNotInner) {
  BoundProgram p = program();
  StatementUses uses(p);
  EXPECT_TRUE(uses.is_inner(named(p, "W")));
  EXPECT_FALSE(uses.is_inner(named(p, "T")));
  EXPECT_FALSE(uses.is_inner(named(p, "O")));
  EXPECT_EQ(seen_outside(p), (std::set<TensorId>{named(p, "T"), named(p, "O")}));
}

TEST(Accesses, MoveWithIterators) {
  BoundProgram p = program();
  const Piece& piece = first_piece(p);
  EXPECT_FALSE(moves_with(piece.loads[0], size_t{0}));  // an index that is a value
  EXPECT_TRUE(may_move_with(piece.loads[0], 0));
  EXPECT_FALSE(may_move_with(piece.loads[1], 0));
  EXPECT_TRUE(moves_with(piece.loads[1], IteratorId(1)));
  EXPECT_TRUE(may_move_with(piece.loads[1], 1));
}

TEST(Accesses, SoleIteratorOfAnIndex) {
  BoundProgram p = program();
  const Piece& piece = first_piece(p);
  auto sole = [&](size_t load) { return sole_iterator(piece.loads[load].index[0], piece); };
  EXPECT_FALSE(sole(0).valid());  // a value
  EXPECT_FALSE(sole(1).valid());  // shifted
  EXPECT_EQ(sole(2), IteratorId(0));
  EXPECT_FALSE(sole(3).valid());
  EXPECT_FALSE(sole(4).valid());
  EXPECT_EQ(sole(5), IteratorId(1));
  // Of the first iterator alone there is no second one.
  EXPECT_FALSE(sole_iterator(piece.loads[5].index[0], 1).valid());
  EXPECT_FALSE(is_plain_index(piece.loads[0].index[0]));
  EXPECT_TRUE(is_plain_index(piece.loads[1].index[0]));
  EXPECT_FALSE(is_plain_index(piece.loads[3].index[0]));
  EXPECT_TRUE(is_constant_index(piece.loads[4].index[0]));
  EXPECT_FALSE(is_constant_index(piece.loads[5].index[0]));
}

TEST(Accesses, ConditionsAndValuesThatNameAnIterator) {
  BoundProgram p = program();
  Piece piece = first_piece(p);
  EXPECT_FALSE(is_constrained(piece, size_t{0}));
  piece.constraints.push_back({iterator_affine(1) + constant_affine(2), 0, 4, false});
  EXPECT_FALSE(is_constrained(piece, IteratorId(0)));
  EXPECT_TRUE(is_constrained(piece, IteratorId(1)));
  EXPECT_FALSE(names_index(piece.body, 0));
  piece.body.index(0, DType::i64);
  EXPECT_TRUE(names_index(piece.body, 0));
  EXPECT_FALSE(names_index(piece.body, 1));
}

// Forms of fewer iterators have no coefficients, zeros included, of the others.
TEST(Accesses, KeepIterators) {
  Access access;
  access.index.resize(2);
  access.index[0].affine = iterator_affine(0) + iterator_affine(2) - iterator_affine(2);
  access.index[1].affine = constant_affine(3);
  access.index[0].affine.coefficients.resize(3);
  keep_iterators(access, 1);
  EXPECT_EQ(access.index[0].affine.coefficients.size(), 1U);
  EXPECT_EQ(access.index[0].affine, iterator_affine(0));
  EXPECT_EQ(access.index[1].affine, constant_affine(3));
}

TEST(PlainContraction, OnePieceOneResultAndNoFill) {
  BoundProgram p = program();
  EXPECT_FALSE(is_plain_contraction(std::get<Contraction>(p.statements[0])));
  Contraction c = std::get<Contraction>(p.statements[1]);
  EXPECT_TRUE(is_plain_contraction(c));
  Contraction two = c, filled = c, open = c;
  two.pieces.push_back(c.pieces[0]);
  filled.fill = named(p, "A");
  open.normalized = false;
  c.outputs.push_back(c.outputs[0]);
  for (const Contraction* other : {&two, &filled, &open, &c}) {
    EXPECT_FALSE(is_plain_contraction(*other));
  }
}

}  // namespace
}  // namespace tile::test
