#include "core/kernel/forms/tensor_core_steps.h"

#include <algorithm>

#include "core/ir/analysis/accesses.h"
#include "core/support/checked.h"

namespace tile::tensor_cores {
namespace {

// A reduction along which a step may have several terms.
struct StepRange {
  int64_t extent = 1;
  int64_t most = 1;       // values that a box can span
  bool overhangs = true;  // values behind the last one may be in a box: they add zeros
};

// Powers of two whose product is `depth`, one of each range, such that the steps are fewest;
// between equals the innermost, the last, gets most.
class StepSearch {
 public:
  StepSearch(const std::vector<StepRange>& ranges, int64_t depth) : ranges_(ranges) {
    current_.assign(ranges.size(), 1);
    visit(ranges.size(), depth, 1);
  }
  std::vector<int64_t> best;  // empty: there are none

 private:
  // All ranges behind the first `count` have theirs.
  void visit(size_t count, int64_t rest, int64_t steps) {
    if (count == 0) {
      if (rest != 1 || (!best.empty() && steps >= least_)) return;
      best = current_;
      least_ = steps;
      return;
    }
    const StepRange& range = ranges_[count - 1];
    for (int64_t t = rest; t >= 1; t /= 2) {
      if (t > range.most || (!range.overhangs && range.extent % t != 0)) continue;
      current_[count - 1] = t;
      visit(count - 1, rest / t, checked_mul(steps, ceil_div(range.extent, t)));
    }
  }

  const std::vector<StepRange>& ranges_;
  std::vector<int64_t> current_;
  int64_t least_ = 0;
};

class StepChoice {
 public:
  StepChoice(const Product& p, const Piece& piece, const Factors& factors, bool strict)
      : p_(p), piece_(piece), factors_(factors), strict_(strict) {}

  // nullopt: boxes of a factor cannot span the reduction.
  std::optional<StepRange> range(IteratorId u) const {
    StepRange range{piece_.box[u], p_.depth};
    int ends = 0;  // factors whose cells behind the last term are zeros
    for (const Operand* o : {&p_.a, &p_.b}) {
      const Access& a = piece_.loads[o->load];
      std::optional<size_t> d = Factors::only_dimension(a, u);
      if (!d || (d == factors_.inner_dimension(a)) != o->k_inside) return std::nullopt;
      int64_t step = Factors::coefficient(a.index[*d], u);
      bool spans = step >= 1 && step <= (o->k_inside ? 1 : kMostStride);
      if (!spans || factors_.layout_of(a).shape[*d] == 1) return std::nullopt;
      if (!o->k_inside) range.most = std::min(range.most, kMostSpan / step + 1);
      ends += factors_.alone(a.index[*d], u) ? 1 : 0;
    }
    range.overhangs = ends == 2 || (ends == 1 && !strict_);
    return range;
  }

  // Reductions that move along dimensions of their own in both factors, outermost first as the
  // rows' factor lies in memory.
  std::vector<IteratorId> spanned() const {
    std::vector<IteratorId> list;
    for (size_t i = piece_.parallel_dims; i < piece_.box.size(); ++i) {
      IteratorId u(i);
      bool spans = factors_.has_terms(u) && piece_.box[u] > 1 && range(u);
      bool free = std::none_of(list.begin(), list.end(), [&](IteratorId v) { return meet(u, v); });
      if (spans && free) list.push_back(u);
    }
    const Access& a = piece_.loads[p_.a.load];
    auto distance = [&](IteratorId u) {
      return factors_.layout_of(a).strides[*Factors::only_dimension(a, u)];
    };
    std::stable_sort(list.begin(), list.end(),
                     [&](IteratorId u, IteratorId v) { return distance(u) > distance(v); });
    return list;
  }

 private:
  // In a dimension of a factor.
  bool meet(IteratorId u, IteratorId v) const {
    return std::any_of(piece_.loads.begin(), piece_.loads.end(), [&](const Access& a) {
      return Factors::only_dimension(a, u) == Factors::only_dimension(a, v);
    });
  }

  const Product& p_;
  const Piece& piece_;
  const Factors& factors_;
  bool strict_;
};

}  // namespace

std::optional<size_t> Factors::inner_dimension(const Access& a) const {
  const ArgumentLayout& b = layout_of(a);
  for (size_t d = b.shape.size(); d-- > 0;) {
    if (b.strides[d] == 1 && b.shape[d] > 1) return d;
  }
  return std::nullopt;
}

std::optional<size_t> Factors::only_dimension(const Access& a, IteratorId iterator) {
  std::optional<size_t> found;
  for (size_t d = 0; d < a.index.size(); ++d) {
    if (coefficient(a.index[d], iterator) == 0) continue;
    if (found) return std::nullopt;
    found = d;
  }
  return found;
}

bool Factors::alone(const Index& index, IteratorId iterator) const {
  for (size_t u = 0; u < piece_.box.size(); ++u) {
    bool other = IteratorId(u) != iterator && piece_.box[u] > 1;
    if (other && !index.affine.coefficient(u).is_zero()) return false;
  }
  return true;
}

bool Factors::has_terms(IteratorId iterator) const {
  return !piece_.is_parallel(iterator) && moves_with(piece_.loads[0], iterator.index()) &&
         moves_with(piece_.loads[1], iterator.index());
}

bool choose_steps(Product& product, const Piece& piece, const Factors& factors,
                  const std::pair<IteratorId, IteratorId>& inner, bool strict) {
  StepChoice choice(product, piece, factors, strict);
  const Operand &a = product.a, &b = product.b;
  auto inner_of = [&](const Operand& o) { return o.load == 0 ? inner.first : inner.second; };
  if (a.k_inside && b.k_inside && inner.first != inner.second) return false;
  if (a.k_inside || b.k_inside) {
    product.k = {inner_of(a.k_inside ? a : b)};
  } else {
    product.k = choice.spanned();
  }
  std::vector<StepRange> ranges;
  int64_t terms = 1;
  for (IteratorId u : product.k) {
    std::optional<StepRange> range = choice.range(u);
    if (!range) return false;
    ranges.push_back(*range);
    terms = checked_mul(terms, piece.box[u]);
  }
  product.k_tile = StepSearch(ranges, product.depth).best;
  return terms >= kLeastExtent && !product.k_tile.empty();
}

}  // namespace tile::tensor_cores
