// Contractions whose indices are shifted, strided, masked, scanned, reversed or divided.
#include <algorithm>

#include "tests/random/draw/workshop.h"

namespace tile::test {
namespace {

// How one dimension of the tensor is read, and what that makes of the output.
struct Read {
  std::string index;       // in the access
  std::string out, size;   // of the output; empty: reduced away
  std::string constraint;  // ", k < 3"
  std::string weight;      // an index that a kernel of weights may have
  int64_t taps = 0;        // its size
  bool injective = true;   // each output cell comes from one place
};

class Windows {
 public:
  explicit Windows(CompilerContext& shop) : shop_(shop), random_(shop.random) {}

  void draw() {
    Made x = shop_.pick([](const Made& m) { return m.rank() >= 1 && m.rank() <= 4; });
    auto special = static_cast<size_t>(random_.in(0, std::ssize(x.dims) - 1));
    for (size_t d = 0; d < x.rank(); ++d) {
      bool bends = d == special || random_.percent(20);
      reads_.push_back(bends ? bent(d, x.dims[d]) : plain(d, x.dims[d]));
    }
    Term body = leaf_of(x, x.name + "[" + access() + "]");
    body = weighted(body);
    if (random_.percent(20)) body = draw_term(shop_, {body});
    std::string aggregation = choose_aggregation();
    std::string text =
        "[" + output() + "] = " + aggregation + "(" + body.text + ")" + constraints();
    if (random_.percent(10)) {
      const Made& fill = shop_.input(x.type, out_dims_);
      body.exact = body.exact && fill.exact;
      body.unit = std::min(body.unit, fill.unit);
      text += " default " + fill.name;
    }
    shop_.assign(text, out_dims_, body);
  }

 private:
  static std::string letter(size_t d) { return std::string(1, "abcd"[d]); }
  static std::string tap(size_t d) { return std::string(1, "stuv"[d]); }

  Read plain(size_t d, const std::string& dim) {
    Read r{letter(d), letter(d), dim, "", "", 0};
    if (random_.percent(12)) r = {letter(d), "", "", "", "", 0, false};
    return r;
  }

  Read bent(size_t d, const std::string& dim) {
    int64_t kind = random_.in(0, 99);
    if (kind < 34) return window(d, dim);
    if (kind < 54) return scan(d, dim);
    if (kind < 74) return moved(d, dim);
    if (kind < 88) return rational(d, dim);
    return stored_apart(d, dim);
  }

  Read window(size_t d, const std::string& dim) {
    std::string o = letter(d), k = tap(d);
    int64_t taps = random_.in(1, 4), stride = random_.percent(65) ? 1 : random_.in(2, 3);
    int64_t dilation = random_.percent(80) ? 1 : 2, shift = random_.in(0, taps - 1);
    if (random_.percent(15)) stride = taps;
    std::string index = (stride == 1 ? "" : std::to_string(stride) + " * ") + o + " + " +
                        (dilation == 1 ? "" : std::to_string(dilation) + " * ") + k;
    if (shift != 0 && stride != taps) index += " - " + std::to_string(shift);
    std::string size = dim;
    if (stride != 1)
      size = "(" + dim + " + " + std::to_string(stride - 1) + ") / " + std::to_string(stride);
    if (stride == 1 && random_.percent(25)) size = dim + " + 2";
    return {index, o, size, ", " + k + " < " + std::to_string(taps), k, taps, taps == 1};
  }

  Read scan(size_t d, const std::string& dim) {
    std::string o = letter(d), k = tap(d);
    static const std::vector<std::string> kRanges = {" < ", " + 1 < ", " - 1 < "};
    std::string limit = random_.percent(60) ? dim : std::to_string(random_.in(2, 6));
    std::string range = ", " + (random_.percent(65) ? o + " - " + k : k + " - " + o) +
                        random_.pick(kRanges) + limit;
    return {k, o, dim, range, "", 0, false};
  }

  Read moved(size_t d, const std::string& dim) {
    std::string o = letter(d);
    switch (random_.in(0, 4)) {
      case 0:
        return {dim + " - 1 - " + o, o, dim, "", "", 0};
      case 1:
        return {o + " + 1", o, dim, "", "", 0};
      case 2:
        return {o + " - 2", o, dim + " + 1", "", "", 0};
      case 3:
        return {"2 * " + o + " + 1", o, dim + " / 2", "", "", 0};
      default:
        return {o, o, dim, ", " + o + " - 1 < " + std::to_string(random_.in(1, 9)), "", 0};
    }
  }

