// Interval arithmetic: constant bounds of polynomials and atoms.
#include <algorithm>
#include <limits>

#include "core/simplify/simplifier.h"
#include "core/support/checked.h"

namespace tile::algebra {
namespace {

constexpr Wide kMax = std::numeric_limits<int64_t>::max();
constexpr Wide kMin = std::numeric_limits<int64_t>::min();

// Bounds beyond 64 bits become infinite outward, and the nearest 64-bit integer inward.
Interval make_interval(Wide lo, Wide hi) {
  if (lo < kMin) lo = -kInfinity;
  if (lo > kMax) lo = kMax;
  if (hi > kMax) hi = kInfinity;
  if (hi < kMin) hi = kMin;
  return {lo, hi};
}

bool finite(Wide v) { return v > -kInfinity && v < kInfinity; }

Wide multiply_bounds(Wide a, Wide b) {
  if (a == 0 || b == 0) return 0;
  if (finite(a) && finite(b)) return a * b;
  return (a < 0) == (b < 0) ? kInfinity : -kInfinity;
}

Interval add(const Interval& a, const Interval& b) {
  Wide lo = finite(a.lo) && finite(b.lo) ? a.lo + b.lo : -kInfinity;
  Wide hi = finite(a.hi) && finite(b.hi) ? a.hi + b.hi : kInfinity;
  return make_interval(lo, hi);
}

Interval multiply(const Interval& a, const Interval& b) {
  Wide c[4] = {multiply_bounds(a.lo, b.lo), multiply_bounds(a.lo, b.hi),
               multiply_bounds(a.hi, b.lo), multiply_bounds(a.hi, b.hi)};
  return make_interval(*std::min_element(c, c + 4), *std::max_element(c, c + 4));
}

Interval square(const Interval& a) {
  Interval r = multiply(a, a);
  if (a.lo < 0 && a.hi > 0) r.lo = 0;
  return r;
}

Wide floor_quotient(Wide a, Wide b) {
  Wide q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

// The quotient a / b for finite b > 0 under a rounding; infinities stay.
Wide quotient_bound(ExprKind kind, Wide a, Wide b) {
  if (!finite(a)) return a;
  if (!finite(b)) return a < 0 && kind == ExprKind::floor_div ? -1 : 0;
  return kind == ExprKind::floor_div ? floor_quotient(a, b) : a / b;
}

Interval quotient(ExprKind kind, const Interval& a, const Interval& b) {
  if (b.lo <= 0) return {};
  Wide lo = std::min(quotient_bound(kind, a.lo, b.lo), quotient_bound(kind, a.lo, b.hi));
  Wide hi = std::max(quotient_bound(kind, a.hi, b.lo), quotient_bound(kind, a.hi, b.hi));
  return make_interval(lo, hi);
}

// Remainders lie strictly within the divisor, and between 0 and a dividend of one sign.
Interval remainder(ExprKind kind, const Interval& a, const Interval& b) {
  if (b.lo <= 0) return {};
  Wide most = finite(b.hi) ? b.hi - 1 : kInfinity;
  if (a.lo >= 0) return {a.hi < b.lo ? a.lo : 0, std::min(a.hi, most)};
  if (kind == ExprKind::floor_mod) return {0, most};
  return make_interval(std::max(a.lo, -most), a.hi <= 0 ? 0 : std::min(a.hi, most));
}

}  // namespace

Interval Simplifier::interval(const Polynomial& p) {
  Interval sum{0, 0};
  for (const Term& term : p.terms) {
    Interval product{term.coefficient, term.coefficient};
    for (size_t i = 0; i < term.atoms.size(); ++i) {
      Interval range = atom_interval(term.atoms[i]);
      if (i + 1 < term.atoms.size() && compare(term.atoms[i], term.atoms[i + 1]) == 0) {
        range = square(range);
        ++i;
      }
      product = multiply(product, range);
    }
    sum = add(sum, product);
  }
  return sum;
}

Interval Simplifier::atom_interval(const Expr& e) {
  return e.kind() == ExprKind::variable ? variable_info(e.name()).range : atom_info(e).range;
}

Interval Simplifier::operation_interval(const Expr& e, const std::vector<Polynomial>& args) {
  auto at = [&](size_t i) { return interval(args[i]); };
  switch (e.kind()) {
    case ExprKind::less:
    case ExprKind::equal:
      return {0, 1};
    case ExprKind::min: {
      Interval a = at(0), b = at(1);
      return {std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
    }
    case ExprKind::max: {
      Interval a = at(0), b = at(1);
      return {std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
    }
    case ExprKind::select: {
      Interval a = at(1), b = at(2);
      return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)};
    }
    case ExprKind::exact_div:
    case ExprKind::trunc_div:
    case ExprKind::floor_div:
      return quotient(e.kind(), at(0), at(1));
    case ExprKind::trunc_mod:
    case ExprKind::floor_mod:
      return remainder(e.kind(), at(0), at(1));
    case ExprKind::mul:
      return multiply(at(0), at(1));
    default:
      return {};
  }
}

Simplifier::AtomInfo& Simplifier::atom_info(const Expr& e) {
  auto found = atoms_.find(e.node());
  if (found != atoms_.end()) return found->second;
  AtomInfo info;
  info.keep = e;
  for (const Expr& arg : e.args()) {
    info.args.push_back(expand(arg));
    info.rank = std::max(info.rank, rank(info.args.back()) + 1);
  }
  info.range = operation_interval(e, info.args);
  return atoms_.emplace(e.node(), std::move(info)).first->second;
}

// Forgets what holds only on the way to an arm, for work whose result is kept.
class Simplifier::Assume {
 public:
  Assume(Simplifier& s, std::vector<Polynomial> facts) : s_(s), facts_(std::move(facts)) {
    std::swap(s_.facts_, facts_);
    std::swap(s_.done_, done_);
  }
  ~Assume() {
    std::swap(s_.facts_, facts_);
    std::swap(s_.done_, done_);
  }
  Assume(const Assume&) = delete;
  Assume& operator=(const Assume&) = delete;

