// The text form of bound programs: printed, parsed and verified.
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

BoundProgram parsed(const std::string& text) {
  return parse_bound(std::make_shared<const Source>(Source{"test.bound", text}));
}

const char* const kText = R"(tensor A: f32 [4, 3] input fixed
tensor I': i32 [5] input
tensor T: f32 [5, 3] temporary
tensor V: f32 [15] temporary view T
tensor O: f32 [2, 9] output
tensor P: f32 [2, 9] input
tensor S: f32 [5, 3] output
tensor R: f32 [7, 3] output
inputs [A, I', P]
outputs [O, S, O, R]
contraction [T] = f32 {
  piece [i0, i1] {
    store T[i0, i1]
    load I'[i0]
    load A[%0, i1 !clamp]
    body { %0:i32 = load 0; %1:i32 = int 0; %2:i32 = max %0 %1; %3:i64 = cast %2; %4:f32 = load 1 %3; yield %4 }
  }
}
contraction [O] + f32 default P normalized injective {
  piece [x, y, k] box [2, 9, 3] parallel 2 {
    where -1 <= x - 1/3*y + 2/3 < 2
    where integral 0 <= 1/2*k + 1 < 5
    store O[x, y]
    load V[x + 2*k - 1 !wrap]
    body { %0:f32 = load 0; %1:f32 = real 0x1.999999999999bp-4; %2:f32 = mul %0 %1; yield %2 }
  }
  piece [] {
    store O[1, 8]
    body { %0:f32 = real -inf; yield %0 }
  }
}
sort S = T axis 1
scatter R = T at I'
)";

TEST(BoundText, RoundTripIsExact) {
  BoundProgram program = parsed(kText);
  verify(program);
  EXPECT_EQ(print(program), kText);
  EXPECT_EQ(program.outputs.size(), 4);
  const auto& sum = std::get<Contraction>(program.statements.at(1));
  EXPECT_TRUE(sum.normalized && sum.promised_injective && sum.fill);
  EXPECT_EQ(sum.pieces.at(0).constraints.at(0).lo, -1);
  EXPECT_EQ(sum.pieces.at(0).constraints.at(0).form.coefficient(1), Rational(-1, 3));
  EXPECT_EQ(sum.pieces.at(0).loads.at(0).index.at(0).boundary, Boundary::wrap);
}

TEST(BoundText, BoundProgramsRoundTripAndRunAlike) {
  const char* text =
      "function (A[N, M], B[M, L]) -> (C, S, G) { C[i, j: N, L] = +(A[i, k] * B[k, j]);"
      " S = exp(C - 0.1) > 1 ? C : C / 3; G = argmax(S, 1); }";
  std::vector<HostTensor> in{floats({2, 3}, {1, 2, 3, 4, 5, 6}),
                             floats({3, 2}, {1, 0, -1, 2, 0, 1})};
  BoundProgram program = bind_text(text, types_of(in));
  BoundProgram again = parsed(print(program));
  verify(again);
  EXPECT_EQ(print(again), print(program));
  Interpretation a = interpret(program, in), b = interpret(again, in);
  for (size_t o = 0; o < a.outputs.size(); ++o) EXPECT_EQ(a.outputs[o].bytes, b.outputs[o].bytes);
}

TEST(BoundText, MistakesArePlaced) {
  for (const char* bad :
       {"tensor A: f33 [1] input", "tensor A: f32 [1] input\ninputs [B]\noutputs []",
        "inputs []\noutputs []\nfrobnicate"}) {
    EXPECT_THROW(parsed(bad), Failure) << bad;
  }
}

std::string broken_rule(std::string text, const std::string& from, const std::string& to) {
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  try {
    verify(parsed(text));
  } catch (const InternalError& error) {
    return error.what();
  }
  return "";
}

