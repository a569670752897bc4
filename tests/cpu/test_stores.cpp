// Every store kind on every element type: lanes of their own, masked lanes, one cell for all lanes
// (rules 4.8, 5.1, 5.7).
#include <gtest/gtest.h>

#include "core/ir/dtype.h"
#include "tests/cpu/nests.h"

namespace tile::cpu {
namespace {

const char* const kTypes[] = {"bool", "i8",     "i16",    "i32", "i64",  "u8",  "u16", "u32",
                              "u64",  "f8e4m3", "f8e5m2", "f16", "bf16", "f32", "f64"};
const char* const kKinds[] = {"assign", "add", "multiply", "max", "min", "fma"};

// Replaces every $name.
std::string filled(std::string text, const std::vector<std::pair<std::string, std::string>>& with) {
  for (const auto& [name, value] : with) {
    for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at)) {
      text.replace(at, name.size(), value);
      at += value.size();
    }
  }
  return text;
}

void each_kind_and_type(const std::string& text) {
  for (const std::string kind : kKinds) {
    for (const std::string type : kTypes) {
      if (kind == "fma" && type == "bool") continue;  // no such operation
      SCOPED_TRACE(kind + " " + type);
      std::string results = kind == "fma" ? "%0, %1" : "%0";
      expect_as_interpreted(
          filled(text, {{"$kind", kind}, {"$type", type}, {"$results", results}}));
    }
  }
}

TEST(CpuStores, LanesOfTheirOwn) {
  each_kind_and_type(R"(
nest stores
argument X: $type [37] strides [1]
argument Y: $type [37] strides [1]
argument Z: $type [37] strides [1] written
serial i from [0] extent [5] {
  vector l from [8*i] extent [min(8, 37 - 8*i)] width 8 {
    $kind Z[l] (X[l], Y[l]) { %0:$type = load 0; %1:$type = load 1; yield $results }
  }
}
)");
}

TEST(CpuStores, OneElement) {
  each_kind_and_type(R"(
nest stores
argument X: $type [9] strides [1]
argument Y: $type [9] strides [1]
argument Z: $type [9] strides [1] written
serial i from [0] extent [9] {
  $kind Z[8 - i] (X[i], Y[i]) { %0:$type = load 0; %1:$type = load 1; yield $results }
}
)");
}

// No instruction scatters elements of less than 32 bits.
TEST(CpuStores, LanesApart) {
  each_kind_and_type(R"(
nest stores
argument X: $type [40] strides [1]
argument Y: $type [40] strides [1]
argument Z: $type [200] strides [1] written
serial i from [0] extent [2] {
  vector l from [0] extent [8] width 8 {
    $kind Z[99*i + 3*l] (X[17*i + l], Y[17*i + l]) { %0:$type = load 0; %1:$type = load 1; yield $results }
  }
  vector m from [0] extent [min(7, 8 - 5*i)] width 8 {
    $kind Z[199 - 3*m] (X[m], Y[i + m]) { %0:$type = load 0; %1:$type = load 1; yield $results }
  }
}
)");
}

// Lanes combine in any order, and products of three values stay exact only in wide types.
TEST(CpuStores, OneCellForAllLanes) {
  for (const std::string kind : kKinds) {
    if (kind == "assign") continue;
    for (const std::string type : kTypes) {
      if (kind == "fma" && type == "bool") continue;  // no such operation
      bool sums = kind == "add" || kind == "multiply" || kind == "fma";
      if (sums && type.starts_with("f8")) continue;  // sums of f8 are f32 (rule 5.8)
      SCOPED_TRACE(kind + " " + type);
      std::string results = kind == "fma" ? "%0, %1" : "%0";
      expect_as_interpreted(filled(R"(
nest stores
argument X: $type [3, 13] strides [13, 1]
argument Y: $type [13] strides [1]
argument Z: $type [3] strides [1] written
serial i from [0] extent [3] {
  vector l from [0] extent [8] width 8 {
    $kind Z[i] (X[i, l], Y[l]) { %0:$type = load 0; %1:$type = load 1; yield $results }
  }
  vector m from [8] extent [5 - i] width 8 {
    $kind Z[i] (X[i, m], Y[m]) { %0:$type = load 0; %1:$type = load 1; yield $results }
  }
}
)",
                                   {{"$kind", kind}, {"$type", type}, {"$results", results}}));
    }
  }
}

// Whichever lane is last wins, also where only some lanes are on, and none may be.
TEST(CpuStores, AssignFromLanesKeepsTheLast) {
  expect_as_interpreted(R"(
nest stores
argument X: i32 [24] strides [1]
argument Z: i32 [4] strides [1] written
serial i from [0] extent [4] {
  vector l from [8*i] extent [8 - 3*i] width 8 {
    assign Z[i] (X[l]) { %0:i32 = load 0; yield %0 }
  }
}
)");
}

// The value is the same for all lanes, but counts once for each.
TEST(CpuStores, OneValueForAllLanes) {
  expect_as_interpreted(R"(
nest stores
argument X: f32 [3] strides [1]
argument Z: f32 [3] strides [1] written
serial i from [0] extent [3] {
  vector l from [0] extent [7 - i] width 8 {
    add Z[i] (X[i]) { %0:f32 = load 0; yield %0 }
  }
  vector m from [0] extent [4] width 4 {
    max Z[i] (X[2 - i]) { %0:f32 = load 0; yield %0 }
  }
}
)");
}

// Cells named by values may coincide between lanes: each update counts.
TEST(CpuStores, ScatterByValue) {
  for (const std::string kind : kKinds) {
    SCOPED_TRACE(kind);
    std::string results = kind == "fma" ? "%2, %2" : "%2";
    expect_as_interpreted(filled(R"(
nest scatter
argument I: i32 [19] strides [1]
argument X: f32 [19, 3] strides [3, 1]
argument Z: f32 [7, 3] strides [3, 1] written
serial j from [0] extent [3] {
  serial i from [0] extent [3] {
    vector l from [8*i] extent [min(8, 19 - 8*i)] width 8 {
      $kind Z[%3, j] (I[l], X[l, j]) { %0:i32 = load 0; %1:i32 = int 3; %2:f32 = load 1; %3:i32 = add %0 %1; yield $results }
    }
  }
}
)",
                                 {{"$kind", kind}, {"$results", results}}));
  }
}

// Two lanes share a cell: l / 2.
TEST(CpuStores, SharedCellsByIndex) {
  expect_as_interpreted(R"(
nest pairs
argument X: f32 [16] strides [1]
argument Z: f32 [8] strides [1] written
vector l from [0] extent [15] width 16 {
  add Z[floordiv(l, 2)] (X[l]) { %0:f32 = load 0; yield %0 }
}
)");
}

}  // namespace
}  // namespace tile::cpu
