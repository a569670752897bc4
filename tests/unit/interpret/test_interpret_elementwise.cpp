// Elementwise operations on the reference interpreter (core/language/tile/REFERENCE.md section 6).
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

double at(const std::string& expression, double a, double b = 0, DType type = DType::f64) {
  std::vector<HostTensor> in{tensor(type, {}, {a}), tensor(type, {}, {b})};
  return values("function (A, B) -> (O) { O = " + expression + "; }", in).at(0);
}

struct KnownValue {
  const char* name;
  double value;
};

TEST(InterpretElementwise, FunctionsAtOneHalf) {  // rule 6.2
  for (const KnownValue& known : std::vector<KnownValue>{
           {"abs", 0.5},
           {"acos", 1.0471975511965979},
           {"asin", 0.52359877559829893},
           {"asinh", 0.48121182505960347},
           {"atan", 0.46364760900080609},
           {"atanh", 0.54930614433405478},
           {"ceil", 1},
           {"cos", 0.87758256189037276},
           {"cosh", 1.1276259652063807},
           {"erf", 0.52049987781304652},
           {"exp", 1.6487212707001282},
           {"exp2", 1.4142135623730951},
           {"expm1", 0.64872127070012819},
           {"floor", 0},
           {"gelu", 0.34573123063700656},
           {"ident", 0.5},
           {"log", -0.69314718055994529},
           {"log1p", 0.40546510810816438},
           {"log2", -1},
           {"neg", -0.5},
           {"reciprocal", 2},
           {"relu", 0.5},
           {"round", 0},
           {"rsqrt", 1.4142135623730949},
           {"sigmoid", 0.62245933120185459},
           {"sign", 1},
           {"sin", 0.47942553860420301},
           {"sinh", 0.52109530549374738},
           {"softplus", 0.97407698418010669},
           {"sqrt", 0.70710678118654757},
           {"square", 0.25},
           {"tan", 0.54630248984379048},
           {"tanh", 0.46211715726000974},
           {"trunc", 0},
       }) {
    std::string call = std::string(known.name) + "(A)";
    EXPECT_NEAR(at(call, 0.5), known.value, 4e-16) << known.name;
    EXPECT_NEAR(at(call, 0.5, 0, DType::f32), known.value, 1.2e-7) << known.name;
    EXPECT_NEAR(at(call, 0.5, 0, DType::f16), known.value, 1e-3) << known.name;
  }
  EXPECT_NEAR(at("acosh(A)", 2), 1.3169578969248167, 4e-16);
}

TEST(InterpretElementwise, FunctionsOfTwoOperands) {  // rule 6.2
  EXPECT_NEAR(at("atan2(A, B)", -1, -1), -2.356194490192345, 4e-16);
  EXPECT_EQ(at("pow(A, B)", 2, 10), 1024);
  EXPECT_EQ(at("max(A, B)", 2, 10), 10);
  EXPECT_EQ(at("min(A, B)", 2, 10), 2);
  EXPECT_EQ(at("mod(A, B)", -7, 4), -3);
  EXPECT_EQ(at("A % B", -7, 4), -3);
  EXPECT_EQ(at("select(A, B, 9)", 0, 10), 9);
  EXPECT_EQ(at("cond(A, B, 9)", 1, 10), 10);
}

TEST(InterpretElementwise, OperatorsAndTheirNames) {  // rule 6.2
  for (auto [symbol, name] :
       std::vector<std::pair<const char*, const char*>>{{"==", "cmp_eq"},
                                                        {"!=", "cmp_ne"},
                                                        {"<", "cmp_lt"},
                                                        {"<=", "cmp_le"},
                                                        {">", "cmp_gt"},
                                                        {">=", "cmp_ge"},
                                                        {"&", "bit_and"},
                                                        {"|", "bit_or"},
                                                        {"^", "bit_xor"},
                                                        {"<<", "bit_left"},
                                                        {">>", "bit_right"}}) {
    for (double a : {5.0, 3.0}) {
      EXPECT_EQ(at("A " + std::string(symbol) + " B", a, 3, DType::i32),
                at(std::string(name) + "(A, B)", a, 3, DType::i32))
          << symbol;
    }
  }
  EXPECT_EQ(at("A & B", 6, 3, DType::i32), 2);
  EXPECT_EQ(at("A | B", 6, 3, DType::i32), 7);
  EXPECT_EQ(at("A ^ B", 6, 3, DType::i32), 5);
  EXPECT_EQ(at("A << B", 6, 3, DType::i32), 48);
  EXPECT_EQ(at("A >> B", -6, 1, DType::i32), -3);
}

TEST(InterpretElementwise, BothSidesOfAConditionalAreHarmless) {  // rules 5.5, 6.2
  EXPECT_EQ(values("function (A, B) -> (O) { O = B == 0 ? 0 - 1 : A / B; }",
                   {vector_of(DType::i32, {7, 7}), vector_of(DType::i32, {0, 2})}),
            Values({-1, 3}));
}

TEST(InterpretElementwise, ValuesAreRoundedAtEachStatement) {  // rule 5.7
  std::vector<HostTensor> in{vector_of(DType::bf16, {1})};
  EXPECT_EQ(values("function (A) -> (O) { O = (A + 0.00390625) - 1; }", in), Values({0.00390625}));
  EXPECT_EQ(values("function (A) -> (O) { T = A + 0.00390625; O = T - 1; }", in), Values({0}));
}

TEST(InterpretElementwise, ConstantsAsWholeTensors) {  // rule 5.3
  HostTensor t = run("function (A[N]) -> (O) { O = N * 2 + 1; }", {vector_of({1, 2, 3})});
  EXPECT_EQ(t.type, DType::i64);
  EXPECT_EQ(t.shape, Shape({}));
  EXPECT_EQ(values_of(t), Values({7}));
}

}  // namespace
}  // namespace tile::test
