// Element types (core/language/tile/REFERENCE.md section 5).
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

DType type_of(const std::string& expression, DType a, DType b = DType::f32) {
  BoundProgram program =
      bind_text("function (A, B) -> (O) { O = " + expression + "; }", {{a, {2}}, {b, {2}}});
  return program.tensors[program.outputs[0]].type;
}
Values value(const std::string& expression, const HostTensor& a, const HostTensor& b) {
  return values("function (A, B) -> (O) { O = " + expression + "; }", {a, b});
}
Values value(const std::string& expression, const HostTensor& a) {
  return values("function (A) -> (O) { O = " + expression + "; }", {a});
}

TEST(BindTypes, Promotion) {  // rule 5.2
  EXPECT_EQ(type_of("A + B", DType::i8, DType::i16), DType::i16);
  EXPECT_EQ(type_of("A + B", DType::u8, DType::i8), DType::i16);
  EXPECT_EQ(type_of("A + B", DType::u32, DType::i8), DType::i64);
  EXPECT_EQ(type_of("A + B", DType::f16, DType::bf16), DType::f32);
  EXPECT_EQ(type_of("A + B", DType::f16, DType::i64), DType::f16);
  EXPECT_EQ(type_of("A + B", DType::f32, DType::f64), DType::f64);
  EXPECT_EQ(type_of("A + B", DType::bool_, DType::u8), DType::u8);
}

// Floats of 8 bits are for storage.
TEST(BindTypes, ArithmeticOnFloatsOfEightBitsGivesF32) {  // rule 5.8
  constexpr DType e4m3 = DType::f8e4m3, e5m2 = DType::f8e5m2;
  for (const char* text : {"A + 1", "A * A", "-A", "exp(A)", "abs(A)", "A / 2.0"}) {
    EXPECT_EQ(type_of(text, e4m3), DType::f32) << text;
  }
  for (const char* text : {"ident(A)", "max(A, 0)", "A > 1 ? A : 0.5", "min(A, A)", "floor(A)"}) {
    EXPECT_EQ(type_of(text, e4m3), e4m3) << text;
  }
  EXPECT_EQ(type_of("max(A, B)", e4m3, e5m2), DType::f32);
  EXPECT_EQ(type_of("max(A, B)", e4m3, DType::bf16), DType::bf16);
  EXPECT_EQ(type_of("A < B", e4m3, e5m2), DType::bool_);
  EXPECT_EQ(type_of("as_f8e5m2(A)", DType::f64), e5m2);
  EXPECT_EQ(type_of("as_f8e4m3(A + 1)", e4m3), e4m3);
  for (const char* aggregation : {"+", "*"}) {
    std::string text = std::string("function (A[N]) -> (O) { O[] = ") + aggregation + "(A[i]); }";
    EXPECT_EQ(run(text, {vector_of(e4m3, {1, 3})}).type, DType::f32);
  }
  EXPECT_EQ(run("function (A[N]) -> (O) { O[] = >(A[i]); }", {vector_of(e4m3, {1, 3})}).type, e4m3);
  EXPECT_EQ(run("function (A[N]) -> (O) { O = cumsum(A, 0); }", {vector_of(e5m2, {1, 3})}).type,
            DType::f32);
}

TEST(BindTypes, UnsignedWithSignedSixtyFourBitsNeedsACast) {  // rule 5.2
  std::string error = error_of_bind("function (A, B) -> (O) { O = A * B; }",
                                    {{DType::u64, {1}}, {DType::i32, {1}}});
  EXPECT_NE(error.find("bind error"), std::string::npos) << error;
  EXPECT_NE(error.find("u64 and i32"), std::string::npos) << error;
  EXPECT_NE(error.find("cast"), std::string::npos) << error;
}

TEST(BindTypes, LiteralsAreWeak) {  // rule 5.3
  EXPECT_EQ(type_of("A + 1", DType::i8), DType::i8);
  EXPECT_EQ(type_of("A * 2", DType::f16), DType::f16);
  EXPECT_EQ(type_of("A * 0.5", DType::bf16), DType::bf16);
  EXPECT_EQ(type_of("A * 0.5", DType::i64), DType::f32);
  EXPECT_EQ(type_of("A * 0.5", DType::f64), DType::f64);
  EXPECT_EQ(type_of("A + 1", DType::bool_), DType::i32);
  EXPECT_EQ(type_of("7 / 2", DType::f32), DType::i64);
  EXPECT_EQ(type_of("7 / 2.0", DType::f32), DType::f32);
  EXPECT_EQ(type_of("A > 1 ? 1 : 2.0", DType::f64), DType::f32);
  EXPECT_EQ(value("A / (7 / 2)", vector_of({6, 9})), Values({2, 3}));
  EXPECT_EQ(value("A * (7 / 2.0)", vector_of({2, 4})), Values({7, 14}));
}

TEST(BindTypes, SizesAndIndicesAreWeak) {  // rule 5.3
  EXPECT_EQ(
      run("function (A[N]) -> (O) { O = A * N / 2; }", {vector_of(DType::f16, {1, 3, 5})}).type,
      DType::f16);
  EXPECT_EQ(run("function (A[N]) -> (O) { O = N; }", {vector_of({1, 3})}).type, DType::i64);
  EXPECT_EQ(
      run("function (A[N]) -> (O) { O[i: N] = =(A[i] * i); }", {vector_of(DType::u8, {1, 3, 5})})
          .type,
      DType::u8);
  EXPECT_EQ(
      values("function (A[N]) -> (O) { O[i: N] = =(A[i] + i / 2); }", {vector_of({0, 0, 0, 0})}),
      Values({0, 0, 1, 1}));
  EXPECT_EQ(
      values("function (A[N]) -> (O) { O[i: N] = =(A[i] + i * 0.5); }", {vector_of({0, 0, 0, 0})}),
      Values({0, 0.5, 1, 1.5}));
}

