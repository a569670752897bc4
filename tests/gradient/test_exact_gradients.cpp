// Gradients with values known by hand (rules 7.1 to 7.3a).
#include <gmock/gmock.h>

#include "core/autodiff/differentiate.h"
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

Program parse_text(const std::string& text) {
  return parse_tile(std::make_shared<const Source>(Source{"gradient.tile", text}));
}

HostTensor run_last(const Program& program, const std::vector<HostTensor>& inputs) {
  BoundProgram bound = tile::bind(program, types_of(inputs));
  verify(bound);
  return interpret(bound, inputs).outputs.back();
}

// The gradient of O with respect to `wrt`, the seed last in `inputs`.
HostTensor gradient(const std::string& text, const std::string& wrt,
                    const std::vector<HostTensor>& inputs) {
  return run_last(differentiate(parse_text(text), "O", {wrt}), inputs);
}

// The Hessian of the scalar O(A), row by row: the gradient of the gradient's element i.
Values hessian(const std::string& text, const HostTensor& a) {
  Program first = differentiate(parse_text(text), "O", {"A"});
  Program second = differentiate(first, "DA", {"A"});
  Values rows;
  for (int64_t i = 0; i < a.count(); ++i) {
    HostTensor unit(a.type, a.shape);
    unit.set(i, real_scalar(1, a.type));
    HostTensor one(a.type, {});
    one.set(0, real_scalar(1, a.type));
    Values row = values_of(run_last(second, {a, one, unit}));
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return rows;
}

// Rule 7.3: every entry is the product of the factors that are left.
Values product_hessian(const Values& a) {
  Values rows;
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < a.size(); ++j) {
      double left = i == j ? 0 : 1;
      for (size_t k = 0; k < a.size(); ++k) left *= k == i || k == j ? 1 : a[k];
      rows.push_back(left);
    }
  }
  return rows;
}

TEST(ProductGradient, LeavesOutOneFactorAlsoAtZeros) {
  const std::string text = "function (A[N]) -> (O) { O[] = *(A[i]); }";
  HostTensor one = tensor(DType::f32, {}, {1});
  EXPECT_EQ(values_of(gradient(text, "A", {vector_of({2, 3, 5, 7}), one})),
            (Values{105, 70, 42, 30}));
  EXPECT_EQ(values_of(gradient(text, "A", {vector_of({2, 0, 5, 7}), one})), (Values{0, 70, 0, 0}));
  EXPECT_EQ(values_of(gradient(text, "A", {vector_of({2, 0, 5, 0}), one})), (Values{0, 0, 0, 0}));
}

TEST(ProductGradient, HessianIsExactWithZeros) {
  const std::string text = "function (A[N]) -> (O) { O[] = *(A[i]); }";
  for (const Values& a : {Values{2, 3, 5, 7, 11}, Values{2, 0, 5, 7, 11}, Values{2, 0, 5, 0, 11},
                          Values{0, 3, 0, 7, 0}}) {
    EXPECT_EQ(hessian(text, vector_of(a)), product_hessian(a)) << a[1] << a[3];
  }
}

// Rule 7.3a: the factors of a cell of a windowed product are those of its own points.
TEST(ProductGradient, OfWindows) {
  const std::string text = "function (A[N]) -> (O) { O[i: N - 1] = *(A[i + k]), k < 2; }";
  EXPECT_EQ(values_of(gradient(text, "A", {vector_of({2, 0, 3, 5}), vector_of({1, 10, 100})})),
            (Values{0, 32, 500, 300}));
}

// No index has a bound of its own: 2 i + j and i + 2 j bound them together.
TEST(ProductGradient, OfIndicesBoundedTogether) {
  const std::string text = "function (A[N], B[M]) -> (O) { O[] = *(A[2 * i + j] + B[i + 2 * j]); }";
  // Points (i, j) with 0 <= 2i + j < 3 and 0 <= i + 2j < 3: (0,0), (1,0), (0,1), (1,1) and
  // (-1, 2) -> (0, 3) is outside.
  EXPECT_EQ(values_of(run(text, {vector_of({1, 2, 3}), vector_of({4, 5, 6})})),
            (Values{5.0 * 8 * 8}));
  EXPECT_EQ(
      values_of(gradient(
          text, "A", {vector_of({1, 2, 3}), vector_of({4, 5, 6}), tensor(DType::f32, {}, {1})})),
      (Values{64, 40, 40}));
}

