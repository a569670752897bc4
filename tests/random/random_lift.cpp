#include "tests/random/random_lift.h"

#include <algorithm>
#include <functional>
#include <random>

namespace tile::test {
namespace {

struct Nested {
  double value = 0;
  std::vector<Nested> items;
};
using Dims = std::vector<int>;
using Apply = std::function<Nested(const Nested&)>;
struct Step {
  std::string text;
  Apply apply;
  Dims dims;  // of the result
};

Nested make(const std::vector<Nested>& items) { return {0, items}; }
Nested number(double v) { return {v, {}}; }

// Element i of an array of n padded with a boundary rule, spelled out by cases.
int boundary(const std::string& rule, int i, int n) {
  if (rule == "Clamp") return i < 0 ? 0 : i >= n ? n - 1 : i;
  while (i < 0 || i >= n) {
    if (rule == "Wrap") {
      i += i < 0 ? n : -n;
    } else {
      i = i < 0 ? -1 - i : 2 * n - 1 - i;
    }
  }
  return i;
}

// As many elements as `like`, all of one value.
Nested all_of(const Nested& like, double value) {
  if (like.items.empty()) return number(value);
  Nested out;
  for (const Nested& item : like.items) out.items.push_back(all_of(item, value));
  return out;
}

Nested transpose(const Nested& x) {
  Nested out;
  for (size_t j = 0; j < x.items[0].items.size(); ++j) {
    Nested row;
    for (const Nested& item : x.items) row.items.push_back(item.items[j]);
    out.items.push_back(row);
  }
  return out;
}
Nested map(const Nested& x, const Apply& f) {
  Nested out;
  for (const Nested& item : x.items) out.items.push_back(f(item));
  return out;
}
Nested slide(const Nested& x, int size, int step) {
  Nested out;
  for (int at = 0; at + size <= static_cast<int>(x.items.size()); at += step) {
    out.items.push_back(make({x.items.begin() + at, x.items.begin() + at + size}));
  }
  return out;
}

class Generator {
 public:
  explicit Generator(unsigned seed, bool views = false) : random_(seed), views_(views) {}

  int pick(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }

  // A function on arrays of these dimensions.
  Step function(Dims dims, int steps, int depth) {
    Step all{"", [](const Nested& x) { return x; }, std::move(dims)};
    for (int i = 0; i < steps; ++i) {
      Step next = step(all.dims, depth);
      Apply first = all.apply, then = next.apply;
      all.apply = [first, then](const Nested& x) { return then(first(x)); };
      all.text = all.text.empty() ? next.text : next.text + " o " + all.text;
      all.dims = next.dims;
    }
    if (all.text.empty()) all.text = "Id()";
    return all;
  }

 private:
  static int count(const Dims& dims) {
    int total = 1;
    for (int d : dims) total *= d;
    return total;
  }
  static Dims inner(const Dims& dims) { return {dims.begin() + 1, dims.end()}; }
  static Dims outer(int n, Dims dims) {
    dims.insert(dims.begin(), n);
    return dims;
  }
  int divisor(int n) {
    std::vector<int> all;
    for (int d = 1; d <= n; ++d) {
      if (n % d == 0) all.push_back(d);
    }
    return all[static_cast<size_t>(pick(0, static_cast<int>(all.size()) - 1))];
  }

  Step step(const Dims& dims, int depth) {
    for (;;) {
      if (dims.empty()) return scalar_step();
      bool computes = views_ ? pick(0, 7) == 0 : pick(0, 2) == 0;
      Step s = computes ? computing(dims, depth) : rearranging(dims, depth);
      if (!s.text.empty() && count(s.dims) <= 400 && s.dims.size() <= 4) return s;
    }
  }

  Step scalar_step() {
    if (pick(0, 1) == 0) {
      return {
          "(v => v * 0.5f + 1.0f)", [](const Nested& x) { return number(x.value * 0.5 + 1); }, {}};
    }
    return {"(v => v > 2.0f ? 3.0f - v : v)",
            [](const Nested& x) { return number(x.value > 2 ? 3 - x.value : x.value); },
            {}};
  }