  Read rational(size_t d, const std::string& dim) {
    std::string o = letter(d), k = tap(d);
    switch (random_.in(0, 3)) {
      case 0:
        return {o + " / 2", o, "2 * " + dim, "", "", 0};
      case 1:
        return {"(" + o + " + " + k + ") / 2", o, "2 * " + dim, ", " + k + " < 2", k, 2, false};
      case 2:
        return {"(" + o + " + 1) / 3", o, "2 * " + dim, "", "", 0};
      default:
        return {"(" + o + " - " + k + " + 1) / 2", o, "2 * " + dim, ", " + k + " < 3", k, 3, false};
    }
  }

  // The output's index is no name: gaps, transposed convolutions.
  Read stored_apart(size_t d, const std::string& dim) {
    std::string i = letter(d), k = tap(d);
    switch (random_.in(0, 3)) {
      case 0:
        return {i, "2 * " + i, "2 * " + dim, "", "", 0};
      case 1:
        return {i, "2 * " + i + " + " + k, "2 * " + dim + " + 1", ", " + k + " < 3", k, 3, false};
      case 2:
        return {i, i + " + 1", dim + " + 2", "", "", 0};
      default:
        return {i, i + " + " + k, dim, ", " + k + " < 2", k, 2, false};
    }
  }

  std::string access() const {
    std::string text;
    for (const Read& r : reads_) text += (text.empty() ? "" : ", ") + r.index;
    return text;
  }
  std::string output() {
    std::string names, sizes;
    std::vector<const Read*> order;
    for (const Read& r : reads_) {
      if (!r.out.empty()) order.push_back(&r);
    }
    if (order.size() > 1 && random_.percent(20)) std::swap(order[0], order.back());
    for (const Read* r : order) {
      names += (names.empty() ? "" : ", ") + r->out;
      sizes += (sizes.empty() ? "" : ", ") + r->size;
      out_dims_.push_back(r->size);
    }
    if (!channel_.empty()) {
      names += (names.empty() ? "o" : ", o");
      sizes += (sizes.empty() ? "" : ", ") + channel_;
      out_dims_.push_back(channel_);
    }
    return names + (sizes.empty() ? "" : ": " + sizes);
  }
  std::string constraints() const {
    std::string text;
    for (const Read& r : reads_) text += r.constraint;
    return text;
  }

  // Times a kernel over the taps, with output channels or one for each cell of a kept dimension.
  Term weighted(const Term& body) {
    std::string index;
    std::vector<std::string> dims;
    for (const Read& r : reads_) {
      if (r.taps == 0) continue;
      index += (index.empty() ? "" : ", ") + r.weight;
      dims.push_back(std::to_string(r.taps));
    }
    if (index.empty() || random_.percent(45)) return body;
    if (random_.percent(40)) {
      channel_ = shop_.any_dim();
      index += ", o";
      dims.push_back(channel_);
    }
    if (!reads_.empty() && reads_.back().taps == 0 && random_.percent(40)) {
      const Read& last = reads_.back();
      bool reduced = last.out.empty();
      if (last.out == last.index && !reduced) {
        index += ", " + last.index;
        dims.push_back(last.size);
      }
    }
    const Made& weights = shop_.input(shop_.any_type(), dims);
    return product_of(body, leaf_of(weights, weights.name + "[" + index + "]"));
  }

  std::string choose_aggregation() {
    bool injective =
        std::all_of(reads_.begin(), reads_.end(), [](const Read& r) { return r.injective; });
    if (injective && random_.percent(40)) return "=";
    int64_t kind = random_.in(0, 99);
    return kind < 62 ? "+" : kind < 84 ? ">" : "<";
  }

  CompilerContext& shop_;
  RandomSource& random_;
  std::vector<Read> reads_;
  std::vector<std::string> out_dims_;
  std::string channel_;
};

}  // namespace

void draw_windows(CompilerContext& shop) { Windows(shop).draw(); }

}  // namespace tile::test