TEST(BoundText, VerifyNamesTheBrokenRule) {
  EXPECT_EQ(broken_rule(kText, "store T[i0, i1]", "store T[i0]"), "bound: an access's rank");
  EXPECT_EQ(broken_rule(kText, "i1 !clamp", "1/2*i1 !clamp"),
            "bound: a fractional index under a boundary rule");
  EXPECT_EQ(broken_rule(kText, "load A[%0", "load A[%1"),
            "bound: an index value is no operand of its load");
  EXPECT_EQ(broken_rule(kText, "load 1 %3", "load 1"),
            "bound: an index value is no operand of its load");
  EXPECT_EQ(broken_rule(kText, "temporary view T", "temporary view A"),
            "bound: a view of another type or size");
  EXPECT_EQ(broken_rule(kText, "sort S = T", "sort S = S"),
            "bound: a tensor is used before it is set");
  EXPECT_EQ(broken_rule(kText, "sort S = T axis 1", "sort S = T axis 2"),
            "bound: a sort's axis or shape");
  EXPECT_EQ(broken_rule(kText, "[O] + f32", "[O] + f64"),
            "bound: a result of another type than the accumulator");
  EXPECT_EQ(broken_rule(kText, "box [2, 9, 3]", "box [2, 9]"),
            "bound: a box of another size than the iterators");
  EXPECT_EQ(broken_rule(kText, "%4:f32 = load 1 %3", "%4:f64 = load 1 %3"),
            "bound: a load of another type");
  EXPECT_EQ(broken_rule(kText, "outputs [O, S, O, R]", "outputs [O, V]"),
            "bound: an output of another role");
}

TEST(BoundText, BoundariesRun) {
  const char* text = R"(tensor A: f32 [3] input
tensor O: f32 [8] output
inputs [A]
outputs [O]
contraction [O] = f32 {
  piece [i] {
    store O[i]
    load A[i - 3 !RULE]
    body { %0:f32 = load 0; yield %0 }
  }
}
)";
  auto run_rule = [&](const std::string& rule) {
    std::string with = text;
    with.replace(with.find("RULE"), 4, rule);
    BoundProgram program = parsed(with);
    verify(program);
    return values_of(interpret(program, {vector_of({1, 2, 3})}).outputs.at(0));
  };
  EXPECT_EQ(run_rule("clamp"), Values({1, 1, 1, 1, 2, 3, 3, 3}));
  EXPECT_EQ(run_rule("mirror"), Values({3, 2, 1, 1, 2, 3, 3, 2}));
  EXPECT_EQ(run_rule("wrap"), Values({1, 2, 3, 1, 2, 3, 1, 2}));
  EXPECT_EQ(run_rule("constant"), Values({0, 0, 0, 1, 2, 3, 0, 0}));
  EXPECT_EQ(run_rule("in_range"), Values({0, 0, 0, 1, 2, 3, 0, 0}));
}

const char* const kFolds = R"(tensor A: f32 [5] input
tensor W: f32 [3] temporary constant [1, 2, -0.5]
tensor O: f32 [5, 2] output
inputs [A]
outputs [O]
contraction [O, O] = f32 {
  piece [i] {
    store O[i, 0]
    store O[i, 1]
    load W[%0]
    load A[%0 !clamp]
    load A[%0]
    body { %0:i64 = index 0; %1:i64 = int -1; %2:i64 = int 2; %3:f32 = real 0; %4 = fold add 2 %1 %2 %3 %3 %0 { %0:i64 = argument 0; %1:i64 = argument 3; %2:i64 = int 1; %3:i64 = add %0 %2; %4:f32 = load 0 %3; %5:i64 = add %0 %1; %6:f32 = load 1 %5; %7:f32 = mul %4 %6; yield %7, %4 }; %5:f32 = component 0 %4; %6:f32 = component 1 %4; %7:f32 = load 2 %0; %8:f32 = add %6 %7; yield %5, %8 }
  }
}
)";

TEST(BoundText, FoldsConstantsAndComponentsRun) {
  BoundProgram program = parsed(kFolds);
  verify(program);
  EXPECT_EQ(print(program), kFolds);
  Values out = values_of(interpret(program, {vector_of({1, 2, 4, 8, 16})}).outputs.at(0));
  // O[i, 0] = A[i - 1] + 2 A[i] - A[i + 1] / 2, clamped; O[i, 1] = 2.5 + A[i].
  EXPECT_EQ(out, Values({2, 3.5, 3, 4.5, 6, 6.5, 12, 10.5, 32, 18.5}));
}

TEST(BoundText, ConstantsAreChecked) {
  EXPECT_EQ(broken_rule(kFolds, "f32 [3] temporary", "f32 [2] temporary"),
            "bound: a constant of another size");
  EXPECT_EQ(broken_rule(kFolds, "store O[i, 1]", "store O[i, 1 !clamp]"),
            "bound: a store that is not affine and in range");
}

}  // namespace
}  // namespace tile::test
