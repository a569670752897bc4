#include "tests/random/random_conditions.h"

#include <limits>

#include "tests/random/random_source.h"

namespace tile::test {
namespace {

class Writer {
 public:
  explicit Writer(uint64_t seed) : random_(seed) {
    rows_ = random_.pick(kExtents);
    columns_ = random_.pick(kExtents);
    length_ = random_.pick(std::vector<int64_t>{1, 2, 3, 5, 8, 13});
  }

  ConditionCase run(bool special) {
    size_t made = static_cast<size_t>(random_.in(1, 2));
    for (size_t i = 0; i < made; ++i) made_.push_back(reduction());
    for (int64_t left = random_.in(1, 2); left > 0; --left) made_.push_back(follower());
    ConditionCase drawn;
    drawn.text = "function (D[L], X[N, M], P[]) -> (O) {" + body_ + " O = " + last() + "; }";
    for (const Shape& shape : {Shape{length_}, Shape{rows_, columns_}, Shape{}}) {
      drawn.types.push_back({DType::f32, shape, std::nullopt});
      drawn.inputs.push_back(values(shape, special));
    }
    return drawn;
  }

 private:
  static inline const std::vector<int64_t> kExtents{1, 1, 2, 2, 3, 5, 7, 17};

  std::string number(int64_t lo, int64_t hi) { return std::to_string(random_.in(lo, hi)); }
  std::string aggregation() {
    return random_.pick(std::vector<std::string>{"+", "+", ">", "<", "*"});
  }
  std::string fresh() { return "T" + std::to_string(count_++); }
  std::string whole() { return random_.pick(made_); }  // of shape [N, M]

  HostTensor values(const Shape& shape, bool special) {
    HostTensor t(DType::f32, shape);
    double inf = std::numeric_limits<double>::infinity();
    for (int64_t i = 0; i < t.count(); ++i) {
      double value = static_cast<double>(random_.in(-2, 2));
      if (special && random_.percent(8)) {
        value =
            random_.pick(std::vector<double>{std::numeric_limits<double>::quiet_NaN(), inf, -inf});
      }
      t.set(i, real_scalar(value, DType::f32));
    }
    return t;
  }

  // What a reduction's body may be where it reads this.
  std::string read(const std::string& access) {
    std::string p = "P[]", zero = "0.0";
    switch (random_.in(0, 9)) {
      case 0:
        return "i < " + number(0, 4) + " ? " + access + " : " + p;
      case 1:
        return "j == " + number(0, 3) + " ? " + p + " : " + access;
      case 2:
        return "i + j < " + number(1, 6) + " ? " + access + " : " + zero;
      case 3:
        return access + " > 0 ? " + access + " : " + p + " * " + access;
      case 4:
        return access + " * " + access;
      case 5:
        return "max(" + access + ", " + p + ")";
      default:
        return access;
    }
  }

  // A statement of shape [N, M] with some cells that no point may reach.
  std::string reduction() {
    std::string name = fresh();
    std::string head = " " + name + "[i, j: N, M] = " + aggregation() + "(";
    switch (random_.in(0, 5)) {
      case 0:
      case 1: {  // the constraint solves for g, or leaves it a few values
        std::string a = number(1, 2), d = number(-2, 2), e = number(1, 2);
        std::string b = random_.percent(60) ? "M" : number(0, 3);
        body_ += head + read("D[g]") + "), j < M, " + a + "*g - " + b + "*i - j + " + d + " < " +
                 e + ";";
        break;
      }
      case 2:  // windows, beyond the ends too
        body_ +=
            head +
            read("D[" + number(1, 2) + "*i + " + number(0, 2) + "*j + k - " + number(0, 3) + "]") +
            "), k < " + number(1, 3) + ", j < M;";
        break;
      case 3:  // along a row, up to or from the diagonal
        body_ += head + read("X[i, k]") + "), j < M, " +
                 (random_.percent(50) ? "j - k < M" : "k - j < " + number(1, 4)) + ";";
        break;
      case 4:  // shifted
        body_ +=
            head +
            read("X[i - " + number(0, 2) + ", j + " + number(-1, 2) + " - " + number(0, 1) + "]") +
            ");";
        break;
      default:  // halves: cells between have no point
        body_ += " " + name + "[" + (random_.percent(50) ? "2*" : "") + "i, " +
                 (random_.percent(50) ? "2*" : "") + "j: N, M] = " + aggregation() + "(" +
                 read("X[i, j]") + ");";
        break;
    }
    return name;
  }

  // A statement over [N, M] that may fuse with those before.
  std::string follower() {
    std::string name = fresh(), a = whole(), b = whole(), other = fresh();
    switch (random_.in(0, 8)) {
      case 0:
        body_ += " " + name + " = " + a + " * 2 + " + b + ";";
        break;
      case 1:
        body_ += " " + name + " = " + a + " > 0 ? " + b + " : P;";
        break;
      case 2:
        body_ += " " + other + "[i, 0: N, 1] = " + aggregation() + "(" + a + "[i, j]); " + name +
                 " = " + b + " - " + other + ";";
        break;
      case 3:
        body_ += " " + other + "[0, j: 1, M] = " + aggregation() + "(" + a + "[i, j]); " + name +
                 " = " + b + " * " + other + ";";
        break;
      case 4:
        body_ += " " + name + " = max(" + a + ", " + b + " * P);";
        break;
      case 5:
        body_ += " " + name + "[i, j: N, M] = " + aggregation() + "(" + a + "[i, k] * " + b +
                 "[i, k]), k - j < " + number(1, 3) + ", j < M;";
        break;
      case 6:
        body_ += " " + name + "[i, j: N, M] = " + aggregation() + "(" + a + "[i + k, j] * " + b +
                 "[i, j]), k < 2;";
        break;
      case 7:
        body_ += " " + name + "[i, j: N, M] = =(j < " + number(0, 4) + " ? " + a + "[i, j] : P[]);";
        break;
      default:
        body_ += " " + name + " = " + b + " / (1.0 + " + a + " * " + a + ");";
        break;
    }
    return name;
  }

  std::string last() { return made_.back() + (random_.percent(50) ? " * " + whole() : " + P"); }

  RandomSource random_;
  int64_t rows_, columns_, length_;
  std::string body_;
  std::vector<std::string> made_;
  int count_ = 0;
};

}  // namespace

ConditionCase random_conditions(uint64_t seed, bool special) { return Writer(seed).run(special); }

}  // namespace tile::test