TEST(ExtremeGradient, SharesAmongTies) {
  const std::string text = "function (A[N]) -> (O) { O[] = >(A[i]); }";
  HostTensor four = tensor(DType::f32, {}, {4});
  EXPECT_EQ(values_of(gradient(text, "A", {vector_of({1, 3, 3}), four})), (Values{0, 2, 2}));
  EXPECT_EQ(values_of(gradient(text, "A", {vector_of({3, 3, 3, 3}), four})), (Values{1, 1, 1, 1}));
}

// Rule 7.3a: NaN equals NaN.
TEST(ExtremeGradient, GoesToTheNaNs) {
  for (const char* aggregation : {">", "<"}) {
    std::string text = std::string("function (A[N]) -> (O) { O[] = ") + aggregation + "(A[i]); }";
    EXPECT_EQ(values_of(gradient(text, "A",
                                 {vector_of({kNan, 3, kNan, 1}), tensor(DType::f32, {}, {4})})),
              (Values{2, 0, 2, 0}));
  }
}

// Rule 7.3a: values that round to one bf16 are tied.
TEST(ExtremeGradient, ComparesAfterRounding) {
  const std::string text = "function (A[N], B[N]) -> (O) { O[] = >(A[i] * B[i]); }";
  HostTensor a = vector_of(DType::bf16, {1.0078125, 1.0234375, 1});
  HostTensor b = vector_of(DType::bf16, {1.0234375, 1.0078125, 1.03125});
  HostTensor seed = tensor(DType::bf16, {}, {6});
  // The products 1.031433, 1.031433 and 1.03125 are all 1.03125 in bf16.
  EXPECT_EQ(values_of(run(text, {a, b})), (Values{1.03125}));
  HostTensor got = gradient(text, "A", {a, b, seed});
  EXPECT_EQ(got.type, DType::bf16);
  EXPECT_EQ(values_of(got), (Values{2.046875, 2.015625, 2.0625}));
}

// Where a program converts between floats, the gradient of a tensor has the tensor's type, whatever
// promotes the tensor, and is rounded once, behind the sum of what is added up.
TEST(NarrowGradient, HasTheTensorsTypeAndIsRoundedOnce) {
  const std::string text =
      "function (A[N], W[N]) -> (O) { P = A * W; S[] = +(as_float(A[i], 32)); O = P + S; }";
  HostTensor a = vector_of(DType::bf16, {1, 2}), w = vector_of(DType::f32, {1.0 / 512, 3});
  HostTensor seed = vector_of(DType::f32, {1, 1});
  HostTensor got = gradient(text, "A", {a, w, seed});
  EXPECT_EQ(got.type, DType::bf16);
  // 2 + 1/512 is nearer to 2 than to 2.015625, which bf16 has next.
  EXPECT_EQ(values_of(got), (Values{2, 5}));
  // Of three parts each alone vanishes beside 2, and all together do not.
  const std::string thirds =
      "function (A[N], W[N]) -> (O) {"
      " S[] = +(as_float(A[i], 32)); X = A * W; Y = A * W; Z = A * W; O = X + Y + Z + S; }";
  HostTensor more = gradient(thirds, "A", {a, vector_of(DType::f32, {0.005, 3}), seed});
  EXPECT_EQ(values_of(more), (Values{2.015625, 11}));
}

// Points that the aggregation skips, and cells without points, get nothing.
TEST(ExtremeGradient, OfEmptyCells) {
  const std::string text = "function (A[N]) -> (O) { O[i: 3] = >(A[2 * i + k]), k < 2; }";
  EXPECT_EQ(values_of(gradient(text, "A", {vector_of({1, 2, 3}), vector_of({1, 10, 100})})),
            (Values{0, 1, 10}));
}

