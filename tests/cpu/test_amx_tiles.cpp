// Tile registers: moves and products of every kind and size, as the interpreter has them. Only
// where the processor has such registers and the system grants them.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "backends/cpu/probe/host.h"
#include "core/kernel/forms/amx_tiles.h"
#include "core/kernel/geometry.h"
#include "core/nest/passes/nest_passes.h"
#include "tests/cpu/nests.h"
#include "tests/support/narrow_kernels.h"
#include "tests/support/random_schedule.h"

namespace tile::cpu {
namespace {

struct Size {
  int64_t rows, columns, terms;
};

// C = A x B + C by one register, A as it is or packed, and the same at another place.
std::string product(DType left, DType right, Size size, bool packed) {
  bool real = left == DType::bf16;
  std::string sum = real ? "f32" : "i32", l(to_string(left)), r(to_string(right));
  int64_t group = real ? 2 : 4, groups = size.terms / group;
  auto number = [](int64_t n) { return std::to_string(n); };
  auto buffer = [&](const std::string& kind, const std::string& name, const std::string& type,
                    int64_t rows, int64_t columns) {
    return kind + " " + name + ": " + type + " [" + number(rows) + ", " + number(columns) +
           "] strides [" + number(columns) + ", 1]";
  };
  int64_t width = packed ? groups : size.terms;
  std::string text = "nest product\n" +
                     buffer("argument", "A", packed ? "u32" : l, 2 * size.rows, width + 3) + "\n" +
                     buffer("argument", "B", "u32", groups, size.columns + 5) + "\n" +
                     buffer("argument", "C", sum, 2 * size.rows, size.columns + 1) + " written\n" +
                     buffer("fragment", "F", sum, size.rows, size.columns) + "\n";
  std::string place = " row [1, 0] column [0, 1] ", at = "[" + number(size.rows) + "*i, 1]";
  return text + "serial i from [0] extent [2] {\n alloc F\n move load F C origin " + at + place +
         "\n serial k from [0] extent [2] {\n  matrix F A B terms " + number(size.terms) + " " + l +
         " origin [" + number(size.rows) + "*i, k]" + place + r + " origin [0, 3*k]" + place +
         "\n }\n move store F C origin " + at + place + "\n move zero F\n}\n";
}

bool has_tiles() { return probe_host().tiles.count > 0; }

Run native() {
  Run run;
  run.targets = {"native"};
  return run;
}

void check(DType left, DType right, const std::vector<double>& values) {
  int64_t most = left == DType::bf16 ? 32 : 64;
  for (Size size : {Size{16, 16, most}, {1, 1, 4}, {5, 16, most}, {16, 3, 8}, {7, 9, 12}}) {
    for (bool packed : {false, true}) {
      SCOPED_TRACE(std::to_string(size.rows) + "x" + std::to_string(size.columns));
      nest::Nest nest = parse(product(left, right, size, packed));
      EXPECT_EQ(nest::print(parse(nest::print(nest))), nest::print(nest));
      std::vector<HostTensor> arguments = small_integers(nest, 1);
      uint64_t at = 7;
      auto next = [&] { return values[(at = at * 6364136223846793005U + 1) % values.size()]; };
      for (size_t i = 0; i < 2; ++i) {
        HostTensor& t = arguments[i];
        DType type = i == 0 ? left : right;
        for (int64_t e = 0; e < t.count(); ++e) {
          if (t.type != DType::u32) {
            t.set(e, is_float(type) ? real_scalar(next(), type)
                                    : integer_scalar(static_cast<int64_t>(next()), type));
            continue;
          }
          uint32_t bits = 0;
          for (int shift = 0; shift < 32; shift += bit_width(type)) {
            uint32_t factor = type == DType::bf16
                                  ? std::bit_cast<uint32_t>(static_cast<float>(next())) >> 16
                                  : static_cast<uint32_t>(static_cast<int64_t>(next())) & 0xffU;
            bits |= factor << shift;
          }
          t.set(e, integer_scalar(bits, DType::u32));
        }
      }
      expect_as_interpreted(nest, arguments, native());
    }
  }
}

TEST(CpuAmxTiles, Bf16WithNanAndInfinities) {
  if (!has_tiles()) GTEST_SKIP() << "no tile registers, or the system does not grant them";
  double inf = std::numeric_limits<double>::infinity();
  check(DType::bf16, DType::bf16, {0, 1, -1, 2, 0.5, 3, -7, 96, -0.25});
  check(DType::bf16, DType::bf16, {0, 1, -2, 4, 3, inf, 1, 2, -inf, 1, std::nan(""), 4, 1, 1});
}

TEST(CpuAmxTiles, BytesOfAllSigns) {
  if (!has_tiles()) GTEST_SKIP() << "no tile registers, or the system does not grant them";
  for (DType left : {DType::i8, DType::u8}) {
    for (DType right : {DType::i8, DType::u8}) check(left, right, {255, -128, 127, 0, 1, 128, -1});
  }
}

// Random schedules of products and convolutions: blocked sums, remainders, copies, threads.
TEST(CpuAmxTiles, RandomSchedules) {
  if (!has_tiles()) GTEST_SKIP() << "no tile registers, or the system does not grant them";
  Target target = probe_host();
  target.threads = 2;
  std::vector<Kernel> kernels;
  for (auto [l, r] : {std::pair{DType::bf16, DType::bf16}, {DType::u8, DType::i8}}) {
    kernels.push_back(testing::narrow_product(37, 41, 70, l, r));
    kernels.push_back(testing::narrow_product(64, 33, 128, l, r));
    kernels.push_back(testing::inner_convolution(8, l, r));
  }
  for (const Kernel& kernel : kernels) {
    constexpr int kTried = 10;
    int tried = 0;
    for (uint64_t seed = 1; seed < 3000 && tried < kTried; ++seed) {
      Schedule schedule = random_schedule(kernel, target, seed);
      if (!uses_tiles(schedule.stages[0][0])) continue;
      ++tried;
      SCOPED_TRACE(print(schedule));
      nest::Nest nest = nest::run_passes(lower(kernel, schedule, target), target);
      expect_as_interpreted(nest, small_integers(nest, seed), native());
    }
    EXPECT_EQ(tried, kTried);
  }
}

}  // namespace
}  // namespace tile::cpu
