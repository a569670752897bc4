// Rule 6.3: accuracy and special values of the functions of one argument. Every variant must give
// the bits that the first one gives, so the accuracy is measured once.

#include <algorithm>

#include "tests/vector_math/accuracy.h"
#include "tests/vector_math/functions.h"
#include "tests/vector_math/jit.h"

namespace tile::test {
namespace {

class Unary : public testing::TestWithParam<UnaryFunction> {};

template <class T>
Compiled<T, T> compile(const UnaryFunction& f, const Variant& v) {
  Emitter emitter = [&](llvm::IRBuilderBase& ir, llvm::ArrayRef<llvm::Value*> x) {
    return f.emit(ir, x[0]);
  };
  return Compiled<T, T>(emitter, 1, v.cpu, v.lanes);
}

template <class T>
void expect_same_bits(const std::vector<T>& x, const std::vector<T>& a, const std::vector<T>& b,
                      const Variant& v) {
  for (size_t i = 0; i < x.size(); ++i) {
    bool same = bits_of(a[i]) == bits_of(b[i]) || (std::isnan(a[i]) && std::isnan(b[i]));
    ASSERT_TRUE(same) << "x = " << x[i] << ": " << a[i] << " and, with " << v.lanes << " lanes on "
                      << name_of(v.cpu) << ", " << b[i];
  }
}

template <class T>
void check(const UnaryFunction& f, const std::vector<T>& x, Exact<T> (*reference)(Exact<T>),
           double limit) {
  std::vector<T> first = compile<T>(f, variants().front())(x);
  double worst = 0;
  T at = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    double distance = ulp_distance<T>(first[i], reference(x[i]));
    if (distance > worst) {
      worst = distance;
      at = x[i];
    }
  }
  EXPECT_LE(worst, limit) << f.name << "(" << at << ")";
  testing::Test::RecordProperty("max_ulp", std::to_string(worst));
  if (std::getenv("TILE_PRINT_ULP")) {
    std::printf("%s %s max ulp %.3f at %.17g\n", f.name.c_str(), sizeof(T) == 4 ? "f32" : "f64",
                worst, static_cast<double>(at));
  }
  for (const Variant& v : variants()) expect_same_bits(x, first, compile<T>(f, v)(x), v);
}

TEST_P(Unary, Float) {
  std::vector<float> x = float_patterns(0, 4099, SIZE_MAX);
  for (float special : special_values<float>()) x.push_back(special);
  check<float>(GetParam(), x, GetParam().reference, GetParam().single_limit);
}

TEST_P(Unary, Double) {
  check<double>(GetParam(), samples<double>(400'000), GetParam().wide_reference,
                GetParam().double_limit);
}

INSTANTIATE_TEST_SUITE_P(VectorMath, Unary, testing::ValuesIn(unary_functions()),
                         [](const auto& suite) { return suite.param.name; });

}  // namespace
}  // namespace tile::test
