#include "tests/fusion/row_programs.h"

#include <algorithm>
#include <functional>

#include "tests/random/random_source.h"

namespace tile::test {
namespace {

// A matrix, or with one of its sizes 1 a value for each row or column.
struct Matrix {
  std::string name;
  int64_t rows = 1, columns = 1;
  double bound = 0;  // no element is larger in size
};

// Of a sum of squares of any size: with more, roundings of f32 pass what comparisons allow.
constexpr int64_t kMostTerms = 1024;
constexpr double kMostExact = 1 << 20;  // integers up to here stay exact in f32, sums of two too
constexpr double kMostExponent = 12;    // exponentials of more differ too much in size

class Writer {
 public:
  explicit Writer(uint64_t seed) : random_(seed) {
    type_ = random_.percent(70) ? DType::f32 : DType::f64;
    const std::vector<int64_t> sizes{1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 20, 24, 33};
    rows_ = random_.pick(sizes);
    columns_ = random_.percent(20) ? rows_ : random_.pick(sizes);
    // The model merges more where there is more to save.
    if (random_.percent(20)) rows_ *= 8;
    if (random_.percent(10)) columns_ *= 6;
  }

  RowProgram write() {
    known_.push_back(input(rows_, columns_));
    int64_t more = random_.in(0, 2);
    for (int64_t i = 0; i < more; ++i) known_.push_back(any_input());
    int64_t statements = random_.in(3, 9);
    while (count_ < statements) statement();
    finish();
    return std::move(result_);
  }

 private:
  static std::string s(int64_t v) { return std::to_string(v); }
  static std::string sizes(int64_t rows, int64_t columns) { return s(rows) + ", " + s(columns); }

  Matrix input(int64_t rows, int64_t columns) {
    Matrix m{"I" + s(static_cast<int64_t>(result_.inputs.size())), rows, columns, 3};
    HostTensor t(type_, {rows, columns});
    for (int64_t i = 0; i < t.count(); ++i) {
      t.set(i, real_scalar(static_cast<double>(random_.in(-3, 3)), type_));
    }
    declarations_ +=
        (declarations_.empty() ? "" : ", ") + m.name + "[" + sizes(rows, columns) + "]";
    result_.types.push_back({type_, t.shape});
    result_.inputs.push_back(std::move(t));
    return m;
  }
  Matrix any_input() {
    if (random_.percent(30)) return input(1, columns_);
    if (random_.percent(30)) return input(rows_, 1);
    return input(rows_, columns_);
  }

  Matrix add(const std::string& text, int64_t rows, int64_t columns, double bound) {
    Matrix m{"T" + s(count_++), rows, columns, bound};
    size_t at = text.find('$');
    statements_ += " " + text.substr(0, at) + m.name + text.substr(at + 1) + ";";
    if (bound > kMostExact) result_.exact = false;
    known_.push_back(m);
    return m;
  }

  // The youngest are the likeliest.
  const Matrix& any() {
    size_t n = known_.size();
    size_t back = static_cast<size_t>(random_.in(0, static_cast<int64_t>(n) - 1));
    if (random_.percent(60)) back = std::min(back, static_cast<size_t>(random_.in(0, 2)));
    return known_[n - 1 - std::min(back, n - 1)];
  }
  Matrix wide() {
    for (int i = 0; i < 8; ++i) {
      const Matrix& m = any();
      if (m.rows > 1 || m.columns > 1) return m;
    }
    return known_[0];
  }
  // Another one that fits by broadcasting; the same one if there is none.
  Matrix fitting(const Matrix& a) {
    for (int i = 0; i < 12; ++i) {
      const Matrix& m = any();
      bool fits = (m.rows == a.rows || m.rows == 1) && (m.columns == a.columns || m.columns == 1);
      if (fits && m.name != a.name) return m;
    }
    return a;
  }
  Matrix same_shape(const Matrix& a) {
    for (int i = 0; i < 12; ++i) {
      const Matrix& m = any();
      if (m.rows == a.rows && m.columns == a.columns && m.name != a.name) return m;
    }
    return a;
  }

  void statement() {
    using Maker = void (Writer::*)();
    static const std::vector<Maker> kMakers = {
        &Writer::elementwise,    &Writer::elementwise,    &Writer::elementwise,
        &Writer::reduce_rows,    &Writer::reduce_rows,    &Writer::reduce_rows,
        &Writer::reduce_columns, &Writer::reduce_columns, &Writer::softmax,
        &Writer::softmax,        &Writer::layer_norm,     &Writer::stencil,
        &Writer::pool,           &Writer::pool,           &Writer::product,
        &Writer::transpose,      &Writer::shifted,        &Writer::prefix,
        &Writer::defaulted,      &Writer::reshaped,       &Writer::whole,
        &Writer::one_term,       &Writer::attention};
    (this->*random_.pick(kMakers))();
  }

