// Who makes and reads the tensors of a program.
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

}  // namespace
}  // namespace tile::test
