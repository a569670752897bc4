// Rule 5.5: integer division, remainder and shifts never trap.

#include <random>

#include "backends/cpu/math/vector_math.h"
#include "tests/vector_math/jit.h"

namespace tile::test {
namespace {

template <class T>
class Integers : public testing::Test {};
using Types =
    testing::Types<int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t>;
TYPED_TEST_SUITE(Integers, Types);

template <class T>
struct Rules {
  using U = std::make_unsigned_t<T>;
  static constexpr bool is_signed = std::is_signed_v<T>;
  static constexpr int width = 8 * sizeof(T);

  static T div(T a, T b) {
    if (b == 0) return 0;
    if (is_signed && b == T(-1)) return static_cast<T>(U(0) - static_cast<U>(a));
    return static_cast<T>(a / b);
  }
  static T rem(T a, T b) {
    if (b == 0 || (is_signed && b == T(-1))) return 0;
    return static_cast<T>(a % b);
  }
  static T left(T a, T b) {
    if (static_cast<U>(b) >= width) return 0;
    return static_cast<T>(static_cast<uint64_t>(a) << static_cast<U>(b));
  }
  static T right(T a, T b) {
    if (static_cast<U>(b) >= width) return is_signed && a < 0 ? T(-1) : T(0);
    return static_cast<T>(a >> static_cast<U>(b));
  }
};

template <class T>
void operands(std::vector<T>& a, std::vector<T>& b) {
  using Limits = std::numeric_limits<T>;
  std::vector<T> special{0,
                         1,
                         2,
                         3,
                         7,
                         8,
                         15,
                         16,
                         31,
                         32,
                         33,
                         63,
                         64,
                         100,
                         T(-1),
                         T(-2),
                         T(-7),
                         Limits::min(),
                         Limits::max(),
                         Limits::max() - 1,
                         static_cast<T>(Limits::min() + 1),
                         static_cast<T>(Limits::max() / 2)};
  for (T x : special) {
    for (T y : special) {
      a.push_back(x);
      b.push_back(y);
    }
  }
  std::mt19937_64 random(5);
  for (int i = 0; i < 20'000; ++i) {
    T y = static_cast<T>(random() >> (random() % 64));
    // Exact multiples and their neighbours are where a rounded quotient would fail.
    T multiple = static_cast<T>(static_cast<uint64_t>(y) * (random() >> (random() % 64)));
    a.push_back(i % 2 ? static_cast<T>(random()) : static_cast<T>(multiple - i / 2 % 3));
    b.push_back(y);
  }
}

template <class T>
void check(const char* name, const Emitter& emitter, T (*rule)(T, T)) {
  std::vector<T> a, b;
  operands(a, b);
  for (const Variant& v : variants()) {
    std::vector<T> out = Compiled<T, T>(emitter, 2, v.cpu, v.lanes)(a, b);
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(out[i], rule(a[i], b[i])) << name << " of " << +a[i] << " and " << +b[i] << ", "
                                          << v.lanes << " lanes on " << name_of(v.cpu);
    }
  }
}

using Values = llvm::ArrayRef<llvm::Value*>;

TYPED_TEST(Integers, Quotient) {
  using R = Rules<TypeParam>;
  check<TypeParam>(
      "div",
      [](llvm::IRBuilderBase& ir, Values v) {
        return cpu::emit_int_div(ir, v[0], v[1], R::is_signed);
      },
      R::div);
}

TYPED_TEST(Integers, Remainder) {
  using R = Rules<TypeParam>;
  check<TypeParam>(
      "rem",
      [](llvm::IRBuilderBase& ir, Values v) {
        return cpu::emit_int_rem(ir, v[0], v[1], R::is_signed);
      },
      R::rem);
}

TYPED_TEST(Integers, ConstantDivisors) {
  using R = Rules<TypeParam>;
  for (int divisor : {-7, -1, 0, 1, 3, 10, 16}) {
    auto constant = [&](llvm::Value* like) {
      return llvm::ConstantInt::get(like->getType(), static_cast<uint64_t>(divisor), true);
    };
    std::vector<TypeParam> a, b;
    operands(a, b);
    for (const Variant& v : variants()) {
      Compiled<TypeParam, TypeParam> quotient(
          [&](llvm::IRBuilderBase& ir, Values x) {
            return cpu::emit_int_div(ir, x[0], constant(x[0]), R::is_signed);
          },
          1, v.cpu, v.lanes);
      Compiled<TypeParam, TypeParam> remainder(
          [&](llvm::IRBuilderBase& ir, Values x) {
            return cpu::emit_int_rem(ir, x[0], constant(x[0]), R::is_signed);
          },
          1, v.cpu, v.lanes);
      std::vector<TypeParam> q = quotient(a), r = remainder(a);
      for (size_t i = 0; i < a.size(); ++i) {
        ASSERT_EQ(q[i], R::div(a[i], static_cast<TypeParam>(divisor))) << +a[i] << "/" << divisor;
        ASSERT_EQ(r[i], R::rem(a[i], static_cast<TypeParam>(divisor))) << +a[i] << "%" << divisor;
      }
    }
  }
}

TYPED_TEST(Integers, Shifts) {
  using R = Rules<TypeParam>;
  check<TypeParam>(
      "<<", [](llvm::IRBuilderBase& ir, Values v) { return cpu::emit_shift_left(ir, v[0], v[1]); },
      R::left);
  check<TypeParam>(
      ">>",
      [](llvm::IRBuilderBase& ir, Values v) {
        return cpu::emit_shift_right(ir, v[0], v[1], R::is_signed);
      },
      R::right);
}

}  // namespace
}  // namespace tile::test
