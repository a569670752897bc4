#include <algorithm>
#include <cmath>

#include "core/support/checked.h"
#include "tests/random/draw/draft.h"

namespace tile::test {
namespace {

struct IndexRange {
  std::string name;
  int64_t range = 1;
  bool simple = false;  // stands alone in some access or constraint, which bounds it
};

// An index expression with its least and largest value.
struct Form {
  std::string text;
  Rational lo = 0, hi = 0;
};

class ContractionDrawer {
 public:
  ContractionDrawer(Draft& draft, DType type, const Known* from)
      : draft_(draft), random_(draft.random), type_(type), from_(from) {}

  Known draw() {
    aggregation_ = random_.pick(std::vector<std::string>{"+", "*", ">", "<", "="});
    draft_.feature("aggregation " + aggregation_);
    draw_indices();
    draw_output();
    draw_body();
    draw_constraints();
    return finish();
  }

 private:
  Form alone(size_t i) {
    indices_[i].simple = true;
    return {indices_[i].name, 0, indices_[i].range - 1};
  }
  Form scaled(size_t i, int64_t num, int64_t den) const {
    std::string text = indices_[i].name;
    if (num != 1) text = std::to_string(num) + " * " + text;
    if (den != 1) text += " / " + std::to_string(den);
    return {text, 0, Rational(num, den) * Rational(indices_[i].range - 1)};
  }
  static Form plus(const Form& a, const Form& b) {
    return {a.text + " + " + b.text, a.lo + b.lo, a.hi + b.hi};
  }
  static Form minus(const Form& a, const Form& b) {
    return {a.text + " - " + b.text, a.lo - b.hi, a.hi - b.lo};
  }
  static Form shifted(const Form& a, int64_t by) {
    if (by == 0) return a;
    std::string sign = by < 0 ? " - " : " + ";
    return {a.text + sign + std::to_string(std::abs(by)), a.lo + Rational(by), a.hi + Rational(by)};
  }
  static Form over(const Form& a, int64_t den) {
    return {"(" + a.text + ") / " + std::to_string(den), a.lo / Rational(den),
            a.hi / Rational(den)};
  }

  size_t any_index() { return static_cast<size_t>(random_.in(0, std::ssize(indices_) - 1)); }

  void draw_indices() {
    int64_t count = draft_.options.large ? random_.in(2, 4) : random_.in(1, 4);
    for (int64_t i = 0; i < count; ++i) {
      int64_t range = random_.in(2, 7);
      if (draft_.options.large) range = count == 2 ? random_.in(65, 170) : random_.in(7, 33);
      if (random_.percent(8)) range = 1;
      indices_.push_back({std::string(1, "ijklmn"[i]), range});
      points_ *= static_cast<double>(range);
    }
    if (draft_.options.large ? points_ < 4097 || points_ > 300000 : points_ > 1500) throw Redraw();
  }

  // Output.
  void draw_output() {
    bool assigns = aggregation_ == "=";
    size_t kept = indices_.size();
    if (!assigns)
      kept = static_cast<size_t>(random_.in(random_.percent(10) ? 0 : 1, std::ssize(indices_)));
    if (!assigns && kept == indices_.size() && kept > 1) --kept;
    size_t i = 0;
    if (kept >= 2 && random_.percent(30)) {
      draw_coupled(assigns);
      i = 2;
    }
    for (; i < kept; ++i) add_output(draw_output_index(i));
  }

  void draw_coupled(bool assigns) {
    draft_.feature("coupled output");
    int64_t second = indices_[1].range, kind = random_.in(0, assigns ? 1 : 3);
    if (kind == 0) {
      add_output(plus(scaled(0, 1, 1), scaled(1, 1, 1)));
      add_output(shifted(minus(scaled(0, 1, 1), scaled(1, 1, 1)), second - 1));
    } else if (kind == 1) {
      add_output(plus(scaled(0, second, 1), scaled(1, 1, 1)));
    } else if (kind == 2) {
      add_output(plus(scaled(0, random_.in(2, 3), 1), scaled(1, random_.in(1, 3), 1)));
    } else {
      draft_.feature("rational access");
      add_output(plus(scaled(0, 1, random_.in(2, 3)), scaled(1, 1, 1)));
    }
  }

