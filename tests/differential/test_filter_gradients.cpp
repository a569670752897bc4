// Gradients of random MFG programs with tuples and folds: the compiled code agrees with the
// reference interpreter (issue 6, item 5).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/autodiff/differentiate.h"
#include "core/language/mfg/mfg.h"
#include "tests/executors/run_backends.h"
#include "tests/random/random_filter.h"
#include "tests/random/sweep.h"

namespace tile::test {
namespace {

void expect_close(const std::vector<HostTensor>& expected, const std::vector<HostTensor>& got) {
  ASSERT_EQ(expected.size(), got.size());
  for (size_t o = 0; o < got.size(); ++o) {
    ASSERT_EQ(expected[o].shape, got[o].shape);
    auto at = [&](const HostTensor& t, int64_t i) { return convert(t.at(i), DType::f64).f; };
    double largest = 1;
    for (int64_t i = 0; i < expected[o].count(); ++i) {
      if (std::isfinite(at(expected[o], i)))
        largest = std::max(largest, std::abs(at(expected[o], i)));
    }
    for (int64_t i = 0; i < expected[o].count(); ++i) {
      double x = at(expected[o], i), y = at(got[o], i);
      bool close = std::isnan(x) ? std::isnan(y) : x == y || std::abs(x - y) <= 1e-4 * largest;
      ASSERT_TRUE(close) << "output " << o << ", element " << i << ": expected " << x << ", got "
                         << y;
    }
  }
}

std::vector<InputType> types_of(const Program& program, const std::vector<HostTensor>& inputs) {
  std::vector<InputType> types;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& t = program.tensors[program.inputs[i]];
    types.push_back({inputs[i].type, inputs[i].shape, std::nullopt});
    if (t.parameter && is_integer(inputs[i].type)) types.back().value = inputs[i].at(0).i;
  }
  return types;
}

TEST(FilterGradients, CompiledCodeAgrees) {
  std::shared_ptr<Engine> engine = test_engine("cpu");
  for (uint64_t seed : sweep(500, 30, 10)) {
    std::string text = random_filter(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + ":\n" + text);
    auto source = std::make_shared<const Source>(Source{"random.mfg", text});
    try {
      auto program = std::make_shared<const Program>(
          differentiate(parse_mfg(source), "result_f32", {"input_f32", "p"}));
      // The seed has the shape of the picture.
      std::vector<HostTensor> inputs = filter_inputs(seed, *program, {5, 19}, false);
      std::vector<InputType> types = types_of(*program, inputs);
      for (const Laid& laid : {dense_layouts(types, inputs), random_layouts(seed, types, inputs)}) {
        SCOPED_TRACE(described(laid));
        std::shared_ptr<Executable> e = compile(engine, program, laid.layouts);
        std::vector<HostTensor> expected = interpret(e->bound, laid.inputs).outputs;
        expect_close(expected, run_nests(*e, laid.inputs));
        expect_close(expected, run_code(*e, laid.inputs));
      }
    } catch (const Failure& f) {
      ADD_FAILURE() << to_string(f.diagnostic().stage) << ": " << f.what();
    } catch (const InternalError& error) {
      ADD_FAILURE() << error.what();
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace tile::test
