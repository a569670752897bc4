// Reference semantics of scalars (core/language/tile/REFERENCE.md sections 5 and 6).
#include <array>

#include "core/ir/scalar.h"
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

int64_t integers(Op op, DType type, int64_t a, int64_t b) {
  std::array<Scalar, 2> x{integer_scalar(a, type), integer_scalar(b, type)};
  return evaluate(op, type, x).i;
}
double reals(Op op, DType type, double a, double b) {
  std::array<Scalar, 2> x{real_scalar(a, type), real_scalar(b, type)};
  return evaluate(op, type, x).f;
}
double real(Op op, double a, DType type = DType::f32) {
  std::array<Scalar, 1> x{real_scalar(a, type)};
  return evaluate(op, type, x).f;
}
bool compares(Op op, const Scalar& a, const Scalar& b) {
  std::array<Scalar, 2> x{a, b};
  return is_true(evaluate(op, DType::bool_, x));
}

constexpr int64_t kMin64 = std::numeric_limits<int64_t>::min();
constexpr int64_t kMin32 = std::numeric_limits<int32_t>::min();

TEST(Scalar, IntegerDivisionTruncatesAndNeverTraps) {  // rule 5.5
  EXPECT_EQ(integers(Op::div, DType::i32, -7, 2), -3);
  EXPECT_EQ(integers(Op::div, DType::i32, 7, -2), -3);
  EXPECT_EQ(integers(Op::div, DType::i32, 7, 0), 0);
  EXPECT_EQ(integers(Op::mod, DType::i32, 7, 0), 0);
  EXPECT_EQ(integers(Op::div, DType::i32, kMin32, -1), kMin32);
  EXPECT_EQ(integers(Op::div, DType::i64, kMin64, -1), kMin64);
  EXPECT_EQ(integers(Op::mod, DType::i64, kMin64, -1), 0);
  EXPECT_EQ(integers(Op::mod, DType::i32, -7, 2), -1);
  EXPECT_EQ(integers(Op::div, DType::u32, -2, 2), 0x7fffffff);
  EXPECT_EQ(integers(Op::div, DType::u64, -1, 2), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(integers(Op::mod, DType::u64, 5, -1), 5);
  EXPECT_EQ(integers(Op::mod, DType::u64, -1, -1), 0);
  EXPECT_EQ(integers(Op::div, DType::u64, 5, -1), 0);
}

TEST(Scalar, WideShiftsAreZeroOrTheSign) {  // rule 5.5
  EXPECT_EQ(integers(Op::shl, DType::i32, 1, 31), kMin32);
  EXPECT_EQ(integers(Op::shl, DType::i32, 1, 32), 0);
  EXPECT_EQ(integers(Op::shl, DType::i32, 1, -1), 0);
  EXPECT_EQ(integers(Op::shr, DType::i32, -8, 1), -4);
  EXPECT_EQ(integers(Op::shr, DType::i32, -8, 40), -1);
  EXPECT_EQ(integers(Op::shr, DType::i32, 8, 40), 0);
  EXPECT_EQ(integers(Op::shr, DType::u32, -1, 31), 1);
  EXPECT_EQ(integers(Op::shr, DType::u64, -1, 63), 1);
  EXPECT_EQ(integers(Op::shr, DType::u64, -1, 64), 0);
}

TEST(Scalar, IntegerArithmeticWraps) {  // rule 5.7
  EXPECT_EQ(integers(Op::add, DType::i32, 0x7fffffff, 1), kMin32);
  EXPECT_EQ(integers(Op::mul, DType::u32, 65536, 65537), 65536);
  EXPECT_EQ(integers(Op::sub, DType::u32, 0, 1), 0xffffffff);
  std::array<Scalar, 1> least{integer_scalar(kMin64, DType::i64)};
  EXPECT_EQ(evaluate(Op::abs, DType::i64, least).i, kMin64);
  EXPECT_EQ(evaluate(Op::neg, DType::i64, least).i, kMin64);
}

TEST(Scalar, UnsignedComparisonsAndExtremes) {
  Scalar top = integer_scalar(-1, DType::u64), one = integer_scalar(1, DType::u64);
  EXPECT_TRUE(compares(Op::gt, top, one));
  EXPECT_FALSE(compares(Op::lt, top, one));
  EXPECT_EQ(integers(Op::max, DType::u64, -1, 1), -1);
  EXPECT_EQ(integers(Op::min, DType::u64, -1, 1), 1);
  EXPECT_EQ(integers(Op::max, DType::i64, -1, 1), 1);
}

TEST(Scalar, ComparisonsWithNan) {
  Scalar nan = real_scalar(kNan, DType::f32), one = real_scalar(1, DType::f32);
  for (Op op : {Op::eq, Op::lt, Op::le, Op::gt, Op::ge}) EXPECT_FALSE(compares(op, nan, one));
  EXPECT_TRUE(compares(Op::ne, nan, nan));
}

TEST(Scalar, FloatToIntegerTruncatesAndSaturates) {  // rule 5.6
  auto cast = [](double x, DType type) { return convert(real_scalar(x, DType::f64), type).i; };
  EXPECT_EQ(cast(-2.9, DType::i32), -2);
  EXPECT_EQ(cast(3e9, DType::i32), 0x7fffffff);
  EXPECT_EQ(cast(-3e9, DType::i32), kMin32);
  EXPECT_EQ(cast(kNan, DType::i32), 0);
  EXPECT_EQ(cast(kInf, DType::i64), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(cast(-kInf, DType::i64), kMin64);
  EXPECT_EQ(cast(200, DType::i8), 127);
  EXPECT_EQ(cast(-1, DType::u8), 0);
  EXPECT_EQ(cast(1e20, DType::u64), -1);
  EXPECT_EQ(cast(kNan, DType::bool_), 1);
  EXPECT_EQ(cast(0.25, DType::bool_), 1);
  EXPECT_EQ(cast(-0.0, DType::bool_), 0);
}

TEST(Scalar, IntegerCastsWrap) {
  EXPECT_EQ(convert(integer_scalar(300, DType::i64), DType::i8).i, 44);
  EXPECT_EQ(convert(integer_scalar(-1, DType::i64), DType::u16).i, 65535);
  EXPECT_EQ(convert(integer_scalar(-1, DType::u64), DType::f64).f, 0x1p64);
  EXPECT_EQ(convert(integer_scalar((1 << 24) + 1, DType::i32), DType::f32).f, 0x1p24);
}

TEST(Scalar, NarrowFloatsRoundOnceToNearestEven) {
  auto half = [](double x) { return real_scalar(x, DType::f16).f; };
  auto brain = [](double x) { return real_scalar(x, DType::bf16).f; };
  EXPECT_EQ(half(1 + 0x1p-11), 1.0);  // a tie goes to even
  EXPECT_EQ(half(1 + 0x1p-11 + 0x1p-40), 1 + 0x1p-10);
  EXPECT_EQ(half(65519), 65504);
  EXPECT_EQ(half(65520), kInf);
  EXPECT_EQ(half(0x1p-24), 0x1p-24);
  EXPECT_EQ(half(0x1p-25), 0.0);
  EXPECT_EQ(half(0x1.8p-25), 0x1p-24);
  EXPECT_EQ(brain(1 + 0x1p-8), 1.0);
  EXPECT_EQ(brain(1 + 0x1.8p-7), 1 + 0x1p-6);
  EXPECT_EQ(brain(3.4e38), kInf);
  EXPECT_EQ(brain(0x1p-133), 0x1p-133);
  EXPECT_TRUE(std::isnan(half(kNan)));
}

TEST(Scalar, FloatsOfEightBitsRoundOnceToNearestEven) {  // rule 5.8
  auto e4m3 = [](double x) { return real_scalar(x, DType::f8e4m3).f; };
  auto e5m2 = [](double x) { return real_scalar(x, DType::f8e5m2).f; };
  EXPECT_EQ(e4m3(1.0625), 1.0);  // a tie goes to even
  EXPECT_EQ(e4m3(1.0625 + 0x1p-40), 1.125);
  EXPECT_EQ(e4m3(464), 448);
  EXPECT_TRUE(std::isnan(e4m3(464.01)));
  EXPECT_TRUE(std::isnan(e4m3(-kInf)));
  EXPECT_EQ(e4m3(-0x1p-9), -0x1p-9);
  EXPECT_EQ(e4m3(0x1p-10), 0.0);
  EXPECT_EQ(e5m2(1.125), 1.0);
  EXPECT_EQ(e5m2(61439), 57344);
  EXPECT_EQ(e5m2(61440), kInf);
  EXPECT_EQ(e5m2(-kInf), -kInf);
  EXPECT_EQ(e5m2(0x1p-16), 0x1p-16);
  EXPECT_EQ(e5m2(0x1p-17), 0.0);
  EXPECT_TRUE(std::isnan(e5m2(kNan)));
}

TEST(Scalar, ElementsRoundTripThroughMemory) {
  for (DType type : {DType::f8e4m3, DType::f8e5m2}) {
    std::set<double> numbers;
    for (int bits = 0; bits < 256; ++bits) {
      auto memory = static_cast<std::byte>(bits), copy = std::byte{0};
      Scalar value = load_element(&memory, type);
      ASSERT_TRUE(same_value(value, real_scalar(value.f, type))) << bits;
      store_element(&copy, value);
      if (std::isnan(value.f)) continue;
      ASSERT_EQ(memory, copy) << bits;
      numbers.insert(value.f);
    }
    // Two zeros are one number; two encodings are NaN, or six and two infinite.
    EXPECT_EQ(numbers.size(), type == DType::f8e4m3 ? 253U : 249U);
    EXPECT_EQ(*numbers.rbegin(), type == DType::f8e4m3 ? 448 : kInf);
  }
  for (DType type : {DType::f16, DType::bf16}) {
    for (int bits = 0; bits < 65536; ++bits) {
      auto pattern = static_cast<uint16_t>(bits);
      std::array<std::byte, 2> memory{static_cast<std::byte>(pattern & 255),
                                      static_cast<std::byte>(pattern >> 8)};
      Scalar value = load_element(memory.data(), type);
      ASSERT_TRUE(same_value(value, real_scalar(value.f, type))) << bits;
      std::array<std::byte, 2> copy{};
      store_element(copy.data(), value);
      if (!std::isnan(value.f)) {
        ASSERT_EQ(memory, copy) << bits;
      }
      ASSERT_TRUE(same_value(value, load_element(copy.data(), type))) << bits;
    }
  }
  for (DType type : {DType::i8, DType::u8, DType::i16, DType::u16, DType::i32, DType::u32}) {
    std::array<std::byte, 8> memory{};
    store_element(memory.data(), integer_scalar(-3, type));
    EXPECT_EQ(load_element(memory.data(), type).i, integer_scalar(-3, type).i);
  }
}

TEST(Scalar, MaxMinReluPropagateNan) {  // rule 6.2
  EXPECT_TRUE(std::isnan(reals(Op::max, DType::f32, kNan, 1)));
  EXPECT_TRUE(std::isnan(reals(Op::min, DType::f32, 1, kNan)));
  EXPECT_TRUE(std::isnan(real(Op::relu, kNan)));
  EXPECT_TRUE(std::isnan(real(Op::sign, kNan)));
  EXPECT_EQ(real(Op::relu, -3), 0);
  EXPECT_EQ(real(Op::sign, -3), -1);
  EXPECT_FALSE(std::signbit(reals(Op::max, DType::f32, -0.0, 0.0)));
  EXPECT_TRUE(std::signbit(reals(Op::min, DType::f32, 0.0, -0.0)));
}

TEST(Scalar, RoundGoesToEvenAndModKeepsTheDividendsSign) {  // rule 6.2
  EXPECT_EQ(real(Op::round, 2.5), 2);
  EXPECT_EQ(real(Op::round, 3.5), 4);
  EXPECT_EQ(real(Op::round, -0.5), 0);
  EXPECT_EQ(reals(Op::mod, DType::f32, -7.5, 2), -1.5);
  EXPECT_EQ(real(Op::trunc, -2.7), -2);
}

TEST(Scalar, FunctionsAtSpecialValues) {  // rule 6.3
  EXPECT_EQ(real(Op::exp, -kInf), 0);
  EXPECT_EQ(real(Op::exp, 89), kInf);
  EXPECT_EQ(real(Op::log, 0), -kInf);
  EXPECT_TRUE(std::isnan(real(Op::log, -1)));
  EXPECT_EQ(real(Op::tanh, kInf), 1);
  EXPECT_EQ(real(Op::sigmoid, -kInf), 0);
  EXPECT_EQ(real(Op::sigmoid, kInf), 1);
  EXPECT_EQ(real(Op::softplus, 1000), 1000);
  EXPECT_EQ(real(Op::gelu, -kInf), 0);
  EXPECT_EQ(real(Op::rsqrt, 0), kInf);
  EXPECT_EQ(reals(Op::pow, DType::f32, -2, 3), -8);
  EXPECT_TRUE(std::isnan(reals(Op::pow, DType::f32, -2, 0.5)));
  EXPECT_EQ(reals(Op::pow, DType::f32, kNan, 0), 1);
  EXPECT_NEAR(real(Op::gelu, -6, DType::f64), -5.9191e-09, 1e-12);
  EXPECT_NEAR(real(Op::sigmoid, -700, DType::f64), std::exp(-700.0), 1e-310);
}

TEST(Scalar, EveryUnaryFunctionHasAReference) {
  for (const OpInfo& row : operations()) {
    if (row.arity != 1 || row.rule == TypeRule::integral || row.rule == TypeRule::casting) continue;
    bool logical = row.rule == TypeRule::logical || row.rule == TypeRule::predicate;
    std::array<Scalar, 1> x{real_scalar(0.5, DType::f32)};
    DType type = logical ? DType::bool_ : DType::f32;
    EXPECT_EQ(evaluate(row.op, type, x).type, type) << row.name;
  }
}

TEST(Scalar, FmaRoundsOnce) {  // rule 5.7
  auto fma = [](DType type, double a, double b, double c) {
    std::array<Scalar, 3> x{real_scalar(a, type), real_scalar(b, type), real_scalar(c, type)};
    return evaluate(Op::fma, type, x).f;
  };
  double e = 0x1p-23;
  EXPECT_EQ(fma(DType::f32, 1 + e, 1 - e, -1), -e * e);
  EXPECT_EQ(fma(DType::f64, 1 + 0x1p-52, 1 - 0x1p-52, -1), -0x1p-104);
}

TEST(Scalar, UniformIsCounterBasedAndEven) {  // rule 6.4
  EXPECT_EQ(uniform_bits(1, 2), uniform_bits(1, 2));
  EXPECT_NE(uniform_bits(1, 2), uniform_bits(2, 1));
  double sum = 0, product = 0, last = 0;
  constexpr int kCount = 20000;
  for (int i = 0; i < kCount; ++i) {
    std::array<Scalar, 2> x{integer_scalar(7, DType::i64), integer_scalar(i, DType::i64)};
    double u = evaluate(Op::uniform, DType::f32, x).f;
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
    product += (u - 0.5) * (last - 0.5);
    last = u;
  }
  EXPECT_NEAR(sum / kCount, 0.5, 0.01);
  EXPECT_NEAR(product / kCount, 0, 0.003);
}

}  // namespace
}  // namespace tile::test
