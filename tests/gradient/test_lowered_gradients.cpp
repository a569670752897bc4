// Gradients through the tensor-level passes, grouping, the analytic schedule and lowering: the Nest
// interpreter agrees with the reference and does no more work than there are valid points
// (rule 7.5).
#include <algorithm>

#include "core/autodiff/differentiate.h"
#include "core/fusion/group.h"
#include "core/lower/lower.h"
#include "core/nest/passes/nest_passes.h"
#include "core/pipeline/pipeline.h"
#include "core/schedule/space/candidates.h"
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

// The gradient alone, of output O with respect to `wrt`.
BoundProgram bound_gradient(const std::string& text, const std::string& wrt,
                            const std::vector<HostTensor>& inputs) {
  auto source = std::make_shared<const Source>(Source{"gradient.tile", text});
  Program program = differentiate(parse_tile(source), "O", {wrt});
  program.outputs = {program.outputs.back()};
  BoundProgram bound = tile::bind(program, types_of(inputs));
  verify(bound);
  // Without the forward statements, which the gradient of a product does not need.
  std::erase_if(bound.statements, [&](const BoundStatement& s) {
    const auto* c = std::get_if<Contraction>(&s);
    return c == nullptr || c->outputs[0] != bound.outputs[0];
  });
  return bound;
}

struct Lowered {
  HostTensor result;
  nest::NestCounts counts;
  std::vector<Contraction> contractions;
};

// Runs a program of contractions whose last result is its output.
Lowered run_lowered(const BoundProgram& bound, const std::vector<HostTensor>& inputs) {
  BoundProgram program = bound;
  Target target;
  target.device = "cpu";
  run_pipeline(program, target);
  IdVector<TensorId, HostTensor> values;
  for (const BoundTensor& t : program.tensors) values.emplace_back(t.type, t.shape);
  for (size_t i = 0; i < inputs.size(); ++i) {
    values[program.inputs[i]] = inputs[i];
  }
  Lowered lowered;
  for (const Step& step : group(program, target)) {
    const auto& kernel = std::get<Kernel>(step);
    for (const KernelStage& s : kernel.stages) lowered.contractions.push_back(s.contraction);
    nest::Nest nest =
        nest::run_passes(lower(kernel, analytic_schedule(kernel, target), target), target);
    std::vector<HostTensor*> pointers;
    for (TensorId id : kernel.reads) {
      bool written =
          std::find(kernel.writes.begin(), kernel.writes.end(), id) != kernel.writes.end();
      if (!written) pointers.push_back(&values[id]);
    }
    for (TensorId id : kernel.writes) pointers.push_back(&values[id]);
    nest::interpret(nest, pointers, {}, &lowered.counts);
  }
  lowered.result = values[program.outputs[0]];
  return lowered;
}

HostTensor small_integers(Shape shape, int64_t seed) {
  HostTensor t(DType::f32, std::move(shape));
  for (int64_t i = 0; i < t.count(); ++i) {
    t.set(i, integer_scalar((i * 7 + seed) % 5 - 2, DType::f32));
  }
  return t;
}

// Returns how many guards ran.
int64_t expect_exact_work(const std::string& text, const std::vector<HostTensor>& inputs,
                          size_t pieces) {
  BoundProgram bound = bound_gradient(text, "I", inputs);
  Interpretation expected = interpret(bound, inputs);
  Lowered lowered = run_lowered(bound, inputs);
  EXPECT_EQ(lowered.contractions.size(), 1u);
  EXPECT_EQ(lowered.contractions.at(0).pieces.size(), pieces);
  EXPECT_EQ(values_of(lowered.result), values_of(expected.outputs[0]));
  EXPECT_GT(expected.points, 0);
  EXPECT_EQ(lowered.counts.multiply_adds, expected.points);
  return lowered.counts.guards;
}

// The seed's example: stride 3 and dilation 2 in both directions give nine pieces.
TEST(LoweredGradients, StridedDilatedConvolutionDoesTheValidPointsOnly) {
  const std::string text =
      "function (I[N, H, W, CI], K[KH, KW, CI, CO]) -> (O) {"
      " O[n, y, x, co: N, H / 3, W / 3, CO] ="
      " +(I[n, 3 * y + 2 * j, 3 * x + 2 * i, ci] * K[j, i, ci, co]); }";
  int64_t guards =
      expect_exact_work(text,
                        {small_integers({2, 15, 17, 4}, 1), small_integers({3, 4, 4, 8}, 2),
                         small_integers({2, 5, 5, 8}, 3)},
                        9);
  EXPECT_EQ(guards, 0);
}

TEST(LoweredGradients, OneDimensionGivesThreePieces) {
  const std::string text =
      "function (I[H, CI], K[KH, CI, CO]) -> (O) {"
      " O[y, co: H / 3, CO] = +(I[3 * y + 2 * j, ci] * K[j, ci, co]); }";
  expect_exact_work(
      text, {small_integers({31, 4}, 1), small_integers({5, 4, 8}, 2), small_integers({10, 8}, 3)},
      3);
}

}  // namespace
}  // namespace tile::test
