// Random prefix and suffix reductions and sliding windows, whose lanes run along the cells:
// compiled code and nests against the reference interpreter. All values are exact, so that only a
// wrong order, a wrong cell or a special value that strays can differ.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "tests/differential/one_input.h"
#include "tests/random/sweep.h"

namespace tile::test {
namespace {

class ScanCase {
 public:
  explicit ScanCase(uint64_t seed) : random_(seed) {
    const DType kTypes[] = {DType::f32, DType::f32, DType::f64,  DType::i32, DType::i64,
                            DType::i8,  DType::u8,  DType::bf16, DType::f16};
    type_ = kTypes[pick(9)];
    operation_ = pick(4);
    along_ = pick(3);
    const int64_t kLengths[] = {1, 2, 15, 16, 17, 31, 64, 65, 100, 200, 331};
    length_ = kLengths[pick(11)];
  }

  std::string text() {
    std::string index[] = {"a, b, i", "a, i, b", "i, a, b"};
    std::string in[] = {"a, b, k", "a, k, b", "k, a, b"};
    std::string slid[] = {"a, b, i + k", "a, i + k, b", "i + k, a, b"};
    bool window = pick(3) == 0;
    const char* kBodies[] = {"X[@]", "X[@] * 1", "X[@] * X[@]"};
    std::string body = kBodies[operation_ == 0 ? pick(3) : 0];
    int64_t wide = std::min<int64_t>(1 + pick(70), length_);
    std::string size = std::to_string(window ? length_ - wide + 1 : length_);
    std::string sizes[] = {"A, B, " + size, "A, " + size + ", B", size + ", A, B"};
    std::string loaded = replaced(body, window ? slid[along_] : in[along_]);
    std::string where = window ? "k < " + std::to_string(wide) : bound();
    std::string text = "function (X[" + dimensions() + "]) -> (O" + (after() ? ", R" : "") +
                       ") {\n  O[" + index[along_] + ": " + sizes[along_] +
                       "] = " + std::string(1, "+*><"[operation_]) + "(" + loaded + "), " + where +
                       ";\n";
    if (after()) text += "  R = O + O * 2;\n";
    return text + "}\n";
  }

  HostTensor input() {
    HostTensor x(type_, shape());
    bool special = is_float(type_) && pick(3) == 0;
    for (int64_t i = 0; i < x.count(); ++i) {
      double value = operation_ == 1 ? factor() : static_cast<double>(pick(7)) - 2;
      if (type_ == DType::u8 && value < 0) value = -value;
      x.set(i, real_scalar(value, type_));
      if (special && pick(40) == 0) x.set(i, real_scalar(extreme(), type_));
    }
    return x;
  }