TEST(ExtremeGradient, SecondDerivative) {
  const std::string text = "function (A[N]) -> (O) { M[] = >(A[i]); O = M * M * M; }";
  EXPECT_EQ(hessian(text, vector_of({1, 2})), (Values{0, 0, 0, 12}));
  // Two tied points carry half each, and so a quarter of the second derivative.
  EXPECT_EQ(hessian(text, vector_of({2, 2})), (Values{3, 3, 3, 3}));
}

// Rule 7.3a: an empty cell has no gradient, of any order. The share of its adjoint was divided by
// its number of ties, 0, and the second derivative multiplied the infinity by 0.
TEST(ExtremeGradient, SecondDerivativeOfEmptyCells) {
  for (const char* aggregation : {">", "<"}) {
    SCOPED_TRACE(aggregation);
    std::string text = std::string("function (A[N]) -> (O) { M[2 * i: 4] = ") + aggregation +
                       "(A[i + k]), k < 2; O[] = +(M[j] * M[j] * M[j]); }";
    // Cells 1 and 3 are empty; cell 0 has both elements, cell 2 the second one.
    bool max = aggregation[0] == '>';
    EXPECT_EQ(hessian(text, vector_of({1, 3})), (max ? Values{0, 0, 0, 36} : Values{6, 0, 0, 18}));
    EXPECT_EQ(hessian(text, vector_of({2, 2})), (Values{3, 3, 3, 15}));
  }
}

TEST(AssignGradient, GoesThrough) {
  const std::string text = "function (A[N], B[M]) -> (O) { O[2 * i: 6] = =(A[i] * B[i]); }";
  EXPECT_EQ(
      values_of(gradient(
          text, "A", {vector_of({1, 2, 3}), vector_of({4, 5, 6}), vector_of({1, 2, 3, 4, 5, 6})})),
      (Values{4, 15, 30}));
}

// Rule 7.3: `default` counts only where no point reaches.
TEST(DefaultGradient, ReachesUncoveredCells) {
  for (const char* aggregation : {"+", "*", ">", "<", "="}) {
    std::string text = std::string("function (A[N], P[M]) -> (O) { O[2 * i + 1: M] = ") +
                       aggregation + "(A[i]) default P; }";
    std::vector<HostTensor> inputs = {vector_of({7, 8}), vector_of({1, 2, 3, 4, 5, 6}),
                                      vector_of({1, 2, 3, 4, 5, 6})};
    EXPECT_EQ(values_of(gradient(text, "P", inputs)), (Values{1, 0, 3, 0, 5, 6}));
    EXPECT_EQ(values_of(gradient(text, "A", inputs)), (Values{2, 4}));
  }
}

// Rule 7.3: elementwise ties.
TEST(ElementwiseGradient, SharesTiesInHalves) {
  HostTensor a = vector_of({1, 2, 3, kNan, 1, kNan}), b = vector_of({2, 2, 2, kNan, kNan, 1});
  HostTensor seed = vector_of({1, 1, 1, 1, 1, 1});
  std::vector<HostTensor> inputs = {a, b, seed};
  const std::string larger = "function (A, B) -> (O) { O = max(A, B); }";
  const std::string smaller = "function (A, B) -> (O) { O = min(A, B); }";
  EXPECT_EQ(values_of(gradient(larger, "A", inputs)), (Values{0, 0.5, 1, 0.5, 0, 1}));
  EXPECT_EQ(values_of(gradient(larger, "B", inputs)), (Values{1, 0.5, 0, 0.5, 1, 0}));
  EXPECT_EQ(values_of(gradient(smaller, "A", inputs)), (Values{1, 0.5, 0, 0.5, 0, 1}));
  EXPECT_EQ(values_of(gradient(smaller, "B", inputs)), (Values{0, 0.5, 1, 0.5, 1, 0}));
}