 private:
  Simplifier& s_;
  std::vector<Polynomial> facts_;
  std::unordered_map<const ExprNode*, Polynomial> done_;
};

Polynomial Simplifier::run_assuming(const Expr& e, const std::vector<Polynomial>& facts) {
  std::vector<Polynomial> all = facts_;
  all.insert(all.end(), facts.begin(), facts.end());
  Assume assume(*this, std::move(all));
  return run(e);
}

Simplifier::VariableInfo& Simplifier::variable_info(const std::string& name) {
  auto [at, inserted] = variables_.try_emplace(name);
  // An entry in the making answers as unbounded, so ranges that refer to each other in a circle
  // are safe, only less useful.
  VariableInfo& entry = at->second;
  auto range = ranges_.of.find(name);
  if (!inserted || range == ranges_.of.end()) return entry;
  VariableInfo info;
  try {
    Assume nothing(*this, {});
    if (range->second.lo) {
      info.lo = run(*range->second.lo);
      info.has_lo = true;
      info.range.lo = interval(info.lo).lo;
      info.rank = rank(info.lo) + 1;
    }
    if (range->second.hi) {
      info.hi = run(*range->second.hi);
      info.has_hi = true;
      info.range.hi = interval(info.hi).hi;
      info.rank = std::max(info.rank, rank(info.hi) + 1);
    }
    info.fixed = info.has_lo && info.has_hi && info.lo == info.hi;
    entry = std::move(info);
  } catch (const Overflow&) {
  } catch (const TooDeep&) {
  }
  return entry;
}

int Simplifier::rank(const Expr& e) {
  return e.kind() == ExprKind::variable ? variable_info(e.name()).rank : atom_info(e).rank;
}

int Simplifier::rank(const Polynomial& p) {
  int highest = 0;
  for (const Term& term : p.terms) {
    for (const Expr& a : term.atoms) highest = std::max(highest, rank(a));
  }
  return highest;
}

}  // namespace tile::algebra
