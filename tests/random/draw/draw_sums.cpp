// Contractions without windows: statistics, products, contractions of several tensors, diagonals.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/random/draw/workshop.h"

namespace tile::test {
namespace {

constexpr size_t kMostIndices = 5;
constexpr double kLargestExponent = 120;  // of a product of f32, whose own is 127

class Sums {
 public:
  explicit Sums(CompilerContext& shop) : shop_(shop), random_(shop.random) {}

  void draw() {
    std::vector<Term> leaves{leaf(shop_.pick([](const Made& m) { return m.rank() >= 1; }), true)};
    int64_t more = random_.percent(45) ? 0 : random_.in(1, 2);
    for (int64_t i = 0; i < more; ++i) leaves.push_back(another());
    choose_kept();
    choose_aggregation();
    Term body = body_of(leaves);
    if (aggregation_ == "*" && may_overflow(body)) aggregation_ = "+";
    if (aggregation_ == "*") body = multiplied(body);
    std::string text =
        "[" + output() + "] = " + aggregation_ + "(" + body.text + ")" + constraint();
    std::vector<std::string> dims = out_dims_;
    if (random_.percent(12)) text += filled(dims, body);
    shop_.assign(text, dims, body);
  }

 private:
  struct Index {
    std::string name, dim;
  };

  std::string new_index(const std::string& dim) {
    if (indices_.size() >= kMostIndices) throw Redraw();
    indices_.push_back({std::string(1, "ijklmn"[indices_.size()]), dim});
    return indices_.back().name;
  }
  // An access, with indices of the same sizes where there are some.
  Term leaf(const Made& tensor, bool first) {
    std::string text;
    std::vector<std::string> used;
    for (const std::string& dim : tensor.dims) {
      std::vector<std::string> same;
      for (const Index& i : indices_) {
        bool taken = std::find(used.begin(), used.end(), i.name) != used.end();
        if (i.dim == dim && (!taken || random_.percent(10))) same.push_back(i.name);
      }
      bool reuse = !same.empty() && (first ? random_.percent(6) : random_.percent(85));
      std::string name = dim == "1" && random_.percent(70) ? "0"
                         : reuse                           ? random_.pick(same)
                                                           : new_index(dim);
      used.push_back(name);
      text += (text.empty() ? "" : ", ") + name;
    }
    return leaf_of(tensor, tensor.name + "[" + text + "]");
  }
  // A tensor that shares a dimension with the first, or a new one.
  Term another() {
    if (indices_.empty()) throw Redraw();
    if (random_.percent(15)) {
      std::vector<std::string> dims{random_.pick(indices_).dim};
      if (random_.percent(60)) dims.push_back(shop_.any_dim());
      if (random_.percent(50)) std::reverse(dims.begin(), dims.end());
      return leaf(shop_.input(shop_.any_type(), dims), false);
    }
    const Made& y = shop_.pick([&](const Made& m) {
      return std::any_of(m.dims.begin(), m.dims.end(), [&](const std::string& dim) {
        return std::any_of(indices_.begin(), indices_.end(),
                           [&](const Index& i) { return i.dim == dim; });
      });
    });
    return leaf(y, false);
  }

  void choose_kept() {
    if (indices_.empty()) throw Redraw();
    for (size_t i = 0; i < indices_.size(); ++i) {
      if (random_.percent(60)) kept_.push_back(i);
    }
    if (kept_.size() == indices_.size() && random_.percent(70)) {
      kept_.erase(kept_.begin() + random_.in(0, std::ssize(kept_) - 1));
    }
    if (kept_.size() > 1 && random_.percent(30)) {
      std::swap(kept_[0], kept_[static_cast<size_t>(random_.in(1, std::ssize(kept_) - 1))]);
    }
    if (kept_.size() > 4) throw Redraw();
  }

  void choose_aggregation() {
    int64_t kind = random_.in(0, 99);
    aggregation_ = kind < 66 ? "+" : kind < 85 ? ">" : kind < 97 ? "<" : "*";
    if (kept_.size() == indices_.size() && random_.percent(50)) aggregation_ = "=";
  }

