// Vectors over the pairs of two parallel dimensions, compiled: lanes that pick from what is read
// for them all.
#include <gtest/gtest.h>

#include "core/fusion/group.h"
#include "core/kernel/geometry.h"
#include "core/kernel/schedule.h"
#include "core/language/tile/tile.h"
#include "core/lower/lower.h"
#include "core/nest/passes/nest_passes.h"
#include "core/passes/bind/bind.h"
#include "core/pipeline/pipeline.h"
#include "core/schedule/space/candidates.h"
#include "tests/cpu/nests.h"
#include "tests/support/random_schedule.h"
#include "tests/support/run_tile.h"

namespace tile::cpu {
namespace {

// Lane l reads at `outer` * (l / length) + `inner` * (l % length), all lanes and some; stores so.
TEST(CpuJoinedLanes, PlacesOfPairs) {
  for (const char* type : {"f32", "u8", "bool"}) {
    for (int length : {3, 4}) {
      for (auto [outer, inner] :
           {std::pair{1, 0}, {0, 1}, {4, 0}, {8, 1}, {2, -1}, {1, 5}, {40, 1}}) {
        std::string t(type), n = std::to_string(length);
        std::string place = "40 + k + " + std::to_string(outer) + "*floordiv(l, " + n + ") + " +
                            std::to_string(inner) + "*mod(l, " + n + ")";
        SCOPED_TRACE(t + " " + place);
        std::string load = "{ %0:" + t + " = load 0; yield %0 }";
        std::string nest =
            "nest pairs\nargument X: " + t + " [400] strides [1]\nargument Z: " + t +
            " [3, 4, 16] strides [64, 16, 1] written\nargument W: " + t +
            " [400] strides [1] written\nserial k from [0] extent [4] {\n" +
            "vector l from [0] extent [16] width 16 { assign Z[0, k, l] (X[" + place + "]) " +
            load + " }\nvector l from [0] extent [13] width 16 { assign Z[1, k, l] (X[" + place +
            "]) " + load +
            " }\nvector l from [0] extent [16] width 16 { if [l + k - 5] { assign Z[2, k, l] (X[" +
            place + "]) " + load + " } }\n}\n" +
            "serial k from [0] extent [1] {\nvector l from [0] extent [15] width 16 { assign W[" +
            place + "] (X[l]) " + load + " }\n}\n";
        expect_as_interpreted(nest);
      }
    }
  }
}

// A dense tensor of whole groups, whose components unrolled loops name.
TEST(CpuJoinedLanes, ComponentsOfGroups) {
  for (int components : {2, 3, 4}) {
    std::string n = std::to_string(components), g = std::to_string(16 / components);
    std::string lanes = std::to_string(16 / components * components);
    expect_as_interpreted(
        "nest groups\nargument X: f32 [5, 8, " + n + "] strides [" +
        std::to_string(8 * components) + ", " + n + ", 1]\nargument Z: f32 [5, " + n +
        ", 16] strides [" + std::to_string(16 * components) +
        ", 16, 1] written\nserial y from [0] extent [5] {\nunrolled c from [0] extent [" + n +
        "] {\nvector l from [0] extent [" + lanes +
        "] width 16 { assign Z[y, c, l] (X[y, floordiv(l, " + n +
        "), c]) { %0:f32 = load 0; yield %0 } }\n}\n}\n");
  }
}

// Random schedules of whole programs.
TEST(CpuJoinedLanes, RandomSchedules) {
  constexpr const char* kGrouped =
      "function (I[H, W, G, C], K[3, 3, G, C, D]) -> (O) {"
      "  O[y, x, g, d: H, W, G, D] = +(I[y + j - 1, x + i - 1, g, c] * K[j, i, g, c, d]); }";
  constexpr const char* kProducts =
      "function (A[B, M, L], W[B, L, N]) -> (C) { C[b, i, j: B, M, N] = +(A[b, i, k] * W[b, k, "
      "j]); }";
  struct Case {
    const char* text;
    std::vector<Shape> shapes;
  };
  int joined = 0;
  for (const Case& c :
       {Case{kGrouped, {{4, 5, 6, 4}, {3, 3, 6, 4, 4}}},
        Case{kGrouped, {{3, 4, 5, 2}, {3, 3, 5, 2, 3}}}, Case{kProducts, {{7, 3, 4}, {7, 4, 3}}}}) {
    std::vector<InputType> types;
    for (const Shape& shape : c.shapes) types.push_back({DType::f32, shape});
    BoundProgram program = test::bind_text(c.text, types);
    Target target;
    target.device = "cpu";
    target.vector_bits = 512;
    target.vector_registers = 32;
    run_pipeline(program, target);
    const auto kernel = std::get<Kernel>(group(program, target).at(0));
    int tried = 0;
    for (uint64_t seed = 1; tried < 4 && seed < 1000; ++seed) {
      Schedule schedule = random_schedule(kernel, target, seed);
      if (!joins_lanes(schedule.stages[0][0])) continue;
      SCOPED_TRACE(print(schedule));
      nest::Nest nest = nest::run_passes(lower(kernel, schedule, target), target);
      expect_as_interpreted(nest, small_integers(nest, seed), {.targets = {"native"}});
      ++tried;
    }
    joined += tried;
    nest::Nest nest =
        nest::run_passes(lower(kernel, analytic_schedule(kernel, target), target), target);
    expect_as_interpreted(nest, small_integers(nest, 1));
  }
  EXPECT_EQ(joined, 12);
}

}  // namespace
}  // namespace tile::cpu