  Step mapped(const Dims& dims, int depth) {
    Step f = function(inner(dims), pick(1, 2), depth - 1);
    Apply apply = f.apply;
    const char* names[] = {"Map", "MapSeq", "MapGlb(0)"};
    return {std::string(names[pick(0, 2)]) + "(" + f.text + ")",
            [apply](const Nested& x) { return map(x, apply); }, outer(dims[0], f.dims)};
  }

  Step rearranging(const Dims& dims, int depth) {
    int n = dims[0];
    bool nested = dims.size() >= 2;
    switch (pick(0, 9)) {
      case 0:
        return permutation(n, dims);
      case 1: {
        int size = pick(1, std::min(n, 4)), by = pick(1, 4);
        return {"Slide(" + std::to_string(size) + ", " + std::to_string(by) + ")",
                [size, by](const Nested& x) { return slide(x, size, by); },
                outer((n - size) / by + 1, outer(size, inner(dims)))};
      }
      case 2:
      case 3:
        return padded(dims);
      case 4: {
        int d = divisor(n);
        return {"Split(" + std::to_string(d) + ")", [d](const Nested& x) { return slide(x, d, d); },
                outer(n / d, outer(d, inner(dims)))};
      }
      case 5:
        if (!nested) return {};
        return {"Join()",
                [](const Nested& x) {
                  Nested out;
                  for (const Nested& i : x.items) {
                    out.items.insert(out.items.end(), i.items.begin(), i.items.end());
                  }
                  return out;
                },
                outer(n * dims[1], {dims.begin() + 2, dims.end()})};
      case 6:
        if (!nested) return {};
        return {"Transpose()", transpose, outer(dims[1], outer(n, {dims.begin() + 2, dims.end()}))};
      case 7: {
        if (n < 2) return {};
        return {"Tail()",
                [](const Nested& x) { return make({x.items.begin() + 1, x.items.end()}); },
                outer(n - 1, inner(dims))};
      }
      case 8: {
        int i = pick(0, n - 1);
        if (dims.size() < 2 && depth > 1) return {};
        return {"At(" + std::to_string(i) + ")",
                [i](const Nested& x) { return x.items[static_cast<size_t>(i)]; }, inner(dims)};
      }
      default:
        return depth > 0 ? mapped(dims, depth) : Step{};
    }
  }

  Step permutation(int n, const Dims& dims) {
    std::string f;
    std::function<int(int)> to;
    int k = pick(-3, 5), s = divisor(n);
    switch (pick(0, 3)) {
      case 0:
        f = "reverse";
        to = [n](int i) { return n - 1 - i; };
        break;
      case 1:
        f = "shift(" + std::to_string(k) + ")";
        to = [n, k](int i) { return ((i + k) % n + n) % n; };
        break;
      case 2:
        f = "stride(" + std::to_string(s) + ")";
        to = [n, s](int i) { return i / (n / s) + s * (i % (n / s)); };
        break;
      default:
        f = "(i, n) => (n - 1 - i) * 1";
        to = [n](int i) { return n - 1 - i; };
    }
    bool writes = pick(0, 1) == 1 && f[0] != '(';
    return {(writes ? "Scatter(" : "Gather(") + f + ")",
            [n, to, writes](const Nested& x) {
              Nested out = x;
              for (int i = 0; i < n; ++i) {
                auto a = static_cast<size_t>(i), b = static_cast<size_t>(to(i));
                if (writes) {
                  out.items[b] = x.items[a];
                } else {
                  out.items[a] = x.items[b];
                }
              }
              return out;
            },
            dims};
  }

