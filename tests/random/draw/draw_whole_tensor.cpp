// Operations on whole tensors (rule 6.4).
#include <algorithm>
#include <numeric>

#include "tests/random/draw/workshop.h"

namespace tile::test {
namespace {

class Calls {
 public:
  explicit Calls(CompilerContext& shop) : shop_(shop), random_(shop.random), x_(shop.pick()) {}

  void draw() {
    int64_t kind = random_.in(0, 13);
    if (kind <= 1) return reshape();
    if (x_.rank() == 0) throw Redraw();
    axis_ = static_cast<size_t>(random_.in(0, std::ssize(x_.dims) - 1));
    along_ = ", " + std::to_string(axis_);
    switch (kind) {
      case 2:
      case 3:
        return transpose();
      case 4:
      case 5:
        return concat();
      case 6:
      case 7:
        return slice();
      case 8:
        return gather();
      case 9:
        return scatter();
      case 10:
        return sort();
      case 11:
        return arg();
      case 12:
        return index();
      default:
        return cumsum();
    }
  }

 private:
  Term same(double bound = 0) const { return {"", std::max(bound, x_.bound), x_.unit, x_.exact}; }
  int64_t size() const { return x_.values.shape[axis_]; }
  static std::string product(const std::vector<std::string>& dims) {
    std::string text;
    for (const std::string& dim : dims) {
      bool composed = dim.find(' ') != std::string::npos;
      text += (text.empty() ? "" : " * ") + (composed ? "(" + dim + ")" : dim);
    }
    return text.empty() ? "1" : text;
  }

  // Into one dimension, with a dimension of size 1, two neighbours joined, or one split.
  void reshape() {
    std::vector<std::string> dims;
    int64_t kind = random_.in(0, 3);
    if (kind == 0 || x_.rank() == 0) {
      dims = {product(x_.dims)};
    } else if (kind == 1) {
      dims = x_.dims;
      dims.insert(dims.begin() + random_.in(0, std::ssize(dims)), "1");
    } else if (kind == 2 && x_.rank() >= 2) {
      auto d = random_.in(0, std::ssize(x_.dims) - 2);
      dims = x_.dims;
      dims[static_cast<size_t>(d)] = product({dims.begin() + d, dims.begin() + d + 2});
      dims.erase(dims.begin() + d + 1);
    } else {
      auto d = static_cast<size_t>(random_.in(0, std::ssize(x_.dims) - 1));
      int64_t size = x_.values.shape[d], by = size % 3 == 0 ? 3 : size % 2 == 0 ? 2 : 1;
      dims = x_.dims;
      dims[d] = std::to_string(size / by);
      dims.insert(dims.begin() + static_cast<ptrdiff_t>(d) + (random_.percent(50) ? 1 : 0),
                  std::to_string(by));
    }
    std::string text = " = reshape(" + x_.name;
    for (const std::string& dim : dims) text += ", " + dim;
    shop_.assign(text + ")", dims, same());
  }

  void transpose() {
    std::vector<size_t> axes(x_.rank());
    std::iota(axes.begin(), axes.end(), size_t{0});
    for (size_t i = axes.size(); i-- > 1;) {
      std::swap(axes[i], axes[static_cast<size_t>(random_.in(0, static_cast<int64_t>(i)))]);
    }
    std::string text = " = transpose(" + x_.name;
    std::vector<std::string> dims;
    for (size_t axis : axes) {
      text += ", " + std::to_string(axis);
      dims.push_back(x_.dims[axis]);
    }
    shop_.assign(text + ")", dims, same());
  }

  void concat() {
    const Made& y = shop_.pick([&](const Made& m) {
      if (m.type != x_.type || m.rank() != x_.rank()) return false;
      for (size_t d = 0; d < m.rank(); ++d) {
        if (d != axis_ && m.dims[d] != x_.dims[d]) return false;
      }
      return true;
    });
    std::vector<std::string> dims = x_.dims;
    dims[axis_] = x_.dims[axis_] + " + " + y.dims[axis_];
    Term t = same(y.bound);
    t.exact = t.exact && y.exact;
    t.unit = std::min(t.unit, y.unit);
    shop_.assign(" = concat(" + std::to_string(axis_) + ", " + x_.name + ", " + y.name + ")", dims,
                 t);
  }

  void slice() {
    int64_t start = random_.in(0, std::max<int64_t>(0, size() - 1));
    int64_t stop = random_.in(start, size()), step = random_.percent(70) ? 1 : random_.in(2, 3);
    std::vector<std::string> dims = x_.dims;
    dims[axis_] = std::to_string((stop - start + step - 1) / step);
    std::string text = " = slice(" + x_.name + along_;
    for (int64_t n : {start, stop, step}) text += ", " + std::to_string(n);
    shop_.assign(text + ")", dims, same());
  }

  // Places from an input, or made of values: indices outside are clamped.
  Made places(const std::vector<std::string>& dims, int64_t most) {
    if (random_.percent(60)) return shop_.integers(dims, -1, most);
    Made from = shop_.pick(
        [&](const Made& m) { return m.dims == dims && m.exact && !shop_.options.special; });
    return shop_.assign(" = as_int(" + from.name + ", 32)", from.dims, leaf_of(from, ""));
  }

  void gather() {
    std::vector<std::string> at{random_.percent(70) ? shop_.any_dim()
                                                    : std::to_string(random_.in(1, 5))};
    if (random_.percent(20)) at.push_back(shop_.any_dim());
    Made index = places(at, x_.values.shape[0]);
    std::vector<std::string> dims = index.dims;
    dims.insert(dims.end(), x_.dims.begin() + 1, x_.dims.end());
    if (x_.values.shape[0] == 0) throw Redraw();
    shop_.assign(" = gather(" + x_.name + ", " + index.name + ")", dims, same());
  }

  void scatter() {
    std::string cells = random_.percent(60) ? shop_.any_dim() : std::to_string(random_.in(1, 6));
    if (shop_.size(cells) == 0) throw Redraw();
    Made index = places({x_.dims[0]}, shop_.size(cells));
    std::vector<std::string> dims = x_.dims;
    dims[0] = cells;
    shop_.assign(" = scatter(" + x_.name + ", " + index.name + ", " + cells + ")", dims,
                 same(x_.bound * static_cast<double>(x_.values.shape[0])));
  }

  void sort() { shop_.assign(" = sort(" + x_.name + along_ + ")", x_.dims, same()); }

  void arg() {
    if (!x_.exact || size() == 0) throw Redraw();
    std::vector<std::string> dims = x_.dims;
    dims.erase(dims.begin() + static_cast<ptrdiff_t>(axis_));
    std::string name = random_.percent(50) ? "argmax" : "argmin";
    shop_.assign(" = " + name + "(" + x_.name + along_ + ")", dims,
                 {"", static_cast<double>(size()), 1, true});
  }

  void index() {
    Term t = same(x_.bound + static_cast<double>(size()));
    t.unit = std::min(t.unit, 1.0);
    shop_.assign(
        " = index(" + x_.name + along_ + ") " + (random_.percent(50) ? "+ " : "- ") + x_.name,
        x_.dims, t);
  }

  void cumsum() {
    shop_.assign(" = cumsum(" + x_.name + along_ + ")", x_.dims,
                 same(x_.bound * static_cast<double>(size())));
  }

  CompilerContext& shop_;
  RandomSource& random_;
  Made x_;
  size_t axis_ = 0;
  std::string along_;
};

}  // namespace

void draw_whole_tensor(CompilerContext& shop) { Calls(shop).draw(); }

}  // namespace tile::test