  Form draw_output_index(size_t i) {
    if (random_.percent(8)) {
      draft_.feature("strided output");
      return shifted(scaled(i, 2, 1), random_.in(0, 1));
    }
    if (random_.percent(6)) {
      draft_.feature("rational access");
      return scaled(i, 1, 2);
    }
    return alone(i);
  }

  void add_output(const Form& form) {
    int64_t size = form.hi.floor() + 1;
    if (random_.percent(8)) size = std::max<int64_t>(1, size + random_.in(-1, 2));
    out_index_ += (out_sizes_.empty() ? "" : ", ") + form.text;
    out_sizes_.push_back(size);
  }

  // Accesses.
  Form draw_read() {
    size_t i = any_index(), k = any_index();
    int64_t kind = random_.in(0, 99);
    if (kind < 40 || i == k) return alone(i);
    if (kind < 52) return shifted(plus(scaled(i, 1, 1), scaled(k, 1, 1)), random_.in(-2, 0));
    if (kind < 70) {
      draft_.feature("strided access");
      return shifted(plus(scaled(i, random_.in(1, 3), 1), scaled(k, random_.in(1, 3), 1)),
                     random_.in(-1, 1));
    }
    if (kind < 76) return shifted(minus(scaled(i, 1, 1), scaled(k, 1, 1)), indices_[k].range - 1);
    if (kind < 82) {
      Form last{std::to_string(indices_[i].range - 1), indices_[i].range - 1,
                indices_[i].range - 1};
      return minus(last, scaled(i, 1, 1));
    }
    draft_.feature("rational access");
    if (kind < 88) return scaled(i, 1, random_.in(2, 3));
    if (kind < 94)
      return over(shifted(plus(scaled(i, 1, 1), scaled(k, 1, 1)), random_.in(-1, 1)), 2);
    return plus(scaled(i, 1, 2), scaled(k, 1, 2));
  }

  std::string draw_access(DType type, bool powers, double& bound) {
    if (from_ != nullptr) return read_from(bound);
    std::vector<Form> forms;
    int64_t rank = random_.in(1, 3);
    for (int64_t d = 0; d < rank; ++d) forms.push_back(draw_read());
    Shape shape;
    for (Form& form : forms) {
      int64_t size = std::max<int64_t>(1, form.hi.floor() + 1);
      if (random_.percent(12)) size = std::max<int64_t>(1, size + random_.in(-1, 1));
      shape.push_back(size);
    }
    if (wants_empty_ && random_.percent(50)) {
      wants_empty_ = false;
      if (random_.percent(50)) {
        shape[0] = 0;
      } else {
        forms[0] = shifted(forms[0], shape[0] + 40);
      }
    }
    Known tensor = draft_.input(type, shape, powers);
    bound = tensor.bound;
    return tensor.name + "[" + joined(forms) + "]";
  }

  // The earlier result, under indices of our own.
  std::string read_from(double& bound) {
    std::vector<Form> forms;
    for (size_t d = 0; d < from_->shape.size(); ++d) {
      size_t i = d < indices_.size() && random_.percent(70) ? d : any_index();
      forms.push_back(alone(i));
    }
    bound = from_->bound;
    std::string text = from_->name + "[" + joined(forms) + "]";
    from_ = nullptr;
    return text;
  }

  static std::string joined(const std::vector<Form>& forms) {
    std::string text;
    for (const Form& form : forms) text += (text.empty() ? "" : ", ") + form.text;
    return text;
  }

  void draw_body() {
    wants_empty_ = random_.percent(8);
    bool empty_wanted = wants_empty_;
    bool product = aggregation_ == "*";
    int64_t kind = random_.in(0, product ? 69 : 99);
    bool compares = draft_.may_compare() || from_ == nullptr;
    if (!compares && kind >= 70) kind = 60;
    double a = 0, b = 0, c = 0;
    std::string first = draw_access(type_, product, a);
    if (kind < 25) {
      draft_.feature("body access");
      body_ = first;
      term_ = a;
    } else if (kind < 55) {
      draft_.feature("body product");
      body_ = first + " * " + draw_access(draft_.another_type(type_), product, b);
      term_ = a * b;
    } else if (kind < 70) {
      draft_.feature("body sum");
      body_ = first + " + " + draw_access(draft_.another_type(type_), product, b);
      term_ = a + b;
    } else if (kind < 80) {
      draft_.feature("body conditional");
      std::string second = draw_access(type_, product, b);
      body_ = first + " == " + second + " ? " + draw_access(type_, product, c);
      term_ = c;
    } else {
      draw_expression(first, a);
    }
    if (product && kind >= 55) products_exact_ = false;
    if (empty_wanted && wants_empty_) constraints_ += ", " + indices_[0].name + " < 0";
    if (empty_wanted) draft_.feature("empty set");
  }