  Term body_of(const std::vector<Term>& leaves) {
    if (leaves.size() == 3 && random_.percent(20) && leaves[0].exact && leaves[1].exact) {
      Term t{leaves[0].text + " == " + leaves[1].text + " ? " + leaves[2].text, leaves[2].bound,
             leaves[2].unit, leaves[2].exact};
      return t;
    }
    bool products = leaves.size() > 1 && random_.percent(60);
    if (leaves.size() == 1 && random_.percent(45)) return leaves[0];
    if (!products) {
      std::vector<Term> all = leaves;
      if (leaves.size() == 1 && random_.percent(30)) all.push_back(leaves[0]);
      return draw_term(shop_, all);
    }
    Term t = leaves[0];
    for (size_t i = 1; i < leaves.size(); ++i) t = product_of(t, leaves[i]);
    return t;
  }

  // The output's indices and sizes; dimensions of size 1 stand where a statistic keeps its place.
  std::string output() {
    std::string names, sizes;
    auto add = [&](const std::string& name, const std::string& dim) {
      names += (names.empty() ? "" : ", ") + name;
      sizes += (sizes.empty() ? "" : ", ") + dim;
      out_dims_.push_back(dim);
    };
    bool keeps = random_.percent(40) && indices_.size() <= 3;
    if (keeps) {
      for (size_t i = 0; i < indices_.size(); ++i) {
        bool stays = std::find(kept_.begin(), kept_.end(), i) != kept_.end();
        stays ? add(indices_[i].name, indices_[i].dim) : add("0", "1");
      }
    } else {
      for (size_t i : kept_) add(indices_[i].name, indices_[i].dim);
    }
    return names + (sizes.empty() ? "" : ": " + sizes);
  }

  std::string constraint() {
    if (!random_.percent(15)) return "";
    const Index &a = random_.pick(indices_), &b = random_.pick(indices_);
    if (a.name == b.name) return ", " + a.name + " < " + std::to_string(random_.in(1, 5));
    switch (random_.in(0, 3)) {
      case 0:
        return ", " + a.name + " - " + b.name + " < " + a.dim;
      case 1:
        return ", " + a.name + " + " + b.name + " < " + std::to_string(random_.in(1, 12));
      case 2:
        return ", " + a.name + " - " + b.name + " + 1 < 3";
      default:
        return ", " + a.name + " / 2 + " + b.name + " / 3 < " + std::to_string(random_.in(1, 5));
    }
  }

  // Whether some of a product's factors alone may be too large for a float: their order then says
  // whether the product is zero, infinite or, of both, not a number.
  bool may_overflow(const Term& factor) const {
    double factors = 1;
    for (const Index& i : indices_) factors *= static_cast<double>(shop_.size(i.dim));
    return factors * std::log2(std::max(factor.bound, 1.0)) > kLargestExponent;
  }

  // What the product over the indices that are not kept is made of: each factor is a multiple of
  // the unit, their product one of the unit's power. A product of fewer digits than that power has
  // is the same in any order, as long as none of the powers is too small for a float.
  Term multiplied(Term factor) const {
    double factors = 1;
    for (size_t i = 0; i < indices_.size(); ++i) {
      bool kept = std::find(kept_.begin(), kept_.end(), i) != kept_.end();
      if (!kept) factors *= static_cast<double>(shop_.size(indices_[i].dim));
    }
    factor.unit = std::pow(std::min(factor.unit, 1.0), factors);
    factor.exact = factor.exact && factor.unit >= std::numeric_limits<float>::min();
    return factor;
  }

  // A default for cells that stay empty: a tensor of the same shape and type, which bind checks.
  std::string filled(const std::vector<std::string>& dims, Term& body) {
    const Made& fill = random_.percent(50)
                           ? shop_.pick([&](const Made& m) { return m.dims == dims; })
                           : shop_.input(shop_.any_type(), dims);
    body.exact = body.exact && fill.exact;
    body.unit = std::min(body.unit, fill.unit);
    return " default " + fill.name;
  }

  CompilerContext& shop_;
  RandomSource& random_;
  std::vector<Index> indices_;
  std::vector<size_t> kept_;
  std::vector<std::string> out_dims_;
  std::string aggregation_;
};

}  // namespace

void draw_sums(CompilerContext& shop) { Sums(shop).draw(); }

}  // namespace tile::test
