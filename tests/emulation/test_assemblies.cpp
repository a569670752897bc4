// Sums whose terms have values in different cells are one statement with a piece for each, and on a
// GPU one launch. What does not change in a piece is computed by each of its threads.
#include <gtest/gtest.h>

#include "tests/emulation/cases.h"
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

const char* const kHalves =
    "function (X[N], Y[N], P) -> (O) {\n"
    "  A[i: 2 * N] = +(X[i] / (exp(P[]) + 1.5));\n  B[i + N: 2 * N] = +(Y[i] / (tanh(P[]) + "
    "2.5));\n"
    "  O = A + B;\n}\n";
const char* const kEdges =
    "function (X[H, W], P) -> (O) {\n"
    "  A[0, x: H, W] = +(X[1, x] / (exp(P[]) + 1.5));\n"
    "  B[H - 1, x: H, W] = +(X[0, x] / (tanh(P[]) + 2.5));\n  O = A + B;\n}\n";

RandomCase drawn(const std::string& text, const std::vector<Shape>& shapes) {
  RandomCase c;
  c.text = text;
  uint64_t state = 99;
  for (const Shape& shape : shapes) {
    HostTensor t(DType::f32, shape);
    for (int64_t i = 0; i < t.count(); ++i) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      t.set(i, real_scalar(static_cast<double>(state >> 40) / (1 << 23) - 1, DType::f32));
    }
    c.types.push_back({DType::f32, shape});
    c.inputs.push_back(std::move(t));
  }
  return c;
}

TEST(Assemblies, EachThreadHasWhatItsPieceDoesNotChange) {
  for (const char* features : {"sm_80", "sm_90a"}) {
    Target target = h200_target();
    if (std::string(features) == "sm_80") target.gpu.capability = 80;
    std::vector<EmulatedCase> cases;
    for (const RandomCase& program :
         {drawn(kHalves, {{7}, {7}, {}}), drawn(kHalves, {{64}, {64}, {}}),
          drawn(kHalves, {{1000}, {1000}, {}}), drawn(kEdges, {{5, 33}, {}}),
          drawn(kEdges, {{3, 2}, {}})}) {
      BoundProgram bound = bind_text(program.text, program.types);
      cases.push_back(lowered(cases.size(), 0, program, std::move(bound), target));
    }
    expect_emulated_agree(cases, target, true);
  }
}

}  // namespace
}  // namespace tile::test
