// The loops of folds in printed kernels. ptxas (of CUDA 13.0) lets `for (n = -r; n < r + 1; ++n)`
// run once where it knows nothing of r, so that loops with a computed first value count from zero;
// a difference of bounds that no int holds must not overflow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/cuda/source.h"
#include "core/fusion/group.h"
#include "core/language/mfg/mfg.h"
#include "core/lower/lower.h"
#include "core/nest/nest.h"
#include "core/passes/bind/bind.h"
#include "core/pipeline/pipeline.h"
#include "core/schedule/space/candidates.h"
#include "runtime/engine/parameters.h"

namespace tile::test {
namespace {

using ::testing::ContainsRegex;
using ::testing::Not;

std::string cuda_text(const std::string& filter) {
  Target target = h200_target();
  Program program = parse_mfg(std::make_shared<const Source>(Source{"fold.mfg", filter}));
  std::vector<InputType> types;
  for (const std::optional<HostTensor>& value : input_defaults(program)) {
    types.push_back(value ? InputType{value->type, value->shape} : InputType{DType::f32, {16, 16}});
  }
  BoundProgram bound = tile::bind(program, types);
  run_pipeline(bound, target);
  std::string text;
  for (const Step& step : group(bound, target)) {
    const Kernel& kernel = std::get<Kernel>(step);
    nest::Nest nest = lower(kernel, analytic_schedule(kernel, target), target);
    text += cuda::print_cuda(nest::partition(std::move(nest)), target).text;
  }
  return text;
}

const std::string kInput = "let s = sampler<input_f32>(address=.ClampToEdge)\n";
std::string filter(const std::string& range) {
  return "def result_f32 |x, y| { reduce(init=s(x, y), " + range +
         ")|i, a| { a*0.5 + s(x + i, y) } }\n";
}

TEST(FoldText, ComputedFirstValuesAreCountedFromZero) {
  for (const char* limits : {", min=1, max=9", ", min=0, max=2147483000"}) {
    std::string parameter =
        std::string("@param_i32 r(SLIDER, label=\"r\"") + limits + ", init=2)\n";
    std::string text = cuda_text(parameter + kInput + filter("-r..<r+1"));
    EXPECT_THAT(text, ContainsRegex("for \\(unsigned n[0-9]+ = 0; n[0-9]+ < \\(unsigned\\)\\("));
    EXPECT_THAT(text, Not(ContainsRegex("for \\(int n[0-9]+ = \\(int\\)v")));
  }
}

TEST(FoldText, LiteralFirstValuesStay) {
  std::string text = cuda_text("@param_i32 r(SLIDER, label=\"r\", min=1, max=9, init=2)\n" +
                               kInput + filter("0..<r"));
  EXPECT_THAT(text, ContainsRegex("for \\(int n[0-9]+ = "));
  EXPECT_THAT(text, Not(ContainsRegex("for \\(unsigned n")));
}

}  // namespace
}  // namespace tile::test
