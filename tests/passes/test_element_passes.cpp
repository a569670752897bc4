// Passes on what MFG and Lift make: loops inside elements, boundary rules, index values, constants.
#include "core/passes/normalize/normalize.h"
#include "tests/random/random_elements.h"
#include "tests/random/random_program.h"
#include "tests/random/sweep.h"
#include "tests/support/typed_programs.h"

namespace tile::test {
namespace {

BoundProgram parsed(const std::string& text) {
  BoundProgram p = parse_bound(std::make_shared<const Source>(Source{"test.bound", text}));
  verify(p);
  return p;
}

// Runs before and after every pass; all inputs are small integers, so that sums are exact.
BoundProgram through_passes(BoundProgram program, const std::vector<HostTensor>& inputs,
                            const std::string& what) {
  std::vector<HostTensor> want = interpret(program, inputs).outputs;
  PipelineOptions options;
  options.after = [&](std::string_view pass, const BoundProgram& now) {
    std::vector<HostTensor> got = interpret(now, inputs).outputs;
    for (size_t o = 0; o < want.size(); ++o) {
      EXPECT_EQ(got[o].bytes, want[o].bytes) << what << " after " << pass << ":\n" << print(now);
    }
  };
  run_pipeline(program, Target{}, options);
  return program;
}

TEST(ElementPasses, RandomElementsKeepTheirMeaning) {
  for (uint64_t seed : sweep(0, 400, 80)) {
    ElementOptions options;
    options.large = seed % 8 == 0;
    ElementProgram drawn = random_elements(seed, options);
    through_passes(drawn.program, drawn.inputs, "seed " + std::to_string(seed));
    if (HasFailure()) return;
  }
}

std::string window_text(const std::string& from, const std::string& to, const std::string& op) {
  return R"(tensor A: i32 [40] input
tensor O: i32 [40] output
inputs [A]
outputs [O]
contraction [O] = i32 {
  piece [i] {
    store O[i]
    load A[%0 !clamp]
    body { %0:i64 = int )" +
         from + "; %1:i64 = int " + to + R"(; %2:i32 = int 0; %3:i64 = index 0; %4 = fold )" + op +
         R"( 1 %0 %1 %2 %3 { %0:i64 = argument 0; %1:i64 = argument 2; %2:i64 = add %0 %1; %3:i32 = load 0 %2; yield %3 }; %5:i32 = component 0 %4; %6:i32 = int 7; %7:i32 = sub %5 %6; yield %7 }
  }
}
)";
}
std::vector<HostTensor> window_input() {
  HostTensor a(DType::i32, {40});
  for (int64_t i = 0; i < 40; ++i) a.set(i, integer_scalar(i * i % 23 - 9, DType::i32));
  return {a};
}
size_t count_nodes(const BoundProgram& p, NodeKind kind) {
  size_t count = 0;
  for (const BoundStatement& s : p.statements) {
    for (const Piece& piece : std::get<Contraction>(s).pieces) {
      visit_nodes(piece.body, [&](const Node& n) { count += n.kind == kind ? 1 : 0; });
    }
  }
  return count;
}

TEST(ElementPasses, ShortLoopsAreWrittenOut) {
  BoundProgram p = through_passes(parsed(window_text("-1", "2", "add")), window_input(), "window");
  EXPECT_EQ(count_nodes(p, NodeKind::fold), 0u);
  const auto& c = std::get<Contraction>(p.statements.at(0));
  EXPECT_EQ(p.statements.size(), 1u);
  ASSERT_EQ(c.pieces[0].loads.size(), 3u);
  for (const Access& a : c.pieces[0].loads) {
    EXPECT_EQ(a.index[0].value, -1);
    // The centre needs no rule.
    bool centre = a.index[0].affine == iterator_affine(0);
    EXPECT_EQ(a.index[0].boundary, centre ? Boundary::in_range : Boundary::clamp);
  }
}

TEST(ElementPasses, LongLoopsBecomeReductions) {
  for (const char* op : {"add", "max", "min"}) {
    BoundProgram p = through_passes(parsed(window_text("-30", "31", op)), window_input(), op);
    EXPECT_EQ(count_nodes(p, NodeKind::fold), 0u) << print(p);
    const auto& c = std::get<Contraction>(p.statements.at(0));
    EXPECT_EQ(c.pieces[0].box.size(), 2u);
    EXPECT_EQ(c.pieces[0].loads[0].index[0].value, -1);
  }
  BoundProgram ordered = parsed(window_text("-30", "31", "ident"));
  EXPECT_EQ(count_nodes(through_passes(ordered, window_input(), "ordered"), NodeKind::fold), 1u);
}

TEST(ElementPasses, EmptyLoopsAreTheirStarts) {
  BoundProgram p = through_passes(parsed(window_text("5", "-5", "max")), window_input(), "empty");
  EXPECT_EQ(count_nodes(p, NodeKind::load), 0u);
}

TEST(ElementPasses, NestedReductionsAreOne) {
  // Sum over a 9 x 9 window: two nested loops.
  BoundProgram p = parsed(R"(tensor A: f32 [20, 20] input
tensor O: f32 [20, 20] output
inputs [A]
outputs [O]
contraction [O] = f32 {
  piece [y, x] {
    store O[y, x]
    load A[%0 !mirror, %1 !clamp]
    body { %0:i64 = int -4; %1:i64 = int 5; %2:f32 = real 0; %3:i64 = index 0; %4:i64 = index 1; %5 = fold add 1 %0 %1 %2 %3 %4 %0 %1 { %0:i64 = argument 0; %1:i64 = argument 2; %2:i64 = argument 3; %3:i64 = argument 4; %4:i64 = argument 5; %5:f32 = real 0; %6:i64 = add %0 %1; %7 = fold add 1 %3 %4 %5 %6 %2 { %0:i64 = argument 0; %1:i64 = argument 2; %2:i64 = argument 3; %3:i64 = add %0 %2; %4:f32 = load 0 %1 %3; yield %4 }; %8:f32 = component 0 %7; yield %8 }; %6:f32 = component 0 %5; yield %6 }
  }
}
)");
  HostTensor a(DType::f32, {20, 20});
  for (int64_t i = 0; i < a.count(); ++i) a.set(i, integer_scalar(i * 7 % 11, DType::f32));
  BoundProgram out = through_passes(p, {a}, "box");
  EXPECT_EQ(count_nodes(out, NodeKind::fold), 0u) << print(out);
  const auto& c = std::get<Contraction>(out.statements.at(0));
  EXPECT_EQ(c.pieces[0].box.size(), 4u) << print(out);
}

TEST(ElementPasses, ConstantElementsAreLiterals) {
  BoundProgram p = parsed(R"(tensor A: f32 [8] input
tensor W: f32 [3] temporary constant [1, 2, -1]
tensor O: f32 [8] output
inputs [A]
outputs [O]
contraction [O] = f32 {
  piece [i] {
    store O[i]
    load A[%0 !clamp]
    load W[%0]
    body { %0:i64 = int 0; %1:i64 = int 3; %2:f32 = real 0; %3:i64 = index 0; %4 = fold add 1 %0 %1 %2 %3 { %0:i64 = argument 0; %1:i64 = argument 2; %2:i64 = add %0 %1; %3:f32 = load 0 %2; %4:f32 = load 1 %0; %5:f32 = mul %3 %4; yield %5 }; %5:f32 = component 0 %4; yield %5 }
  }
}
)");
  HostTensor a(DType::f32, {8});
  for (int64_t i = 0; i < 8; ++i) a.set(i, integer_scalar(i * i % 5, DType::f32));
  BoundProgram out = through_passes(p, {a}, "weights");
  EXPECT_EQ(std::get<Contraction>(out.statements.at(0)).pieces[0].loads.size(), 3u);
}

TEST(ElementPasses, DigitsOfAnIndexAreIndices) {
  BoundProgram p = parsed(R"(tensor A: f32 [8, 3] input
tensor O: f32 [24] output
inputs [A]
outputs [O]
contraction [O] = f32 {
  piece [i] {
    store O[i]
    load A[%1, %0]
    body { %0:i64 = index 0; %1:i64 = int 8; %2:i64 = div %0 %1; %3:i64 = mod %0 %1; %4:f32 = load 0 %2 %3; yield %4 }
  }
}
)");
  HostTensor a(DType::f32, {8, 3});
  for (int64_t i = 0; i < 24; ++i) a.set(i, integer_scalar(i, DType::f32));
  BoundProgram out = through_passes(p, {a}, "digits");
  const Piece& piece = std::get<Contraction>(out.statements.at(0)).pieces[0];
  EXPECT_EQ(piece.box, Shape({3, 8}));
  EXPECT_EQ(piece.loads[0].index[0].affine, iterator_affine(1)) << print(out);
  EXPECT_EQ(piece.loads[0].index[1].affine, iterator_affine(0));
}

TEST(ElementPasses, ConditionsThatRangesDecideAreDropped) {
  BoundProgram p = parsed(R"(tensor A: f32 [9] input
tensor O: f32 [9] output
inputs [A]
outputs [O]
contraction [O] = f32 {
  piece [i] {
    store O[i]
    load A[i]
    body { %0:i64 = index 0; %1:i32 = cast %0; %2:i32 = int 9; %3:bool = lt %1 %2; %4:f32 = load 0; %5:f32 = real 3; %6:f32 = select %3 %4 %5; yield %6 }
  }
}
)");
  HostTensor a(DType::f32, {9});
  BoundProgram out = through_passes(p, {a}, "condition");
  EXPECT_EQ(std::get<Contraction>(out.statements.at(0)).pieces[0].body.nodes.size(), 1u);
}

TEST(ElementPasses, NarrowIndicesThatMayWrapStayValues) {
  // cast to i8 of i * 40 wraps for i > 3.
  BoundProgram p = parsed(R"(tensor A: f32 [9] input
tensor O: f32 [9] output
inputs [A]
outputs [O]
contraction [O] = f32 {
  piece [i] {
    store O[i]
    load A[%0 !clamp]
    body { %0:i64 = index 0; %1:i64 = int 40; %2:i64 = mul %0 %1; %3:i8 = cast %2; %4:f32 = load 0 %3; yield %4 }
  }
}
)");
  HostTensor a(DType::f32, {9});
  for (int64_t i = 0; i < 9; ++i) a.set(i, integer_scalar(i, DType::f32));
  BoundProgram out = through_passes(p, {a}, "wraps");
  EXPECT_EQ(std::get<Contraction>(out.statements.at(0)).pieces[0].loads[0].index[0].value, 0);
}

}  // namespace
}  // namespace tile::test
