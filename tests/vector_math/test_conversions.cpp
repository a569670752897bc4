// Rule 5.6: casts truncate, saturate and give 0 for NaN. Rule 5.7: values are rounded once to f16
// and bf16, to nearest even; rule 5.8: to f8.

#include "backends/cpu/math/vector_math.h"
#include "tests/vector_math/accuracy.h"
#include "tests/vector_math/jit.h"

namespace tile::test {
namespace {

using Values = llvm::ArrayRef<llvm::Value*>;

template <class Int, class T>
Int cast(T x) {
  using Limits = std::numeric_limits<Int>;
  if (std::isnan(x)) return 0;
  long double t = std::trunc(static_cast<long double>(x));
  if (t < static_cast<long double>(Limits::min())) return Limits::min();
  if (t > static_cast<long double>(Limits::max())) return Limits::max();
  return static_cast<Int>(t);
}

/// Every integer type's limits and their neighbours among the numbers of T, and a sweep.
template <class T>
std::vector<T> cast_samples() {
  std::vector<T> x = samples<T>(100'000);
  for (int exponent : {7, 8, 15, 16, 31, 32, 63, 64}) {
    for (T sign : {T(1), T(-1)}) {
      T edge = sign * std::ldexp(T(1), exponent);
      x.insert(x.end(), {edge, edge - 1, edge + 1, std::nextafter(edge, T(0)),
                         std::nextafter(edge, 2 * edge), edge - T(0.5), edge + T(0.5)});
    }
  }
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> exponent(-2, 66);
  for (int i = 0; i < 50'000; ++i) x.push_back(T((i % 2 ? 1 : -1) * std::exp2(exponent(random))));
  return x;
}

template <class T, class Int>
void check_cast() {
  std::vector<T> x = cast_samples<T>();
  for (const Variant& v : variants()) {
    Compiled<T, Int> compiled(
        [](llvm::IRBuilderBase& ir, Values in) {
          return cpu::emit_float_to_int(ir, in[0], 8 * sizeof(Int), std::is_signed_v<Int>);
        },
        1, v.cpu, v.lanes);
    std::vector<Int> out = compiled(x);
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(out[i], (cast<Int, T>(x[i]))) << x[i] << " to " << 8 * sizeof(Int) << " bits, "
                                              << v.lanes << " lanes on " << name_of(v.cpu);
    }
  }
}

template <class Int>
class Casts : public testing::Test {};
using Types =
    testing::Types<int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t>;
TYPED_TEST_SUITE(Casts, Types);
TYPED_TEST(Casts, FromFloat) { check_cast<float, TypeParam>(); }
TYPED_TEST(Casts, FromDouble) { check_cast<double, TypeParam>(); }

/// A 16-bit format, from its definition.
struct Small {
  int digits;        // of the significand, the leading one included
  int min_exponent;  // of the smallest normal number
  int max_exponent;  // of the largest number
};
constexpr Small half{11, -14, 15};
constexpr Small bfloat{8, -126, 127};

double value_of(uint16_t bits, Small format) {
  int fraction_bits = format.digits - 1;
  int fraction = bits & ((1 << fraction_bits) - 1);
  int exponent = (bits & 0x7fff) >> fraction_bits;
  double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == (0x7fff >> fraction_bits)) {
    return fraction ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, format.min_exponent - fraction_bits);
  return sign * std::ldexp(fraction + (1 << fraction_bits),
                           exponent - 1 + format.min_exponent - fraction_bits);
}

double rounded(double x, Small format) {
  if (x == 0 || !std::isfinite(x)) return x;
  int exponent = std::max(std::ilogb(x), format.min_exponent) - (format.digits - 1);
  double r = std::ldexp(std::nearbyint(std::ldexp(x, -exponent)), exponent);
  if (std::fabs(r) < std::ldexp(1.0, format.max_exponent + 1)) return r;
  return std::copysign(std::numeric_limits<double>::infinity(), x);
}

using Narrow = std::function<llvm::Value*(llvm::IRBuilderBase&, llvm::Value*)>;

template <class T>
void check_narrowing(const Narrow& emit, Small format, Cpu cpu, const std::vector<T>& x) {
  for (unsigned lanes : {1u, 8u, 16u}) {
    Compiled<T, uint16_t> compiled(
        [&](llvm::IRBuilderBase& ir, Values in) { return emit(ir, in[0]); }, 1, cpu, lanes);
    std::vector<uint16_t> out = compiled(x);
    for (size_t i = 0; i < x.size(); ++i) {
      double want = rounded(x[i], format), got = value_of(out[i], format);
      bool right = std::isnan(want) ? std::isnan(got)
                                    : want == got && std::signbit(want) == std::signbit(got);
      ASSERT_TRUE(right) << x[i] << " gives " << got << ", not " << want << ", " << lanes
                         << " lanes on " << name_of(cpu);
    }
  }
}

/// Doubles at and beside the ties of a 16-bit format, where rounding twice would go wrong.
std::vector<double> near_ties(Small format) {
  std::vector<double> x;
  for (uint32_t bits = 0; bits < 0x7fff; bits += 7) {
    double low = value_of(static_cast<uint16_t>(bits), format);
    double high = value_of(static_cast<uint16_t>(bits + 1), format);
    if (!std::isfinite(low) || !std::isfinite(high)) continue;
    double tie = (low + high) / 2;
    for (double y : {tie, std::nextafter(tie, 0.0), std::nextafter(tie, high), low}) {
      x.push_back(y);
      x.push_back(-y);
    }
  }
  return x;
}

void check_format(const Narrow& emit, Small format, Cpu cpu) {
  std::vector<float> singles = float_patterns(0, 4099, SIZE_MAX);
  for (float special : special_values<float>()) singles.push_back(special);
  check_narrowing<float>(emit, format, cpu, singles);
  std::vector<double> doubles = near_ties(format);
  for (double y : samples<double>(100'000)) doubles.push_back(y);
  check_narrowing<double>(emit, format, cpu, doubles);
}

void check_widening(const Narrow& emit, Small format, Cpu cpu) {
  std::vector<uint16_t> all(1 << 16);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  for (unsigned lanes : {1u, 8u, 16u}) {
    Compiled<uint16_t, float> compiled(
        [&](llvm::IRBuilderBase& ir, Values in) { return emit(ir, in[0]); }, 1, cpu, lanes);
    std::vector<float> out = compiled(all);
    for (size_t i = 0; i < all.size(); ++i) {
      double want = value_of(all[i], format);
      bool right = std::isnan(want) ? std::isnan(out[i])
                                    : want == out[i] && std::signbit(want) == std::signbit(out[i]);
      ASSERT_TRUE(right) << "bits " << i << " give " << out[i] << ", not " << want;
    }
  }
}

TEST(SmallFormats, BfloatRoundsOnce) {
  for (Cpu cpu : {Cpu::Host, Cpu::Avx2}) check_format(cpu::emit_bf16_from_float, bfloat, cpu);
}
TEST(SmallFormats, BfloatWidens) {
  for (Cpu cpu : {Cpu::Host, Cpu::Avx2}) check_widening(cpu::emit_float_from_bf16, bfloat, cpu);
}

/// Hardware where there is F16C, integers everywhere.
std::vector<std::pair<Cpu, cpu::HalfConversion>> half_variants() {
  return {{Cpu::Host, cpu::HalfConversion::Hardware},
          {Cpu::Avx2, cpu::HalfConversion::Hardware},
          {Cpu::Host, cpu::HalfConversion::Integer},
          {Cpu::Avx2WithoutF16c, cpu::HalfConversion::Integer}};
}
TEST(SmallFormats, HalfRoundsOnce) {
  for (auto [cpu, how] : half_variants()) {
    check_format([how = how](llvm::IRBuilderBase& ir,
                             llvm::Value* x) { return cpu::emit_f16_from_float(ir, x, how); },
                 half, cpu);
  }
}
TEST(SmallFormats, HalfWidens) {
  for (auto [cpu, how] : half_variants()) {
    check_widening([how = how](llvm::IRBuilderBase& ir,
                               llvm::Value* x) { return cpu::emit_float_from_f16(ir, x, how); },
                   half, cpu);
  }
}

/// An 8-bit format, from its definition: with infinities as IEEE has them, or with one NaN alone.
struct Tiny {
  cpu::F8Format format;
  Small digits;
  bool infinities;
  double largest;
};
constexpr Tiny kTiny[] = {{cpu::kF8E4M3, {4, -6, 8}, false, 448},
                          {cpu::kF8E5M2, {3, -14, 15}, true, 57344}};

double value_of(uint8_t bits, const Tiny& tiny) {
  int fraction_bits = tiny.digits.digits - 1;
  int magnitude = bits & 0x7f, exponent = magnitude >> fraction_bits;
  int fraction = magnitude & ((1 << fraction_bits) - 1);
  double sign = bits & 0x80 ? -1 : 1;
  if (tiny.infinities && exponent == 0x7f >> fraction_bits) {
    return fraction ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  }
  if (!tiny.infinities && magnitude == 0x7f) return std::nan("");
  if (exponent == 0) return sign * std::ldexp(fraction, tiny.digits.min_exponent - fraction_bits);
  return sign * std::ldexp(fraction + (1 << fraction_bits),
                           exponent - 1 + tiny.digits.min_exponent - fraction_bits);
}

double rounded(double x, const Tiny& tiny) {
  if (x == 0 || std::isnan(x)) return x;
  double beyond = tiny.infinities ? std::numeric_limits<double>::infinity() : std::nan("");
  if (std::isinf(x)) return std::copysign(beyond, x);
  int exponent = std::max(std::ilogb(x), tiny.digits.min_exponent) - (tiny.digits.digits - 1);
  double r = std::ldexp(std::nearbyint(std::ldexp(x, -exponent)), exponent);
  return std::fabs(r) <= tiny.largest ? r : std::copysign(beyond, x);
}

bool same(double want, double got) {
  return std::isnan(want) ? std::isnan(got)
                          : want == got && std::signbit(want) == std::signbit(got);
}

template <class T>
void check_tiny(const Tiny& tiny, Cpu cpu, std::vector<T> x) {
  for (int bits = 0; bits < 256; ++bits) {
    double low = value_of(static_cast<uint8_t>(bits), tiny);
    double high = value_of(static_cast<uint8_t>((bits + 1) & 0xff), tiny);
    T tie = static_cast<T>((low + high) / 2);
    for (T y : {static_cast<T>(low), tie, std::nextafter(tie, T(0)), std::nextafter(tie, 2 * tie)})
      x.push_back(y);
  }
  for (double y : {448.0, 463.999, 464.0, 464.001, 480.0, 61439.0, 61440.0, 65536.0, 1e30})
    x.insert(x.end(), {static_cast<T>(y), static_cast<T>(-y)});
  for (unsigned lanes : {1u, 8u, 16u}) {
    Compiled<T, uint8_t> compiled(
        [&](llvm::IRBuilderBase& ir, Values in) {
          return cpu::emit_f8_from_float(ir, in[0], tiny.format);
        },
        1, cpu, lanes);
    std::vector<uint8_t> out = compiled(x);
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_TRUE(same(rounded(x[i], tiny), value_of(out[i], tiny)))
          << x[i] << " gives " << value_of(out[i], tiny) << ", not " << rounded(x[i], tiny) << ", "
          << lanes << " lanes on " << name_of(cpu);
    }
  }
}

TEST(SmallFormats, EightBitsRoundOnce) {
  for (const Tiny& tiny : kTiny) {
    for (Cpu cpu : {Cpu::Host, Cpu::Avx2, Cpu::Avx2WithoutF16c}) {
      std::vector<float> singles = float_patterns(0, 4099, SIZE_MAX);
      for (float special : special_values<float>()) singles.push_back(special);
      check_tiny<float>(tiny, cpu, std::move(singles));
      check_tiny<double>(tiny, cpu, samples<double>(100'000));
    }
  }
}
TEST(SmallFormats, EightBitsWiden) {
  std::vector<uint8_t> all(256);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint8_t>(i);
  for (const Tiny& tiny : kTiny) {
    for (unsigned lanes : {1u, 8u, 16u}) {
      Compiled<uint8_t, float> compiled(
          [&](llvm::IRBuilderBase& ir, Values in) {
            return cpu::emit_float_from_f8(ir, in[0], tiny.format);
          },
          1, Cpu::Host, lanes);
      std::vector<float> out = compiled(all);
      for (size_t i = 0; i < all.size(); ++i) {
        ASSERT_TRUE(same(value_of(all[i], tiny), out[i])) << i << " gives " << out[i];
      }
    }
  }
}

}  // namespace
}  // namespace tile::test