  Step padded(const Dims& dims) {
    int n = dims[0], l = pick(0, 3), r = pick(0, 3);
    const char* rules[] = {"Clamp", "Mirror", "Wrap", "Constant(1.5f)", "Constant(0.0f)"};
    std::string rule = rules[pick(0, views_ ? 4 : dims.size() == 1 ? 3 : 2)];
    double outside = rule.find('1') != std::string::npos ? 1.5 : 0;
    return {"Pad(" + std::to_string(l) + ", " + std::to_string(r) + ", " + rule + ")",
            [n, l, r, rule, outside](const Nested& x) {
              Nested out;
              for (int i = -l; i < n + r; ++i) {
                bool filled = rule.starts_with("Con") && (i < 0 || i >= n);
                out.items.push_back(filled ? all_of(x.items[0], outside)
                                           : x.items[static_cast<size_t>(boundary(rule, i, n))]);
              }
              return out;
            },
            outer(n + l + r, inner(dims))};
  }

  Step computing(const Dims& dims, int depth) {
    int n = dims[0];
    if (dims.size() > 1) {
      if (pick(0, 4) == 0 && dims.size() == 2) return row_sum(dims);
      if (pick(0, 4) == 0 && dims.size() == 2) {
        return {"Reduce(add, 0.5f) o Join()",
                [](const Nested& x) { return make({number(total(x) + 0.5)}); },
                {1}};
      }
      return depth > 0 ? mapped(dims, depth) : Step{};
    }
    int which = pick(0, 9);
    if (which < 4) return reducing(which, n);
    if (which < 7) return combining(which, n);
    return which < 9 ? repeated(which, n) : mapped(dims, 1);
  }

  // Reductions and scans of a vector.
  Step reducing(int which, int n) {
    switch (which) {
      case 0:
        return reduction("Reduce(add, 0.5f)", 0.5, [](double a, double v) { return a + v; });
      case 1:
        return reduction("Reduce(max, 0.25f)", 0.25,
                         [](double a, double v) { return std::max(a, v); });
      case 2:
        return reduction("ReduceSeq((a, v) => a * 0.5f + v, 1.0f)", 1,
                         [](double a, double v) { return a * 0.5 + v; });
      default: {
        bool sum = pick(0, 1) == 0;
        return {sum ? "ScanSeq(add, 0.0f)" : "ScanSeq((a, v) => a * 0.5f - v, 0.0f)",
                [sum](const Nested& x) {
                  Nested out;
                  double a = 0;
                  for (const Nested& i : x.items) {
                    a = sum ? a + i.value : a * 0.5 - i.value;
                    out.items.push_back(number(a));
                  }
                  return out;
                },
                {n}};
      }
    }
  }

  // Values of a vector that depend on several of its elements.
  static Step combining(int which, int n) {
    switch (which) {
      case 4:
        return {"(x => Map((p, q) => p - 2.0f * q) $ Zip(x, Gather(reverse) $ x))",
                [](const Nested& x) {
                  Nested out = x;
                  size_t count = x.items.size();
                  for (size_t i = 0; i < count; ++i) {
                    out.items[i].value = x.items[i].value - 2 * x.items[count - 1 - i].value;
                  }
                  return out;
                },
                {n}};
      case 5:
        return {"(x => Map(v => v - (At(0) o Reduce(add, 0.0f) $ x)) $ x)",
                [](const Nested& x) {
                  double sum = total(x);
                  return map(x, [sum](const Nested& v) { return number(v.value - sum); });
                },
                {n}};
      default:
        return {
            "((s, m) => Map((p, q) => p + q * m) $ Zip(s, Gather(reverse) $ s)) o "
            "(x => Tuple(ScanSeq(add, 0.0f) $ x, At(0) $ x))",
            [](const Nested& x) {
              Nested s = x;
              for (size_t i = 1; i < x.items.size(); ++i) {
                s.items[i].value += s.items[i - 1].value;
              }
              Nested out = s;
              for (size_t i = 0; i < x.items.size(); ++i) {
                out.items[i].value += s.items[x.items.size() - 1 - i].value * x.items[0].value;
              }
              return out;
            },
            {n}};
    }
  }

