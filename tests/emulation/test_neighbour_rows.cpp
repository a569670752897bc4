// Row kernels whose rows are neighbours in memory (statistics of an innermost dimension, as a batch
// norm has them), on the emulated GPU beside the reference: blocks of several rows, in clusters
// too.
#include <gtest/gtest.h>

#include "core/schedule/legality/legality.h"
#include "core/schedule/space/candidates.h"
#include "core/schedule/space/gpu_schedule.h"
#include "tests/emulation/cases.h"
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

const char* const kNorm =
    "function (X[N, H, C], G[C], R[N, H, C]) -> (Y, V) {\n"
    "  S[c: C] = +(X[n, h, c]);\n  D = X - S / (N * H);\n  V[c: C] = +(D[n, h, c] * D[n, h, c]);\n"
    "  Y = max(D * rsqrt(V / (N * H) + 0.001) * G + R, 0.0);\n}\n";
const char* const kLargest =
    "function (X[N, C]) -> (P) { T[c: C] = >(X[n, c]); E = exp(X - T); S[c: C] = +(E[n, c]); P = E "
    "/ S; }\n";

TEST(NeighbourRows, AgreeInBlocksAndClusters) {
  const Target target = h200_target();
  std::vector<EmulatedCase> cases;
  size_t several = 0, clusters = 0;
  std::vector<RandomCase> programs{random_inputs(12345, kNorm, {{3, 70, 32}, {32}, {3, 70, 32}}),
                                   random_inputs(12345, kNorm, {{2, 257, 8}, {8}, {2, 257, 8}}),
                                   random_inputs(12345, kLargest, {{300, 64}}),
                                   random_inputs(12345, kLargest, {{1031, 12}})};
  for (const RandomCase& program : programs) {
    for (size_t turn = 0; turn < 4; ++turn) {
      PickSchedule pick = [&](const Kernel& kernel) {
        std::vector<Schedule> list = gpu::line_schedules(kernel, target);
        std::erase_if(list, [&](const Schedule& s) {
          return s.gpu_lines->rows == 1 || (s.gpu_lines->blocks > 1) != (turn % 2 == 1) ||
                 s.gpu_lines->lanes * s.gpu_lines->rows > 512;
        });
        if (list.empty()) return analytic_schedule(kernel, target);
        const Schedule& s = list[turn * 5 % list.size()];
        ++(s.gpu_lines->blocks > 1 ? clusters : several);
        EXPECT_EQ(parse_schedule(print(s)), s);
        return s;
      };
      BoundProgram bound = bind_text(program.text, program.types);
      cases.push_back(lowered(cases.size(), pick, program, std::move(bound), target));
    }
  }
  EXPECT_GE(several, 4U);
  EXPECT_GE(clusters, 4U);
  expect_emulated_agree(cases, target, true);
}

}  // namespace
}  // namespace tile::test