  void elementwise() {
    Matrix a = wide(), b = fitting(a);
    if (random_.percent(25)) {
      static const std::vector<std::string> kUnary = {"abs(%)", "relu(%)", "-%", "% + 1",
                                                      "% * 0.5"};
      std::string text = random_.pick(kUnary);
      text.replace(text.find('%'), 1, a.name);
      add("$ = " + text, a.rows, a.columns, a.bound + 1);
      return;
    }
    bool multiplies = a.bound * b.bound < kMostExact && random_.percent(30);
    if (multiplies) {
      add("$ = " + a.name + " * " + b.name, a.rows, a.columns, a.bound * b.bound);
      return;
    }
    static const std::vector<std::string> kSums = {" + ", " - "};
    std::string text = "$ = " + a.name + random_.pick(kSums) + b.name;
    if (random_.percent(25)) text = "$ = max(" + a.name + ", " + b.name + ")";
    add(text, a.rows, a.columns, a.bound + b.bound);
  }

  // A condition on the indices i and j, or none.
  std::string condition(int64_t rows, int64_t columns) {
    if (!random_.percent(25)) return "";
    switch (random_.in(0, 4)) {
      case 0:
        return ", i - j < " + s(random_.in(1, std::max<int64_t>(rows, 2)));
      case 1:
        return ", j - i < " + s(random_.in(1, std::max<int64_t>(columns, 2)));
      case 2:
        return ", j < " + s(random_.in(1, columns + 1));
      case 3:
        return ", i + j < " + s(random_.in(1, rows + columns));
      default:
        return ", i < " + s(random_.in(1, rows + 1));
    }
  }
  std::string aggregation(double& bound, int64_t terms) {
    if (random_.percent(40)) return random_.percent(50) ? ">" : "<";
    if (random_.percent(5)) {
      bound = 2 * kMostExact;
      return "*";
    }
    bound *= static_cast<double>(terms);
    return "+";
  }
  std::string body(const Matrix& a, double& bound) {
    std::string first = a.name + "[i, j]";
    Matrix b = fitting(a);
    if (!random_.percent(35) || a.bound * b.bound > kMostExact) return first;
    bound = a.bound * b.bound;
    return first + " * " + b.name + "[" + (b.rows == 1 ? "0" : "i") + ", " +
           (b.columns == 1 ? "0" : "j") + "]";
  }
  void reduce_rows() {
    Matrix a = wide();
    double bound = a.bound;
    std::string term = body(a, bound), how = aggregation(bound, a.columns);
    add("$[i, 0: " + sizes(a.rows, 1) + "] = " + how + "(" + term + ")" +
            condition(a.rows, a.columns),
        a.rows, 1, bound);
  }
  void reduce_columns() {
    Matrix a = wide();
    double bound = a.bound;
    std::string term = body(a, bound), how = aggregation(bound, a.rows);
    add("$[0, j: " + sizes(1, a.columns) + "] = " + how + "(" + term + ")" +
            condition(a.rows, a.columns),
        1, a.columns, bound);
  }
  void whole() {
    Matrix a = wide();
    double bound = a.bound;
    std::string how = aggregation(bound, a.rows * a.columns);
    add("$[0, 0: 1, 1] = " + how + "(" + a.name + "[i, j])", 1, 1, bound);
  }

  void softmax() {
    Matrix a = wide();
    if (a.bound > kMostExponent) return;
    result_.exact = false;
    bool by_rows = random_.percent(60);
    std::string owned =
        by_rows ? "[i, 0: " + sizes(a.rows, 1) + "]" : "[0, j: " + sizes(1, a.columns) + "]";
    int64_t r = by_rows ? a.rows : 1, c = by_rows ? 1 : a.columns;
    std::string where = random_.percent(30) ? ", i - j < " + s(a.rows) : "";
    Matrix top = add("$" + owned + " = >(" + a.name + "[i, j])" + where, r, c, a.bound);
    Matrix e = add("$ = exp(" + a.name + " - " + top.name + ")", a.rows, a.columns, 1);
    if (random_.percent(30)) statement();
    Matrix total = add("$" + owned + " = +(" + e.name + "[i, j])" + where, r, c,
                       static_cast<double>(by_rows ? a.columns : a.rows));
    if (random_.percent(30)) statement();
    if (!where.empty() || random_.percent(20)) return;
    add("$ = " + e.name + " / " + total.name, a.rows, a.columns, 1);
  }

