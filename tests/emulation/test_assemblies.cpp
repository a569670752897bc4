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

TEST(Assemblies, EachThreadHasWhatItsPieceDoesNotChange) {
  for (int capability : {80, 90}) {
    Target target = h200_target();
    target.gpu.capability = capability;
    std::vector<EmulatedCase> cases;
    for (const RandomCase& program :
         {random_inputs(99, kHalves, {{7}, {7}, {}}), random_inputs(99, kHalves, {{64}, {64}, {}}),
          random_inputs(99, kHalves, {{1000}, {1000}, {}}),
          random_inputs(99, kEdges, {{5, 33}, {}}), random_inputs(99, kEdges, {{3, 2}, {}})}) {
      BoundProgram bound = bind_text(program.text, program.types);
      cases.push_back(lowered(cases.size(), 0, program, std::move(bound), target));
    }
    expect_emulated_agree(cases, target, true);
  }
}

}  // namespace
}  // namespace tile::test
