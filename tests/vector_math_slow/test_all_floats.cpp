// Rule 6.3 over all 2^32 floats, in vectors of 16; minutes for each function.

#include "tests/vector_math/accuracy.h"
#include "tests/vector_math/functions.h"
#include "tests/vector_math/jit.h"

namespace tile::test {
namespace {

class AllFloats : public testing::TestWithParam<UnaryFunction> {};

TEST_P(AllFloats, WithinLimit) {
  const UnaryFunction& f = GetParam();
  Compiled<float, float> compiled(
      [&](llvm::IRBuilderBase& ir, llvm::ArrayRef<llvm::Value*> x) { return f.emit(ir, x[0]); }, 1,
      Cpu::Host, 16);
  constexpr uint64_t chunk = 1 << 20;
  double worst = 0;
  float at = 0;
  for (uint64_t first = 0; first < uint64_t{1} << 32; first += chunk) {
    std::vector<float> x = float_patterns(first, 1, chunk);
    std::vector<float> y = compiled(x);
    for (size_t i = 0; i < x.size(); ++i) {
      double distance = ulp_distance<float>(y[i], f.reference(x[i]));
      if (distance > worst) {
        worst = distance;
        at = x[i];
      }
    }
  }
  EXPECT_LE(worst, f.single_limit) << f.name << "(" << at << ")";
  RecordProperty("max_ulp", std::to_string(worst));
  std::printf("%s: max ulp %.4f at %.9g\n", f.name.c_str(), worst, static_cast<double>(at));
}

INSTANTIATE_TEST_SUITE_P(VectorMath, AllFloats, testing::ValuesIn(unary_functions()),
                         [](const auto& suite) { return suite.param.name; });

}  // namespace
}  // namespace tile::test