  // The best of neighbours, and a vector that is averaged with itself several times.
  Step repeated(int which, int n) {
    switch (which) {
      case 7:
        return {
            "Map(t => Get(t, 0) - Get(t, 1)) o ReduceSeq((a, t) => Get(t, 0) > Get(a, 0) ? t : "
            "a, Tuple(-1000.0f, 0.0f)) o (x => Zip(x, Gather(shift(1)) $ x))",
            [](const Nested& x) {
              double best = -1000, next = 0;
              for (size_t i = 0; i < x.items.size(); ++i) {
                if (x.items[i].value <= best) continue;
                best = x.items[i].value;
                next = x.items[(i + 1) % x.items.size()].value;
              }
              return make({number(best - next)});
            },
            {1}};
      default: {
        int steps = pick(2, 7);  // some are statements, more a loop
        return {"Iterate(" + std::to_string(steps) +
                    ", (x => Map((p, q) => p * 0.5f + q * 0.25f) $ Zip(x, Gather(shift(1)) $ x)))",
                [steps](const Nested& x) {
                  Nested now = x;
                  for (int k = 0; k < steps; ++k) {
                    Nested next = now;
                    size_t count = x.items.size();
                    for (size_t i = 0; i < count; ++i) {
                      next.items[i].value =
                          now.items[i].value * 0.5 + now.items[(i + 1) % count].value * 0.25;
                    }
                    now = next;
                  }
                  return now;
                },
                {n}};
      }
    }
  }

  static double total(const Nested& x) {
    double sum = x.value;
    for (const Nested& i : x.items) sum += total(i);
    return sum;
  }

  static Step reduction(const std::string& text, double start,
                        const std::function<double(double, double)>& f) {
    return {text,
            [start, f](const Nested& x) {
              double a = start;
              for (const Nested& i : x.items) a = f(a, i.value);
              return make({number(a)});
            },
            {1}};
  }

  static Step row_sum(const Dims& dims) {
    return {"Reduce((acc, row) => Map(add) $ Zip(acc, row), Generate(i => 0.0f, " +
                std::to_string(dims[1]) + "))",
            [](const Nested& x) {
              Nested sum = x.items[0];
              for (size_t r = 1; r < x.items.size(); ++r) {
                for (size_t i = 0; i < sum.items.size(); ++i) {
                  sum.items[i].value += x.items[r].items[i].value;
                }
              }
              return make({sum});
            },
            {1, dims[1]}};
  }

