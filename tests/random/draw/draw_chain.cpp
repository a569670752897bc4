// Statements that belong together, as networks have them: a row's or column's statistics and what
// they scale, attention, gates, layers with residuals; each step with variations.
#include <algorithm>

#include "tests/random/draw/workshop.h"

namespace tile::test {
namespace {

class Chain {
 public:
  explicit Chain(CompilerContext& shop) : shop_(shop), random_(shop.random) {}

  void draw() {
    int64_t kind = random_.in(0, 9);
    if (kind < 5) {
      normalised(shop_.pick([](const Made& m) { return m.rank() >= 1 && m.rank() <= 3; }));
    } else if (kind < 7) {
      attention();
    } else if (kind < 9) {
      layer();
    } else {
      gates();
    }
  }

 private:
  using Dims = std::vector<std::string>;

  static std::string indices(size_t rank, size_t from = 0) {
    std::string text;
    for (size_t d = 0; d < rank; ++d)
      text += (d == 0 ? "" : ", ") + std::string(1, "ijkl"[from + d]);
    return text;
  }
  static std::string joined(const Dims& dims) {
    std::string text;
    for (const std::string& dim : dims) text += (text.empty() ? "" : ", ") + dim;
    return text;
  }
  size_t axis_of(const Made& x) const {
    return random_.percent(65) ? x.rank() - 1
                               : static_cast<size_t>(random_.in(0, std::ssize(x.dims) - 1));
  }

  // A statistic along an axis that keeps its place.
  Made statistic(const Made& x, size_t axis, const std::string& aggregation, bool squares) {
    std::string out, access = indices(x.rank());
    Dims dims = x.dims;
    dims[axis] = "1";
    for (size_t d = 0; d < x.rank(); ++d) {
      out += (d == 0 ? "" : ", ") + (d == axis ? "0" : std::string(1, "ijkl"[d]));
    }
    Term t = leaf_of(x, x.name + "[" + access + "]");
    if (squares) t = product_of(t, t);
    std::string range = random_.percent(6) ? ", " + std::string(1, "ijkl"[axis]) + " < 3" : "";
    return shop_.assign(
        "[" + out + ": " + joined(dims) + "] = " + aggregation + "(" + t.text + ")" + range, dims,
        t);
  }

  Made cells(const std::string& text, const Made& like, const Term& values) {
    return shop_.assign(" = " + text, like.dims, values);
  }
  Term difference_of(const Made& x, const Made& y) const {
    return sum_of(leaf_of(x, x.name), leaf_of(y, y.name), " - ");
  }

  Made curved(const Made& d) {
    Term t = leaf_of(d, d.name);
    if (shop_.options.inexact && random_.percent(65)) {
      t = {"exp(min(" + d.name + ", 1))", 3, 0x1p-30, false};
    } else if (random_.percent(50)) {
      t = product_of(t, t);
    } else {
      t = call_of(random_.percent(50) ? "abs" : "relu", t, d.bound, d.exact);
    }
    return cells(t.text, d, t);
  }

  Made scaled(const Made& e, const Made& s) {
    Term inexact{"", e.bound, 0x1p-30, false};
    if (!shop_.options.inexact) {
      Term t = random_.percent(50) ? product_of(leaf_of(e, e.name), leaf_of(s, s.name))
                                   : difference_of(e, s);
      return cells(t.text, e, t);
    }
    switch (random_.in(0, 3)) {
      case 0:
        return cells(e.name + " / (abs(" + s.name + ") + 1)", e, inexact);
      case 1:
        return cells(e.name + " * rsqrt(abs(" + s.name + ") / 4 + 0.001)", e, inexact);
      case 2:
        return cells("log(abs(" + s.name + ") + 0.5) - " + e.name, e, inexact);
      default:
        return cells(e.name + " / sqrt(square(" + s.name + ") + 0.1)", e, inexact);
    }
  }

  // Maximum or mean, distances, their sizes, a sum, a quotient; axes may change on the way.
  Made normalised(const Made& from) {
    Made x = from;
    size_t axis = axis_of(x);
    Made d = x;
    if (random_.percent(75)) {
      bool mean = random_.percent(50);
      Made m = statistic(x, axis, mean ? "+" : random_.percent(80) ? ">" : "<", false);
      if (mean && random_.percent(80)) {
        Term quarter{m.name + " * 0.25", m.bound, m.unit * 0.25, m.exact};
        m = cells(quarter.text, m, quarter);
      }
      Term t = difference_of(x, m);
      d = cells(t.text, x, t);
    }
    Made e = random_.percent(85) ? curved(d) : d;
    if (random_.percent(15)) axis = axis_of(x);
    Made s = statistic(e, axis, random_.percent(85) ? "+" : ">", random_.percent(25));
    Made p = scaled(random_.percent(25) ? d : e, s);
    if (random_.percent(35)) p = affine(p);
    if (random_.percent(20)) statistic(p, axis_of(p), random_.percent(60) ? "+" : ">", false);
    return p;
  }

  Made affine(const Made& p) {
    Dims last{p.dims.back()};
    const Made& gain = shop_.input(shop_.any_type(), last);
    const Made& offset = shop_.input(shop_.any_type(), last);
    Term t = sum_of(product_of(leaf_of(p, p.name), leaf_of(gain, gain.name)),
                    leaf_of(offset, offset.name));
    return cells(t.text, p, t);
  }

