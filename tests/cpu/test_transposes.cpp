// Blocks whose rows are read whole and turned in registers.
#include <gtest/gtest.h>

#include "backends/cpu/cpu_backend.h"
#include "tests/cpu/nests.h"

namespace tile::cpu {
namespace {

struct Block {
  std::string type = "f32";
  int rows = 16, lanes = 16, width = 16;
  std::string stride = "40";
  std::string index = "l, u";  // of what is read
};

std::string block(const Block& b) {
  std::string load = "{ %0:" + b.type + " = load 0; yield %0 }";
  auto loops = [&](const std::string& extent, const std::string& i) {
    return "serial s from [0] extent [3] {\nunrolled u from [0] extent [" + std::to_string(b.rows) +
           "] {\nvector l from [0] extent [" + extent + "] width " + std::to_string(b.width) +
           " { assign Z[" + i + ", s, u, l] (X[" + b.index + "]) " + load + " }\n}\n}\n";
  };
  return "nest block\nargument X: " + b.type + " [64, 64] strides [" + b.stride +
         ", 1]\nargument Z: " + b.type + " [2, 3, " + std::to_string(b.rows) + ", 64] strides [" +
         std::to_string(192 * b.rows) + ", " + std::to_string(64 * b.rows) + ", 64, 1] written\n" +
         loops(std::to_string(b.lanes), "0") +
         loops("min(" + std::to_string(b.lanes) + ", 5*s)", "1");
}

int gathers(const std::string& text) {
  std::shared_ptr<Backend> backend = shared_backend();
  std::string code = backend->emit(parse(text), backend->target(), "llvm");
  int count = 0;
  for (size_t at = 0; (at = code.find("llvm.masked.gather", at)) != std::string::npos; ++at) {
    ++count;
  }
  return count;
}

TEST(CpuTransposes, EveryTypeAndShape) {
  for (const char* type : {"f32", "f64", "i8", "bf16", "bool"}) {
    for (auto [rows, width] : {std::pair{16, 16}, {5, 16}, {3, 4}, {13, 2}}) {
      // Whole and cut rows; most types with one of them for each shape.
      bool both = std::string(type) == "f32";
      for (int lanes : {width, width - 1}) {
        if (!both && (lanes == width) != (rows % 2 == 0)) continue;
        SCOPED_TRACE(std::string(type) + " " + std::to_string(rows) + " x " +
                     std::to_string(lanes) + " of " + std::to_string(width));
        expect_as_interpreted(block({type, rows, lanes, width}));
      }
    }
  }
}

TEST(CpuTransposes, RowsOfAnyDistance) {
  for (const char* stride : {"64", "-64", "9", "8", "3", "0"}) {
    SCOPED_TRACE(stride);
    expect_as_interpreted(block({"f32", 16, 16, 16, stride}));
  }
}

TEST(CpuTransposes, OnlyBlocks) {
  EXPECT_EQ(gathers(block({})), 0);
  EXPECT_EQ(gathers(block({"i8", 16, 64, 64})), 0);
  expect_as_interpreted(block({"i8", 4, 64, 64}));
  EXPECT_GT(gathers(block({"f32", 16, 16, 16, "40", "l, 2*u"})), 0) << "rows have gaps";
  for (const char* index : {"l, 2*u", "l, 20 - u", "l, s", "l, l + u", "u, l"}) {
    SCOPED_TRACE(index);
    expect_as_interpreted(block({"f32", 16, 16, 16, "40", index}));
  }
}

// A row that bends is no block, wherever it does. Only its first two elements were asked whether
// they are neighbours, and what was read behind the bend could lie past the tensor's end.
TEST(CpuTransposes, BentRowsAreNotReadWhole) {
  for (const char* index : {"min(u + 62, 63)", "min(u + 49, 63)", "max(u - 1, 0)", "max(u, 2)",
                            "mod(u + 55, 64)", "max(min(u + 48, 63), 0) + floordiv(u, 15)"}) {
    EXPECT_GT(gathers(block({"f32", 16, 16, 16, "40", std::string("l, ") + index})), 0) << index;
  }
  EXPECT_EQ(gathers(block({"f32", 16, 16, 16, "40", "l, min(u + 48, 63)"})), 0) << "no bend";
}

TEST(CpuTransposes, IndicesThatBend) {
  for (int bend = 0; bend < 5; ++bend) {
    SCOPED_TRACE(bend);
    std::string last = std::to_string(63 - bend);
    for (const std::string& index : {"min(u + " + last + ", 63)", "mod(u + " + last + ", 64)",
                                     "max(u - " + std::to_string(bend) + ", 0)"}) {
      expect_as_interpreted(block({"f32", 4, 4, 4, "40", "l + 60, " + index}));
    }
  }
}

TEST(CpuTransposes, LanesThatBend) {
  for (int bend = 0; bend < 9; ++bend) {
    SCOPED_TRACE(bend);
    std::string bent = "max(u - " + std::to_string(bend) + ", 0)";
    for (const std::string& lanes :
         {"from [" + bent + "] extent [16]", "from [0] extent [16 - " + bent + "]"}) {
      expect_as_interpreted(
          "nest lanes\nargument X: f32 [40, 40] strides [40, 1]\n"
          "argument Z: f32 [8, 40] strides [40, 1] written\n"
          "unrolled u from [0] extent [8] {\nvector l " +
          lanes + " width 16 { add Z[u, l] (X[l, u]) { %0:f32 = load 0; yield %0 } }\n}\n");
    }
  }
}

// What an iteration stores is seen by those behind it; lanes and extents that differ from iteration
// to iteration are no block.
TEST(CpuTransposes, OrderIsKept) {
  expect_as_interpreted(R"(
nest order
argument X: f32 [20, 40] strides [40, 1] written
unrolled u from [0] extent [8] {
  vector l from [0] extent [16] width 16 {
    assign X[l, u + 1] (X[l, u]) { %0:f32 = load 0; %1:f32 = real 1; %2:f32 = add %0 %1; yield %2 }
  }
}
)");
  expect_as_interpreted(R"(
nest steps
argument X: f32 [40, 40] strides [40, 1]
argument Z: f32 [8, 40] strides [40, 1] written
unrolled u from [0] extent [8] {
  vector l from [u] extent [16 - u] width 16 {
    add Z[u, l] (X[l, u]) { %0:f32 = load 0; yield %0 }
  }
}
)");
}

}  // namespace
}  // namespace tile::cpu