  void draw_expression(const std::string& first, double a) {
    draft_.feature("body expression");
    const IndexRange& index = indices_[any_index()];
    double b = 0, top = static_cast<double>(index.range);
    std::string second = draw_access(draft_.another_type(type_), false, b);
    switch (random_.in(0, 6)) {
      case 0:
        draft_.feature("index use");
        body_ = first + " * (" + index.name + " + 1) + " + second;
        term_ = a * top + b;
        break;
      case 1:
        body_ = "max(" + first + ", " + second + ") - 1";
        term_ = std::max(a, b) + 1;
        break;
      case 2:
        body_ = first + " > 0 ? " + first + " : " + second;
        term_ = std::max(a, b);
        break;
      case 3:
        draft_.feature("index use");
        body_ = index.name + " < 2 ? " + first + " : " + second;
        term_ = std::max(a, b);
        break;
      case 4:
        body_ = "abs(" + first + ") * " + second + " + " + first;
        term_ = a * b + a;
        break;
      case 5:
        body_ = "relu(" + first + " - " + second + ") + " + first + " * " + first;
        term_ = a + b + a * a;
        break;
      default:
        body_ = "exp(" + first + " * 0.125) * " + second;
        term_ = std::exp(a) * b;
        draft_.inexact();
    }
  }

  void draw_constraints() {
    for (IndexRange& index : indices_) {
      if (!index.simple) constraints_ += ", " + index.name + " < " + std::to_string(index.range);
    }
    if (!random_.percent(28)) {
      if (!constraints_.empty()) draft_.feature("constraint");
      return;
    }
    draft_.feature("constraint");
    size_t i = any_index(), k = any_index();
    std::string a = indices_[i].name, b = indices_[k].name;
    int64_t kind = random_.in(0, 3), top = std::max(indices_[i].range, indices_[k].range);
    if (i == k || kind == 0) {
      constraints_ +=
          ", " + a + " < " + std::to_string(std::max<int64_t>(1, indices_[i].range - 1));
    } else if (kind == 1) {
      draft_.feature("fractional constraint");
      constraints_ += ", " + a + " / 2 + " + b + " / 3 < " + std::to_string(top / 2 + 1);
    } else {
      draft_.feature("triangular constraint");
      constraints_ += ", " + a + " - " + b + " < " + std::to_string(top);
    }
  }

  Known finish() {
    std::string name = draft_.fresh(), sizes;
    for (size_t d = 0; d < out_sizes_.size(); ++d) {
      sizes += (d == 0 ? ": " : ", ") + std::to_string(out_sizes_[d]);
    }
    std::string statement =
        name + "[" + out_index_ + sizes + "] = " + aggregation_ + "(" + body_ + ")" + constraints_;
    Known bare = draft_.assign(name, statement, bound());
    if (aggregation_ == "*" && is_float(bare.type) && (!products_exact_ || points_ > 60)) {
      draft_.inexact();
    }
    if (!random_.percent(15)) return bare;
    draft_.feature("default");
    Known fill = draft_.input(bare.type, bare.shape);
    std::string filled = draft_.fresh();
    statement.replace(0, name.size(), filled);
    return draft_.assign(filled, statement + " default " + fill.name, bare.bound + fill.bound);
  }

  double bound() const {
    if (aggregation_ == "+") return term_ * points_;
    if (aggregation_ == "*") return 1;
    return term_;
  }

  Draft& draft_;
  RandomSource& random_;
  DType type_;
  const Known* from_;
  std::string aggregation_, out_index_, body_, constraints_;
  std::vector<IndexRange> indices_;
  Shape out_sizes_;
  double points_ = 1, term_ = 0;
  bool wants_empty_ = false, products_exact_ = true;
};

}  // namespace

Known draw_contraction(Draft& draft, DType type, const Known* from) {
  return ContractionDrawer(draft, type, from).draw();
}

}  // namespace tile::test