TEST(BindTypes, LiteralKeepsItsDigitsWithDoubles) {
  EXPECT_EQ(value("A * 0.1", vector_of(DType::f64, {1})), Values({0.1}));
  EXPECT_EQ(value("A * 0.1", vector_of(DType::f32, {1})), Values({static_cast<double>(0.1f)}));
}

TEST(BindTypes, ComparisonsGiveBoolAndPromote) {  // rule 5.4
  EXPECT_EQ(type_of("A < B", DType::i8, DType::f64), DType::bool_);
  EXPECT_EQ(value("A < B", vector_of(DType::i8, {-1, 1}), vector_of(DType::u8, {255, 0})),
            Values({1, 0}));
  EXPECT_EQ(value("A == 2", vector_of(DType::bool_, {0, 1})), Values({0, 0}));
  EXPECT_EQ(type_of("A + B", DType::bool_, DType::bool_), DType::i32);
  EXPECT_EQ(type_of("A & B", DType::bool_, DType::bool_), DType::i32);
  EXPECT_EQ(type_of("-A", DType::bool_), DType::i32);
}

TEST(BindTypes, LogicalOperandsAreComparedWithZero) {
  EXPECT_EQ(value("A && B", vector_of({0.5, 0.25, 0}), vector_of({2, 0, 1})), Values({1, 0, 0}));
  EXPECT_EQ(value("!A", vector_of({0.5, 0, kNan})), Values({0, 1, 0}));
  EXPECT_EQ(value("A || B", vector_of(DType::i8, {0, 3}), vector_of({0, 0})), Values({0, 1}));
  EXPECT_EQ(value("A ? 1.5 : B", vector_of({0.5, 0}), vector_of({7, 8})), Values({1.5, 8}));
}

TEST(BindTypes, NarrowIntegersWrapAfterEachOperation) {  // rule 5.7
  EXPECT_EQ(value("(A + B) / 2", vector_of(DType::i8, {100, 50}), vector_of(DType::i8, {100, 50})),
            Values({-28, 50}));
  EXPECT_EQ(value("A * B", vector_of(DType::u8, {16}), vector_of(DType::u8, {17})), Values({16}));
  EXPECT_EQ(value("-A", vector_of(DType::u16, {1})), Values({65535}));
  EXPECT_EQ(value("as_int(A, 32) + B", vector_of(DType::i8, {100}), vector_of(DType::i8, {100})),
            Values({200}));
}

TEST(BindTypes, HalvesAreEvaluatedInSinglePrecision) {  // rule 5.7
  HostTensor a = vector_of(DType::f16, {60000, 2048});
  EXPECT_EQ(value("A * 2 / 2", a), Values({60000, 2048}));
  EXPECT_EQ(value("(A + 1) - 2", a), Values({60000, 2047}));
  EXPECT_EQ(values("function (A) -> (O) { B = A * 2; O = B / 2; }", {a}), Values({kInf, 2048}));
}

TEST(BindTypes, CastsRoundToTheirType) {  // rule 5.6
  EXPECT_EQ(value("as_float(as_float(A, 16), 32)", vector_of({2049})), Values({2048}));
  EXPECT_EQ(value("as_int(A, 8)", vector_of({300, -2.7, kNan})), Values({127, -2, 0}));
  EXPECT_EQ(value("as_uint(A, 8)", vector_of(DType::i32, {300, -1})), Values({44, 255}));
  EXPECT_EQ(value("as_bool(A)", vector_of({0.5, 0})), Values({1, 0}));
  EXPECT_EQ(type_of("as_bf16(A)", DType::f64), DType::bf16);
  EXPECT_EQ(type_of("as_uint(A, 64)", DType::f64), DType::u64);
  EXPECT_EQ(value("as_float(0.1, 64) + A", vector_of(DType::f64, {0})), Values({0.1}));
  // Inside a contraction, too: the maximum of the wrapped values.
  EXPECT_EQ(values("function (A[N]) -> (O) { O[] = >(as_int(A[i], 8)); }",
                   {vector_of(DType::i32, {200, 100})}),
            Values({100}));
}

TEST(BindTypes, FunctionsOfIntegersGiveFloats) {
  EXPECT_EQ(type_of("sqrt(A)", DType::i64), DType::f32);
  EXPECT_EQ(type_of("sqrt(A)", DType::f64), DType::f64);
  EXPECT_EQ(type_of("sqrt(4)", DType::f64), DType::f32);
  EXPECT_EQ(type_of("floor(A)", DType::i16), DType::i16);
  EXPECT_EQ(value("sqrt(A)", vector_of(DType::i32, {9, 16})), Values({3, 4}));
  EXPECT_EQ(value("isnan(A)", vector_of({kNan, 1})), Values({1, 0}));
}

TEST(BindTypes, BitOperationsNeedIntegers) {
  std::string error = error_of_bind("function (A) -> (O) { O = A & 1; }", {{DType::f32, {2}}});
  EXPECT_NE(error.find("bind error"), std::string::npos);
  EXPECT_NE(error.find("needs integers"), std::string::npos) << error;
  EXPECT_EQ(value("A << 1 | 1", vector_of(DType::i32, {1, 2})), Values({3, 5}));
  EXPECT_EQ(value("~A", vector_of(DType::u8, {1})), Values({254}));
}

}  // namespace
}  // namespace tile::test