  std::mt19937 random_;
  bool views_;  // mostly what rearranges and pads, with zeros too
};

void flatten(const Nested& x, size_t rank, std::vector<double>& out) {
  if (rank == 0) out.push_back(x.value);
  for (const Nested& item : x.items) flatten(item, rank - 1, out);
}

Nested random_array(Generator& g, const Dims& dims, size_t d, std::vector<double>& flat) {
  if (d == dims.size()) {
    flat.push_back(g.pick(-8, 8) * 0.25);
    return number(flat.back());
  }
  Nested out;
  for (int i = 0; i < dims[d]; ++i) out.items.push_back(random_array(g, dims, d + 1, flat));
  return out;
}

LiftTrial trial(Generator& g, const std::vector<int>& extents, int least, int most) {
  LiftTrial t;
  std::string type = "Float";
  for (int d = g.pick(1, 3); d > 0; --d) {
    t.dims.push_back(extents[static_cast<size_t>(g.pick(0, static_cast<int>(extents.size()) - 1))]);
  }
  const char* names[] = {"N", "M", "K"};
  for (size_t d = t.dims.size(); d-- > 0;) {
    bool symbolic = g.pick(0, 2) > 0;
    type = "ArrayType(" + type + ", " + (symbolic ? names[d] : std::to_string(t.dims[d])) + ")";
  }
  Step f = g.function(t.dims, g.pick(least, most), 2);
  t.text = "val f = fun(" + type + ", x => " + f.text + " $ x)";
  Nested result = f.apply(random_array(g, t.dims, 0, t.input));
  flatten(result, f.dims.size(), t.expected);
  t.expected_dims = f.dims;
  return t;
}

}  // namespace

LiftTrial lift_trial(unsigned seed) {
  Generator g(seed);
  return trial(g, {1, 2, 3, 4, 5, 6, 7}, 1, 5);
}

LiftTrial lift_view_trial(unsigned seed) {
  Generator g(seed, true);
  return trial(g, {1, 1, 2, 2, 3, 5, 7, 11}, 2, 5);
}

namespace {

std::string array_type(const Dims& dims) {
  std::string type = "Float";
  for (size_t d = dims.size(); d-- > 0;) {
    type = "ArrayType(" + type + ", " + std::to_string(dims[d]) + ")";
  }
  return type;
}

// Cells of two arrays of one shape, in pairs.
std::string zipped(Generator& g, size_t rank, const std::string& a, const std::string& b) {
  static const char* kBodies[] = {"p * q + 1.0f", "p - q * 0.5f", "p > q ? p : q * q",
                                  "p * p + q * 0.25f"};
  if (rank == 1) {
    return std::string("Map((p, q) => ") + kBodies[g.pick(0, 3)] + ") $ Zip(" + a + ", " + b + ")";
  }
  std::string row = std::to_string(rank);
  return "Map((a" + row + ", b" + row + ") => " + zipped(g, rank - 1, "a" + row, "b" + row) +
         ") $ Zip(" + a + ", " + b + ")";
}

// A window of two dimensions around each cell.
std::string stencil(Generator& g) {
  static const char* kRules[] = {"clamp", "wrap", "mirror"};
  static const char* kWindows[] = {"Reduce(add, 0.0f) o Join()", "Reduce(max, -100.0f) o Join()",
                                   "(w => (At(0) o At(1) $ w) * 0.5f + (At(2) o At(0) $ w))",
                                   "(w => (At(1) o At(1) $ w) * (At(2) o At(1) $ w))"};
  int window = g.pick(0, 3);
  return std::string("Map(Map(") + kWindows[window] + ")) o Slide2D(3, 1) o Pad2D(1, 1, " +
         kRules[g.pick(0, 2)] + ")";
}

}  // namespace

LiftPair lift_pair(unsigned seed) {
  Generator g(seed ^ 0x5eedU);
  LiftPair pair;
  for (int d = g.pick(1, 3); d > 0; --d) pair.x.push_back(g.pick(1, 9));
  std::string body;
  Dims dims;
  if (pair.x.size() == 2 && g.pick(0, 2) == 0) {
    pair.z = {pair.x[1], g.pick(1, 9)};
    dims = {pair.x[0], pair.z[1], 1};
    body =
        "Map(row => Map(col => Reduce(add, 0.0f) o Map(mult) $ Zip(row, col)) $ Transpose() $ z) $ "
        "x";
  } else {
    Step f = g.function(pair.x, g.pick(0, 3), 2);
    pair.z = dims = f.dims;
    if (dims.empty()) return lift_pair(seed + 1000003U);
    body = zipped(g, dims.size(), "(" + f.text + " $ x)", "z");
  }
  if (dims.size() == 2 && g.pick(0, 1) == 0) body = stencil(g) + " $ (" + body + ")";
  bool window = body.rfind("Map(Map(", 0) == 0 && dims.size() == 2;
  if (!window) {
    Step after = g.function(dims, g.pick(0, 2), 2);
    body = after.text + " $ (" + body + ")";
  }
  pair.text =
      "val f = fun(" + array_type(pair.x) + ", " + array_type(pair.z) + ", (x, z) => " + body + ")";
  return pair;
}

}  // namespace tile::test