  // x's last dimension times a matrix.
  Made product(const Made& x, const std::string& columns, bool turned) {
    Dims matrix = turned ? Dims{columns, x.dims.back()} : Dims{x.dims.back(), columns};
    const Made& w = shop_.input(shop_.any_type(), matrix);
    Dims dims = x.dims;
    dims.back() = columns;
    std::string rows = indices(x.rank() - 1), comma = rows.empty() ? "" : rows + ", ";
    Term t = product_of(leaf_of(x, x.name + "[" + comma + "k]"),
                        leaf_of(w, w.name + (turned ? "[o, k]" : "[k, o]")));
    return shop_.assign("[" + comma + "o: " + joined(dims) + "] = +(" + t.text + ")", dims, t);
  }

  void layer() {
    Made x = shop_.pick([](const Made& m) { return m.rank() >= 1 && m.rank() <= 3; });
    bool residual = random_.percent(50);
    Made y = product(x, residual ? x.dims.back() : shop_.any_dim(), random_.percent(40));
    if (random_.percent(60)) {
      const Made& b = shop_.input(shop_.any_type(), {y.dims.back()});
      Term t = sum_of(leaf_of(y, y.name), leaf_of(b, b.name));
      if (random_.percent(60)) t = call_of("relu", t, t.bound, t.exact);
      y = cells(t.text, y, t);
    }
    if (residual) {
      Term t = sum_of(leaf_of(y, y.name), leaf_of(x, x.name));
      y = cells(t.text, y, t);
    }
    if (random_.percent(50)) normalised(y);
  }

  void attention() {
    std::string s = shop_.any_dim(), d = shop_.any_dim();
    DType type = shop_.any_type();
    auto given = [&] {
      bool made = random_.percent(50);
      Dims dims{s, d};
      try {
        if (made)
          return shop_.pick([&](const Made& m) { return m.dims == dims && is_float(m.type); });
      } catch (const Redraw&) {
      }
      return shop_.input(type, dims);
    };
    Made q = given(), k = random_.percent(15) ? q : given(), v = random_.percent(15) ? k : given();
    Term dot = product_of(leaf_of(q, q.name + "[i, d]"), leaf_of(k, k.name + "[j, d]"));
    std::string mask = random_.percent(40) ? ", i - j < " + s : "";
    Made scores =
        shop_.assign("[i, j: " + s + ", " + s + "] = +(" + dot.text + ")" + mask, {s, s}, dot);
    if (random_.percent(50)) {
      Term t = product_of(leaf_of(scores, scores.name), {"0.125", 0.125, 0.125});
      scores = cells(t.text, scores, t);
    }
    Made p = random_.percent(85) ? normalised(scores) : scores;
    Term out = product_of(leaf_of(p, p.name + "[i, j]"), leaf_of(v, v.name + "[j, d]"));
    shop_.assign(
        "[i, d: " + s + ", " + d + "] = +(" + out.text + ")" + (random_.percent(30) ? mask : ""),
        {s, d}, out);
  }

  Made gate(const Made& all, int64_t which, const std::string& dim) {
    int64_t size = shop_.size(dim);
    Dims dims = all.dims;
    dims.back() = dim;
    std::string text = " = slice(" + all.name + ", " + std::to_string(all.rank() - 1) + ", " +
                       std::to_string(which * size) + ", " + std::to_string((which + 1) * size) +
                       ", 1)";
    Made part = shop_.assign(text, dims, leaf_of(all, ""));
    if (!shop_.options.inexact) return part;
    std::string f = which == 2 ? "tanh" : "sigmoid";
    return cells(f + "(" + part.name + ")", part, {"", 1, 0x1p-30, false});
  }

  // The step of an LSTM.
  void gates() {
    std::string b = shop_.any_dim(), h = shop_.any_dim();
    DType type = shop_.any_type();
    Made x = shop_.input(type, {b, shop_.any_dim()}), hidden = shop_.input(type, {b, h}),
         cell = shop_.input(type, {b, h});
    Made a = product(x, "4 * " + h, false), u = product(hidden, "4 * " + h, false);
    Term both = sum_of(leaf_of(a, a.name), leaf_of(u, u.name));
    Made all = cells(both.text, a, both);
    Made i = gate(all, 0, h), f = gate(all, 1, h), g = gate(all, 2, h), o = gate(all, 3, h);
    Term kept = product_of(leaf_of(f, f.name), leaf_of(cell, cell.name));
    Term next = sum_of(kept, product_of(leaf_of(i, i.name), leaf_of(g, g.name)));
    Made c = cells(next.text, cell, next);
    Term out = shop_.options.inexact ? Term{o.name + " * tanh(" + c.name + ")", 1, 0x1p-30, false}
                                     : sum_of(leaf_of(o, o.name), leaf_of(c, c.name), " - ");
    cells(out.text, c, out);
  }

  CompilerContext& shop_;
  RandomSource& random_;
};

}  // namespace

void draw_chain(CompilerContext& shop) { Chain(shop).draw(); }

}  // namespace tile::test