  void layer_norm() {
    Matrix a = wide();
    if (a.bound * a.bound * static_cast<double>(a.columns) > kMostExact) return;
    if (a.columns > kMostTerms) return;
    Matrix sum = add("$[i, 0: " + sizes(a.rows, 1) + "] = +(" + a.name + "[i, j])", a.rows, 1,
                     a.bound * static_cast<double>(a.columns));
    Matrix d = add("$ = " + a.name + " * " + s(a.columns) + " - " + sum.name, a.rows, a.columns,
                   2 * a.bound * static_cast<double>(a.columns));
    if (random_.percent(40)) statement();
    Matrix v =
        add("$[i, 0: " + sizes(a.rows, 1) + "] = +(" + d.name + "[i, j] * " + d.name + "[i, j])",
            a.rows, 1, d.bound * d.bound * static_cast<double>(a.columns));
    if (random_.percent(40)) statement();
    result_.exact = false;
    add("$ = " + d.name + " / sqrt(" + v.name + " + 1.0)", a.rows, a.columns, 1);
  }

  void stencil() {
    Matrix a = wide();
    int64_t taps = random_.in(1, 4), offset = random_.in(-2, 2), step = random_.in(1, 2);
    bool across = random_.percent(70);
    double bound = a.bound;
    std::string how = aggregation(bound, taps);
    std::string index = s(step) + " * " + (across ? "j" : "i") + " + k" +
                        (offset < 0 ? " - " + s(-offset) : " + " + s(offset));
    std::string at = across ? "[i, " + index + "]" : "[" + index + ", j]";
    add("$[i, j: " + sizes(a.rows, a.columns) + "] = " + how + "(" + a.name + at + "), k < " +
            s(taps),
        a.rows, a.columns, bound);
  }

  // Often of what a reduction makes, and with sums of what that reads.
  void pool() {
    Matrix a = wide();
    if (random_.percent(50)) {
      random_.percent(70) ? stencil() : prefix();
      a = known_.back();
    }
    if (random_.percent(30)) reduce_rows();
    bool across = a.columns > 1 && random_.percent(60);
    int64_t size = across ? a.columns : a.rows;
    int64_t step = random_.in(1, 4), width = random_.in(1, step + 1), offset = random_.in(0, 1);
    int64_t cells = std::max<int64_t>(random_.percent(80) ? (size - offset) / step : size, 1);
    double bound = a.bound;
    std::string how = aggregation(bound, width);
    std::string index = s(step) + " * " + (across ? "j" : "i") + " + k + " + s(offset);
    std::string at = across ? "[i, " + index + "]" : "[" + index + ", j]";
    int64_t rows = across ? a.rows : cells, columns = across ? cells : a.columns;
    Matrix p = add(
        "$[i, j: " + sizes(rows, columns) + "] = " + how + "(" + a.name + at + "), k < " + s(width),
        rows, columns, bound);
    bool like_its_operand = rows == a.rows && columns == a.columns;
    if (like_its_operand && random_.percent(50)) {
      add("$ = max(" + p.name + ", " + a.name + ")", rows, columns, std::max(bound, a.bound));
    }
  }

  void product() {
    Matrix a = wide();
    double bound = a.bound * a.bound * static_cast<double>(a.columns);
    if (bound > kMostExact) return;
    for (int i = 0; i < 8; ++i) {
      const Matrix& b = any();
      if (b.rows != a.columns) continue;
      bound = a.bound * b.bound * static_cast<double>(a.columns);
      if (bound > kMostExact) continue;
      add("$[i, j: " + sizes(a.rows, b.columns) + "] = +(" + a.name + "[i, k] * " + b.name +
              "[k, j])",
          a.rows, b.columns, bound);
      return;
    }
    add("$[i, j: " + sizes(a.rows, a.rows) + "] = +(" + a.name + "[i, k] * " + a.name + "[j, k])",
        a.rows, a.rows, bound);
  }