TEST(ElementwiseGradient, OfKinksIsZero) {
  std::vector<HostTensor> inputs = {vector_of({-1, 0, 2}), vector_of({1, 1, 1})};
  EXPECT_EQ(values_of(gradient("function (A) -> (O) { O = abs(A); }", "A", inputs)),
            (Values{-1, 0, 1}));
  EXPECT_EQ(values_of(gradient("function (A) -> (O) { O = relu(A); }", "A", inputs)),
            (Values{0, 0, 1}));
}

// Rule 7.1: no derivative is zero of the right shape and type.
TEST(ElementwiseGradient, OfStepsIsZero) {
  for (const char* body : {"floor(A)", "round(A) + 1", "A < 0.5 ? 2.0 : 3.0", "as_float(A > 0, 32)",
                           "as_float(as_int(A, 32), 32)", "sign(A)"}) {
    std::string text = std::string("function (A) -> (O) { O = ") + body + "; }";
    HostTensor got = gradient(text, "A", {floats({2, 1}, {0.3, 1.7}), floats({2, 1}, {1, kInf})});
    EXPECT_EQ(got.shape, (Shape{2, 1})) << body;
    EXPECT_EQ(got.type, DType::f32) << body;
    EXPECT_EQ(values_of(got), (Values{0, 0})) << body;
  }
}

// The untaken side contributes nothing, whatever its derivative is there.
TEST(ElementwiseGradient, OfTheUntakenSideIsNothing) {
  const std::string text = "function (A) -> (O) { O = A > 0 ? log(A) : A * A; }";
  EXPECT_EQ(values_of(gradient(text, "A", {vector_of({0, -3, 2}), vector_of({1, 1, 1})})),
            (Values{0, -6, 0.5}));
}

// Rule 6.1 undone: the gradient has the operand's shape.
TEST(ElementwiseGradient, UndoesBroadcasting) {
  const std::string text = "function (A, B) -> (O) { O = A * B; }";
  HostTensor a = floats({2, 1}, {2, 3}), b = floats({3}, {5, 7, 11});
  HostTensor seed = floats({2, 3}, {1, 10, 100, 2, 20, 200});
  HostTensor da = gradient(text, "A", {a, b, seed}), db = gradient(text, "B", {a, b, seed});
  EXPECT_EQ(da.shape, a.shape);
  EXPECT_EQ(values_of(da), (Values{1175, 2350}));
  EXPECT_EQ(db.shape, b.shape);
  EXPECT_EQ(values_of(db), (Values{8, 80, 800}));
}

// Rule 5.6: casts between floats pass gradients, in the type of what was cast.
TEST(ElementwiseGradient, KeepsIntegerFactorsWhole) {
  HostTensor a = vector_of({1, 2, 3, 4, 5}), seed = vector_of({2, 2, 2, 2, 2});
  EXPECT_EQ(values_of(gradient("function (A[N]) -> (O) { O = A * (N / 2); }", "A", {a, seed})),
            (Values{4, 4, 4, 4, 4}));
  EXPECT_EQ(values_of(gradient("function (A[N]) -> (O) { O[i: N] = +(A[i] * (i / 2)); }", "A",
                               {a, seed})),
            (Values{0, 0, 2, 2, 4}));
  HostTensor narrow = tensor(DType::i8, {5}, {1, 50, 64, 3, 7});
  EXPECT_EQ(values_of(gradient("function (A[N], I[N]) -> (O) { O = A * (2 * I) + A * (I / 2); }",
                               "A", {a, narrow, seed})),
            (Values{4, 250, -192, 14, 34}));
}
TEST(ElementwiseGradient, PassesFloatCasts) {
  HostTensor a = vector_of(DType::f16, {1, 2});
  HostTensor got =
      gradient("function (A) -> (O) { O = as_float(A, 32) * 3; }", "A", {a, vector_of({1, 2})});
  EXPECT_EQ(got.type, DType::f16);
  EXPECT_EQ(values_of(got), (Values{3, 6}));
}