 private:
  int pick(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  bool after() const { return length_ % 2 == 0; }
  double factor() {
    if (!is_float(type_)) return pick(5) - 2;
    const double kPowers[] = {1, 1, 1, -1, -1, 2, 0.5};
    return kPowers[pick(7)];
  }
  double extreme() {
    double infinity = std::numeric_limits<double>::infinity();
    const double kAll[] = {infinity, -infinity, std::numeric_limits<double>::quiet_NaN()};
    return kAll[pick(3)];
  }
  Shape shape() const {
    return along_ == 0   ? Shape{2, 3, length_}
           : along_ == 1 ? Shape{2, length_, 19}
                         : Shape{length_, 3, 6};
  }
  std::string dimensions() const {
    std::string n = std::to_string(length_);
    return along_ == 0 ? "A, B, " + n : along_ == 1 ? "A, " + n + ", B" : n + ", A, B";
  }
  static std::string replaced(std::string body, const std::string& index) {
    for (size_t at = body.find('@'); at != std::string::npos; at = body.find('@')) {
      body.replace(at, 1, index);
    }
    return body;
  }
  // Inclusive, and for sums exclusive and shifted either way.
  std::string bound() {
    std::string n = std::to_string(length_), more = std::to_string(length_ + 5);
    if (operation_ != 0 || pick(2) == 0) return (pick(2) == 0 ? "i - k < " : "k - i < ") + n;
    const char* kBounds[] = {"i - k - 1 < ", "k - i - 1 < ", "i - k + 5 < ", "k - i + 5 < ",
                             "i - k - 3 < "};
    return kBounds[pick(5)] + more;
  }

  std::mt19937_64 random_;
  DType type_ = DType::f32;
  int operation_ = 0, along_ = 0;
  int64_t length_ = 1;
};

void expect_agreement(const std::shared_ptr<Engine>& engine, uint64_t seed) {
  ScanCase draw(seed);
  std::string text = draw.text();
  SCOPED_TRACE("seed " + std::to_string(seed) + ":\n" + text);
  expect_exact(engine, Language::tile, text, draw.input());
}

TEST(Scans, RandomScansAndWindows) {
  std::shared_ptr<Engine> engine = test_engine("cpu");
  for (uint64_t seed : sweep(0, 150, 50)) expect_agreement(engine, seed);
}

TEST(Scans, RandomScansAndWindowsOnTheAvx2Target) {
  std::shared_ptr<Engine> engine = test_engine("cpu", "avx2");
  for (uint64_t seed : sweep(500, 50, 20)) expect_agreement(engine, seed);
}

// A row long enough for threads to take turns along it, against sums taken one by one: small
// integers, so that they are exact in any order, and special values.
class LongRow {
 public:
  LongRow(DType type, char operation, bool suffix, uint64_t seed)
      : type_(type), operation_(operation), suffix_(suffix), random_(seed) {}

  void run(const std::shared_ptr<Engine>& engine) {
    auto length = static_cast<int64_t>(150'000 + random_() % 5'000);
    std::string n = std::to_string(length);
    std::string text = "function (X[N]) -> (O) { O[i: N] = " + std::string(1, operation_) +
                       "(X[k]), " + (suffix_ ? "k - i < " : "i - k < ") + n + "; }";
    SCOPED_TRACE(text);
    auto source = std::make_shared<const Source>(Source{"row", text});
    auto program = std::make_shared<const Program>(parse(Language::tile, source));
    HostTensor x(type_, {length});
    for (int64_t i = 0; i < length; ++i) x.set(i, real_scalar(value(), type_));
    std::shared_ptr<Executable> e = compile(engine, program, {InputLayout{{type_, {length}}, {}}});
    HostTensor y = run_code(*e, {x}).at(0);
    double sum = operation_ == '+' ? 0 : operation_ == '*' ? 1 : -kInfinity;
    int64_t wrong = 0;
    for (int64_t step = 0; step < length; ++step) {
      int64_t i = suffix_ ? length - 1 - step : step;
      sum = joined(sum, convert(x.at(i), DType::f64).f);
      double got = convert(y.at(i), DType::f64).f;
      wrong += got == sum || (std::isnan(got) && std::isnan(sum)) ? 0 : 1;
    }
    EXPECT_EQ(wrong, 0);
  }

 private:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double value() {
    bool special = is_float(type_) && random_() % 60'000 == 0;
    if (special) return random_() % 2 == 0 ? kInfinity : std::numeric_limits<double>::quiet_NaN();
    if (operation_ == '*') return random_() % 2 == 0 ? 1 : -1;
    return static_cast<double>(random_() % 3) - 1;
  }
  double joined(double a, double b) const {
    if (operation_ == '+') return a + b;
    if (operation_ == '*') return a * b;
    return std::isnan(a) || std::isnan(b) ? std::numeric_limits<double>::quiet_NaN()
                                          : std::max(a, b);
  }

  DType type_;
  char operation_;
  bool suffix_;
  std::mt19937_64 random_;
};

TEST(Scans, OneLongRow) {
  std::shared_ptr<Engine> engine = test_engine("cpu");
  uint64_t seed = 0;
  for (DType type : {DType::f32, DType::f64, DType::i32}) {
    for (char operation : {'+', '*', '>'}) {
      for (bool suffix : {false, true}) {
        bool least = operation == '>' && !is_float(type);  // -infinity is none of its values
        if (!least) LongRow(type, operation, suffix, ++seed).run(engine);
      }
    }
  }
}

}  // namespace
}  // namespace tile::test
