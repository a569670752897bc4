// Temporaries stored in the order in which products find their rows, columns and terms together.
#include <gtest/gtest.h>

#include "core/interpret/interpret.h"
#include "core/pipeline/pipeline.h"
#include "tests/support/run_tile.h"
#include "tests/support/small_integers.h"

namespace tile::test {
namespace {

// Small products are worth a change: one multiprocessor, and slow tensor cores.
Target slow() {
  Target t = h200_target();
  t.strict_skip = false;
  t.gpu.multiprocessors = 1;
  t.gpu.launch_ns = 0;
  t.gpu.matrix_per_ns = 1;
  return t;
}

// After all passes but the named one, with the values of the program's definition.
BoundProgram ordered(const std::string& text, const std::vector<InputType>& types,
                     const std::string& skip = "") {
  BoundProgram program = bind_text(text, types);
  std::vector<HostTensor> inputs = small_integers(types);
  Interpretation expected = interpret(program, inputs);
  PipelineOptions options;
  if (!skip.empty()) options.passes.skip = {skip};
  run_pipeline(program, slow(), options);
  Interpretation got = interpret(program, inputs);
  for (size_t i = 0; i < expected.outputs.size(); ++i) {
    EXPECT_EQ(got.outputs[i].bytes, expected.outputs[i].bytes) << print(program);
  }
  return program;
}

Shape shape_of(const BoundProgram& program, const std::string& name) {
  for (const BoundTensor& t : program.tensors) {
    if (t.name == name) return t.shape;
  }
  return {};
}

const std::vector<InputType> kTypes{{DType::bf16, {2, 64, 48}}, {DType::bf16, {48, 3, 6, 40}}};
constexpr const char* kProjection =
    "  P[n, p, h, l, e: N, 3, H, L, E] = +(X[n, l, c] * W[c, p, h, e]);";

std::string projected(const std::string& outputs, const std::string& readers) {
  return "function (X[N, L, C], W[C, 3, H, E]) -> (" + outputs + ") {" + kProjection + readers +
         "}";
}

// Heads of 40 columns are no tiles, all heads together are.
TEST(OrderDimensions, MakersAndReadersOfEveryKindFollow) {
  std::string text = projected("Q, K, V, S",
                               "  Q[n, h, l, e: N, H, L, E] = =(P[n, 0, h, l, e]);"
                               "  K[n, h, l, e: N, H, L, E] = =(P[n, 1, h, l, e]);"
                               "  V[n, h, l, e: N, H, L, E] = =(P[n, 2, h, l, e]);"
                               "  S[p, h, e: 3, H, E] = +(P[n, p, h, l, e]);");
  EXPECT_EQ(shape_of(ordered(text, kTypes), "P"), (Shape{2, 64, 3, 6, 40}));
  EXPECT_EQ(shape_of(ordered(text, kTypes, "order-dimensions"), "P"), (Shape{2, 3, 6, 64, 40}));
}

TEST(OrderDimensions, TensorsThatOthersSeeStay) {
  EXPECT_EQ(shape_of(ordered(projected("P", ""), kTypes), "P"), (Shape{2, 3, 6, 64, 40}));
  std::string view = projected("R",
                               "  F = reshape(P, N * 3 * H, L, E);"
                               "  R[l, e: L, E] = +(F[m, l, e]);");
  EXPECT_EQ(shape_of(ordered(view, kTypes), "P"), (Shape{2, 3, 6, 64, 40}));
}

}  // namespace
}  // namespace tile::test