// A text bound to several ranks.
TEST(ElementwiseGradient, OfAnyRank) {
  Program program =
      differentiate(parse_text("function (A, B) -> (O) { O = A + A * B; }"), "O", {"A", "B"});
  Program again = parse_text(print(program));
  for (const Shape& shape : {Shape{}, Shape{3}, Shape{2, 1, 2}}) {
    HostTensor a(DType::f32, shape), b(DType::f32, {}), seed(DType::f32, shape);
    b.set(0, real_scalar(2, DType::f32));
    for (int64_t i = 0; i < a.count(); ++i) seed.set(i, real_scalar(1, DType::f32));
    std::vector<HostTensor> got =
        interpret(tile::bind(again, types_of({a, b, seed})), {a, b, seed}).outputs;
    EXPECT_EQ(got[1].shape, shape);
    EXPECT_EQ(values_of(got[1]), Values(static_cast<size_t>(a.count()), 3));
    EXPECT_EQ(got[2].shape, Shape{});
  }
}

// Whole-tensor operations (rule 6.4).
struct CallCase {
  const char* call;
  HostTensor a, seed;
  Values expected;
};

TEST(CallGradient, MovesElementsBack) {
  HostTensor a = floats({3, 2}, {5, 1, 3, 4, 1, 9});
  const CallCase cases[] = {
      {"reshape(A, 6)", a, vector_of({1, 2, 3, 4, 5, 6}), {1, 2, 3, 4, 5, 6}},
      {"transpose(A, 1, 0)", a, floats({2, 3}, {1, 2, 3, 4, 5, 6}), {1, 4, 2, 5, 3, 6}},
      {"concat(0, A, A)",
       a,
       floats({6, 2}, {1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60}),
       {11, 22, 33, 44, 55, 66}},
      {"slice(A, 0, 0, 3, 2)", a, floats({2, 2}, {1, 2, 3, 4}), {1, 2, 0, 0, 3, 4}},
      {"slice(A, 0, 2, -1, -1)", a, floats({3, 2}, {1, 2, 3, 4, 5, 6}), {5, 6, 3, 4, 1, 2}},
      {"cumsum(A, 0)", a, floats({3, 2}, {1, 2, 3, 4, 5, 6}), {9, 12, 8, 10, 5, 6}},
      {"cumsum(A, 1)", floats({3, 0}, {}), floats({3, 0}, {}), {}},  // rule 4.5
      {"sort(A, 0)", a, floats({3, 2}, {1, 2, 3, 4, 5, 6}), {5, 2, 3, 4, 1, 6}},
  };
  for (const CallCase& c : cases) {
    std::string text = std::string("function (A) -> (O) { O = ") + c.call + "; }";
    HostTensor got = gradient(text, "A", {c.a, c.seed});
    EXPECT_EQ(got.shape, c.a.shape) << c.call;
    EXPECT_EQ(values_of(got), c.expected) << c.call;
  }
}

TEST(CallGradient, GatherAddsAndScatterGathers) {
  HostTensor at = vector_of(DType::i32, {2, 0, 2});
  HostTensor a = floats({3, 2}, {5, 1, 3, 4, 1, 9});
  EXPECT_EQ(values_of(gradient("function (A, I) -> (O) { O = gather(A, I); }", "A",
                               {a, at, floats({3, 2}, {1, 2, 3, 4, 5, 6})})),
            (Values{3, 4, 0, 0, 6, 8}));
  EXPECT_EQ(values_of(gradient("function (A, I) -> (O) { O = scatter(A, I, 4); }", "A",
                               {a, at, floats({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8})})),
            (Values{5, 6, 1, 2, 5, 6}));
}

// Rule 7.1: operations whose result does not move.
TEST(CallGradient, OfPositionsIsZero) {
  for (const char* call : {"as_float(argmax(A, 0), 32)", "as_float(index(A, 0), 32)"}) {
    std::string text = std::string("function (A) -> (O) { O = ") + call + "; }";
    HostTensor a = vector_of({5, 1, 3});
    std::string is_scalar = call;
    HostTensor seed = is_scalar.find("argmax") != std::string::npos ? tensor(DType::f32, {}, {1})
                                                                    : vector_of({1, 1, 1});
    EXPECT_EQ(values_of(gradient(text, "A", {a, seed})), (Values{0, 0, 0})) << call;
  }
}

