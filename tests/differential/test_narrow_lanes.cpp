// Random filters of integers whose values lie at the ends of narrow types: compiled code, which
// computes in 8- and 16-bit lanes where it can and divides by multiplying, against the interpreter.
#include <gtest/gtest.h>

#include <random>

#include "tests/differential/one_input.h"
#include "tests/random/sweep.h"

namespace tile::test {
namespace {

constexpr int64_t kHeight = 9, kWidth = 150;

class FilterText {
 public:
  explicit FilterText(uint64_t seed) : random_(seed) {}

  // Pixels whose components are computed alike, or by four expressions.
  std::string run() {
    const char* kTypes[] = {"u8", "u16", "i16", "i8", "i32"};
    bool alike = pick(3) > 0;
    std::string text = "let s = sampler<input_u8>(address=.ClampToEdge)\n" + stage("s", "t", alike);
    text +=
        "let r = sampler<t>(address=.ClampToEdge)\n@bounds(input_u8.extent(0), "
        "input_u8.extent(1))\ndef result |x, y| {\n" +
        reads("r");
    std::string type = kTypes[pick(5)];
    return text + "  " + type + "(" + value(3) + ")\n}\n";
  }
  int pick(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }

 private:
  std::string stage(const std::string& from, const std::string& name, bool alike) {
    std::string text = "@bounds(input_u8.extent(0), input_u8.extent(1))\ndef " + name +
                       " |x, y| {\n" + reads(from);
    if (alike) return text + "  " + value(3) + "\n}\n";
    std::string all;
    for (int i = 0; i < 4; ++i) {
      std::string part = value(2);
      all += (i > 0 ? ", " : "") + part + "." + std::string(1, "xyzw"[i]);
    }
    return text + "  [" + all + "]\n}\n";
  }
  std::string reads(const std::string& from) {
    return "  let a = i32(" + from + "(x-1, y))\n  let b = i32(" + from +
           "(x, y))\n  let c = i32(" + from + "(x+1, y+1))\n";
  }
  std::string literal() {
    const char* kEnds[] = {"0",   "1",     "2",     "127",   "128",   "255",
                           "256", "32767", "32768", "65535", "65536", "2147483647"};
    return kEnds[pick(12)];
  }
  // Always of four components: literals are added to one.
  std::string value(int depth) {
    if (depth == 0) return std::string(1, "abc"[pick(3)]);
    std::string a = value(depth - 1), b = value(pick(depth));
    switch (pick(12)) {
      case 0:
        return "(" + a + " + " + b + ")";
      case 1:
        return "(" + a + " - " + b + ")";
      case 2:
        return "(" + a + "*" + b + ")";
      case 3:
        return "min(" + a + ", " + b + ")";
      case 4:
        return "max(" + a + ", " + b + ")";
      case 5:
        return "abs(" + a + ")";
      case 6:
        return "(" + a + " + " + literal() + ")";
      case 7:
        return "min(" + a + ", " + literal() + ")";
      case 8:
        return "(" + a + "/" + std::to_string(1 + pick(300)) + ")";
      case 9:
        return "(" + a + "%" + std::to_string(1 + pick(300)) + ")";
      case 10:
        return "(" + a + "/(1 + max(" + b + ", 0)))";
      default:
        return "i32(" + std::string(pick(2) == 0 ? "u8" : "i16") + "(" + a + "))";
    }
  }
  std::mt19937_64 random_;
};

HostTensor picture(FilterText& draw) {
  const int64_t kValues[] = {0, 1, 2, 127, 128, 254, 255};
  HostTensor p(DType::u8, {kHeight, kWidth, 4});
  for (int64_t i = 0; i < p.count(); ++i)
    p.set(i, integer_scalar(kValues[draw.pick(7)], DType::u8));
  return p;
}

void expect_agreement(const std::shared_ptr<Engine>& engine, uint64_t seed) {
  FilterText draw(seed);
  std::string text = draw.run();
  SCOPED_TRACE("seed " + std::to_string(seed) + ":\n" + text);
  expect_exact(engine, Language::mfg, text, picture(draw));
}

TEST(NarrowLanes, RandomFiltersAtTheEndsOfRanges) {
  std::shared_ptr<Engine> engine = test_engine("cpu");
  for (uint64_t seed : sweep(0, 120, 30)) expect_agreement(engine, seed);
}

TEST(NarrowLanes, RandomFiltersOnTheAvx2Target) {
  std::shared_ptr<Engine> engine = test_engine("cpu", "avx2");
  for (uint64_t seed : sweep(500, 40, 10)) expect_agreement(engine, seed);
}

}  // namespace
}  // namespace tile::test
