// Operations on run-time scalars and on lanes whose values are numbers stand in the function's
// scope, and so do the vectors that they make of scalars: inside loops and conditions they were
// once made where they were first needed, behind their use.
#include <gtest/gtest.h>

#include "tests/cpu/nests.h"

namespace tile::cpu {
namespace {

struct Settled {
  const char* name;
  const char* type;  // of the result
  const char* body;
};

// P is a scalar of the run, l the lane.
constexpr Settled kBodies[] = {
    {"then is uniform", "f32",
     "%0:f32 = load 0; %1:i64 = size [l]; %2:i64 = int 3; %3:bool = lt %1 %2; %4:f32 = real 1; "
     "%5:f32 = select %3 %0 %4; yield %5"},
    {"else is uniform", "f32",
     "%0:f32 = load 0; %1:i64 = size [l]; %2:i64 = int 3; %3:bool = lt %1 %2; %4:f32 = real 1; "
     "%5:f32 = select %3 %4 %0; yield %5"},
    {"both are uniform", "f32",
     "%0:f32 = load 0; %1:i64 = size [l]; %2:i64 = int 3; %3:bool = lt %1 %2; %4:f32 = neg %0; "
     "%5:f32 = select %3 %4 %0; yield %5"},
    {"the test is uniform", "f32",
     "%0:f32 = load 0; %1:f32 = size [l]; %2:f32 = real 0.5; %3:bool = lt %0 %2; "
     "%4:f32 = select %3 %1 %2; yield %4"},
    {"arithmetic", "f32",
     "%0:f32 = load 0; %1:f32 = size [l]; %2:f32 = add %0 %1; %3:f32 = mul %2 %0; "
     "%4:f32 = max %3 %1; %5:f32 = fma %4 %0 %1; yield %5"},
    {"a comparison", "bool", "%0:f32 = load 0; %1:f32 = size [l]; %2:bool = ge %1 %0; yield %2"},
    {"integers", "i32",
     "%0:f32 = load 0; %1:i32 = cast %0; %2:i32 = size [l]; %3:i32 = add %1 %2; "
     "%4:i32 = div %3 %2; %5:i32 = bit_xor %4 %1; yield %5"},
    {"narrow results", "bf16",
     "%0:f32 = load 0; %1:f32 = size [l]; %2:f32 = sub %1 %0; %3:bf16 = cast %2; yield %3"},
    {"a loop's start, step and bound", "f32",
     "%0:f32 = load 0; %1:f32 = size [l]; %2:i64 = int 0; %3:i64 = cast %0; %4:i64 = int 2; "
     "%5:i64 = add %3 %4; %6 = fold add 1 %2 %5 %0 %1 %0 [t] { %0:f32 = argument 2; "
     "%1:f32 = argument 3; %2:f32 = mul %0 %1; yield %2 }; %7:f32 = component 0 %6; yield %7"},
};

std::string nest_of(const Settled& s, int lanes) {
  std::string store = "assign Z[i, l] (P[]) { " + std::string(s.body) + " }";
  std::string vector =
      "vector l from [0] extent [" + std::to_string(lanes) + "] width 16 { " + store + " }";
  return "nest settled\nargument P: f32 [] strides []\nargument Z: " + std::string(s.type) +
         " [9, 16] strides [16, 1] written\n" +
         "serial j from [0] extent [3] { serial i from [3*j] extent [3] { if [i - 1] {\n" + vector +
         "\n} else {\n" + vector + "\n} } }\n";
}

TEST(CpuSettled, StandBeforeTheirUses) {
  for (const Settled& s : kBodies) {
    for (int lanes : {16, 13}) {
      SCOPED_TRACE(std::string(s.name) + ", " + std::to_string(lanes) + " lanes");
      expect_as_interpreted(nest_of(s, lanes));
    }
  }
}

}  // namespace
}  // namespace tile::cpu