  void attention() {
    Matrix q = wide(), k = same_shape(q), v = same_shape(q);
    double bound = q.bound * k.bound * static_cast<double>(q.columns);
    if (bound * 0.125 > kMostExponent) return;
    result_.exact = false;
    std::string mask = random_.percent(40) ? ", i - j < " + s(q.rows) : "";
    std::string gaps = random_.percent(50) ? mask : "";
    Matrix p = add("$[i, j: " + sizes(q.rows, q.rows) + "] = +(" + q.name + "[i, k] * " + k.name +
                       "[j, k])" + gaps,
                   q.rows, q.rows, bound);
    std::string scale = random_.percent(50) ? " * 0.125" : " / 8.0";
    Matrix scaled = add("$ = " + p.name + scale, q.rows, q.rows, bound / 8);
    Matrix top = add("$[i, 0: " + sizes(q.rows, 1) + "] = >(" + scaled.name + "[i, j])" + mask,
                     q.rows, 1, bound / 8);
    Matrix e = add("$ = exp(" + scaled.name + " - " + top.name + ")", q.rows, q.rows,
                   mask.empty() ? 1 : 2 * kMostExact);
    if (random_.percent(30)) statement();
    Matrix total = add("$[i, 0: " + sizes(q.rows, 1) + "] = +(" + e.name + "[i, j])" + mask, q.rows,
                       1, static_cast<double>(q.rows));
    Matrix w = e;
    if (mask.empty()) w = add("$ = " + e.name + " / " + total.name, q.rows, q.rows, 1);
    if (random_.percent(30)) statement();
    add("$[i, j: " + sizes(q.rows, v.columns) + "] = +(" + w.name + "[i, k] * " + v.name +
            "[k, j])" + (mask.empty() ? "" : ", i - k < " + s(q.rows)),
        q.rows, v.columns, v.bound * static_cast<double>(q.rows));
  }

  void transpose() {
    Matrix a = wide();
    add("$[j, i: " + sizes(a.columns, a.rows) + "] = =(" + a.name + "[i, j])", a.columns, a.rows,
        a.bound);
  }
  // Cells at an end, or between those that are written, that nothing makes.
  void shifted() {
    Matrix a = wide();
    static const std::vector<std::string> kRows = {"i", "i", "i + 1", "2 * i", "i - 1"};
    static const std::vector<std::string> kColumns = {"j", "j + 1", "2 * j", "j - 1"};
    std::string at = random_.pick(kRows) + ", " + random_.pick(kColumns);
    int64_t rows = random_.percent(70) ? a.rows : 2 * a.rows;
    add("$[" + at + ": " + sizes(rows, a.columns) + "] = " + (random_.percent(50) ? "=" : "+") +
            "(" + a.name + "[i, j])",
        rows, a.columns, a.bound);
  }
  // One term for some cells, none for the others.
  void one_term() {
    Matrix a = wide();
    add("$[i, j: " + sizes(a.rows, a.columns) + "] = +(" + a.name + "[i, k]), k < 1, j < " +
            s(random_.in(1, a.columns)),
        a.rows, a.columns, a.bound);
  }
  void prefix() {
    Matrix a = wide();
    double bound = a.bound;
    std::string how = aggregation(bound, a.columns);
    bool across = random_.percent(60);
    std::string text = across ? "(" + a.name + "[i, k]), j - k < " + s(a.columns)
                              : "(" + a.name + "[k, j]), i - k < " + s(a.rows);
    add("$[i, j: " + sizes(a.rows, a.columns) + "] = " + how + text, a.rows, a.columns,
        bound * static_cast<double>(across ? 1 : a.rows));
  }
  void defaulted() {
    Matrix a = wide(), b = same_shape(a);
    double bound = a.bound;
    std::string how = aggregation(bound, 2);
    add("$[i, j: " + sizes(a.rows, a.columns) + "] = " + how + "(" + a.name +
            "[i, j + k + 1]), k < 2"
            " default " +
            b.name,
        a.rows, a.columns, std::max(bound, b.bound));
  }
  void reshaped() {
    Matrix a = wide();
    int64_t count = a.rows * a.columns;
    int64_t rows = 1;
    for (int i = 0; i < 8; ++i) {
      int64_t r = random_.in(1, count);
      if (count % r == 0) rows = r;
    }
    add("$ = reshape(" + a.name + ", " + sizes(rows, count / rows) + ")", rows, count / rows,
        a.bound);
  }

  void finish() {
    std::string outputs = known_.back().name;
    for (const Matrix& m : known_) {
      bool made = m.name[0] == 'T' && m.name != known_.back().name;
      if (made && random_.percent(15)) outputs += ", " + m.name;
    }
    result_.text = "function (" + declarations_ + ") -> (" + outputs + ") {" + statements_ + " }";
  }

  RandomSource random_;
  DType type_ = DType::f32;
  int64_t rows_ = 1, columns_ = 1;
  RowProgram result_;
  std::string declarations_, statements_;
  std::vector<Matrix> known_;
  int64_t count_ = 0;
};

}  // namespace

RowProgram row_program(uint64_t seed) { return Writer(seed).write(); }

}  // namespace tile::test
