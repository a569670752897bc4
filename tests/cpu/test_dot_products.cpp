// Packed neighbours: joining them and the dots, by each target's instructions and step by step.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/cpu/nests.h"

namespace tile::cpu {
namespace {

// sums += dots of neighbours of A and B, in vectors of `lanes` and one by one.
std::string dots(DType left, DType right, DType sum, const std::string& pack,
                 const std::string& dot, int lanes, int neighbours) {
  std::string l(to_string(left)), r(to_string(right)), t(to_string(sum)), loads, body, x, y;
  int node = 0;
  auto operand = [&](const std::string& buffer, const std::string& type, std::string& packed) {
    std::string args;
    for (int i = 0; i < neighbours; ++i) {
      loads += buffer + "[j, " + std::to_string(neighbours) + "*i + " + std::to_string(i) + "], ";
      body += "%" + std::to_string(node) + ":" + type + " = load " +
              std::to_string(std::count(loads.begin(), loads.end(), '[') - 1) + "; ";
      args += " %" + std::to_string(node++);
    }
    packed = "%" + std::to_string(node++);
    body += packed + ":u32 = " + pack + args + "; ";
  };
  operand("A", l, x);
  operand("B", r, y);
  std::string old = "%" + std::to_string(node), result = "%" + std::to_string(node + 1);
  body += old + ":" + t + " = load " + std::to_string(2 * neighbours) + "; " + result + ":" + t +
          " = " + dot + " " + x + " " + y + " " + old + "; yield " + result;
  std::string store = "assign C[j, i] (" + loads + "C[j, i]) { " + body + " }";
  int count = lanes * neighbours;
  auto argument = [&](const std::string& name, const std::string& type, int size) {
    return "argument " + name + ": " + type + " [64, " + std::to_string(size) + "] strides [" +
           std::to_string(size) + ", 1]";
  };
  return "nest dots\n" + argument("A", l, count) + "\n" + argument("B", r, count) + "\n" +
         argument("C", t, lanes) + " written\n" + "serial j from [0] extent [32] { vector i from " +
         "[0] extent [" + std::to_string(lanes) + "] width " + std::to_string(lanes) + " { " +
         store + " } }\nserial j from [32] extent [32] { serial i from [0] extent [" +
         std::to_string(lanes) + "] { " + store + " } }\n";
}

void fill(HostTensor& t, const std::vector<double>& values, uint64_t step) {
  uint64_t at = step;
  for (int64_t i = 0; i < t.count(); ++i) {
    at = at * 6364136223846793005U + 1442695040888963407U;
    double value = values[(at >> 33) % values.size()];
    t.set(i, is_float(t.type) ? real_scalar(value, t.type)
                              : integer_scalar(static_cast<int64_t>(value), t.type));
  }
}

void check(DType left, DType right, DType sum, const std::string& pack, const std::string& dot,
           int neighbours, const std::vector<double>& values) {
  for (int lanes : {2, 4, 8, 16, 32}) {
    SCOPED_TRACE(dot + " of " + std::to_string(lanes));
    nest::Nest nest = parse(dots(left, right, sum, pack, dot, lanes, neighbours));
    std::vector<HostTensor> arguments = small_integers(nest, 1);
    for (size_t i = 0; i < 2; ++i) fill(arguments[i], values, i + 5);
    expect_as_interpreted(nest, arguments);
  }
}

TEST(CpuDots, PairsOfBf16WithNanAndInfinities) {
  double inf = std::numeric_limits<double>::infinity();
  check(DType::bf16, DType::bf16, DType::f32, "pack2", "dot2_bf16", 2,
        {0, -0.0, 1, -1, 0.5, 3, -7, 96, 1.0078125, 0x1p60, -0x1p70, 0x1.fep127});
  check(DType::bf16, DType::bf16, DType::f32, "pack2", "dot2_bf16", 2,
        {0, 1, -2, inf, -inf, std::nan(""), 4});
}

// Each product is rounded into the sum on its own, the second of a pair first.
TEST(CpuDots, PairsOfBf16RoundInOrder) {
  check(DType::bf16, DType::bf16, DType::f32, "pack2", "dot2_bf16", 2,
        {0x1p12, -0x1p12, 1.0078125, 0x1p-12, 3, 0x1.1p-3});
}

TEST(CpuDots, PairsOfI16Wrap) {
  check(DType::i16, DType::i16, DType::i32, "pack2", "dot2_i16", 2,
        {-32768, 32767, 0, 1, -1, 255, -128, 12345});
}

TEST(CpuDots, BytesAtTheirExtremes) {
  check(DType::u8, DType::i8, DType::i32, "pack4", "dot4_u8i8", 4,
        {255, -128, 127, 0, 1, 128, 77, -1});
}

}  // namespace
}  // namespace tile::cpu