// Errors name the place and what the user wrote (rule 8.1a).
std::string error_of(const std::string& text, const std::string& of,
                     const std::vector<std::string>& wrt, const std::vector<HostTensor>& inputs) {
  try {
    run_last(differentiate(parse_text(text), of, wrt), inputs);
  } catch (const Failure& failure) {
    return render(failure.diagnostic(), Source{"gradient.tile", text});
  }
  return "";
}

TEST(GradientErrors, AreLocated) {
  using testing::AllOf;
  using testing::HasSubstr;
  const std::string text = "function (A[N], I[N]) -> (O) { O[i: N] = +(A[i] * I[i]); }";
  EXPECT_THAT(error_of(text, "Q", {"A"}, {}), HasSubstr("\"Q\" is not an output"));
  EXPECT_THAT(error_of(text, "O", {"O"}, {}),
              AllOf(HasSubstr("gradient.tile:1"), HasSubstr("\"O\" is not an input")));
  EXPECT_THAT(error_of(text, "O", {"A", "A"}, {}), HasSubstr("asked for twice"));
  HostTensor a = vector_of({1, 2}), i = vector_of(DType::i32, {1, 2});
  EXPECT_THAT(error_of(text, "O", {"I"}, {a, i, a}),
              AllOf(HasSubstr("gradient.tile:1"), HasSubstr("I is i32")));
  EXPECT_THAT(error_of(text, "O", {"A"}, {a, i, i}),
              AllOf(HasSubstr("gradient.tile:1"), HasSubstr("DO is i32")));
  EXPECT_THAT(error_of("function (A) -> (O) { O = A > 0; }", "O", {"A"}, {a, a}),
              AllOf(HasSubstr("gradient.tile:1"), HasSubstr("O is bool")));
  EXPECT_THAT(error_of("function (A) -> (O) { O = A + 1; }", "O", {"A"}, {a, vector_of({1})}),
              AllOf(HasSubstr("gradient.tile:1"), HasSubstr("the seed DO has shape [1]")));
}

// A function of two outputs: only the path to the one asked for counts; the names say whose.
TEST(GradientNames, FollowTheInputs) {
  Program program = differentiate(parse_text("function (A, B) -> (O, P) { O = A + B; P = A * B; }"),
                                  "O", {"B", "A"});
  std::vector<std::string> names;
  for (TensorId id : program.outputs) {
    names.push_back(program.tensors[id].name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"O", "P", "DB", "DA"}));
  EXPECT_EQ(program.tensors[program.inputs.back()].name, "DO");
  Program ties = differentiate(parse_text("function (A) -> (A2) { A2 = A; }"), "A2", {"A"});
  EXPECT_EQ(print(parse_text(print(ties))), print(ties));
}

// One tensor is the gradient of both inputs: each result has its input's name, in any order.
TEST(GradientNames, TwoInputsOfOneGradient) {
  Program forward = parse_text("function (A, B) -> (O) { O = exp(A + B); }");
  for (const std::vector<std::string>& wrt :
       {std::vector<std::string>{"A", "B"}, std::vector<std::string>{"B", "A"}}) {
    Program program = differentiate(forward, "O", wrt);
    std::vector<std::string> names;
    for (TensorId id : program.outputs) names.push_back(program.tensors[id].name);
    EXPECT_EQ(names, (std::vector<std::string>{"O", "D" + wrt[0], "D" + wrt[1]}));
  }
}

// Rule 1.1: a prime may stand at the end of a name only.
TEST(GradientNames, KeepPrimesAtTheEnd) {
  for (const char* text :
       {"function (A'[N']) -> (O') { O'[] = *(A'[i']); }",
        "function (A'[N'], P) -> (O') { O'[i': N'] = >(A'[k']), i' - k' < 2 default P; }",
        "function (A', B') -> (O') { S' = sort(A', 0); C' = cumsum(S', 0); O' = C' * B' * S'; }"}) {
    Program program = differentiate(parse_text(text), "O'", {"A'"});
    EXPECT_EQ(print(parse_text(print(program))), print(program));
  }
}

}  // namespace
}  // namespace tile::test
