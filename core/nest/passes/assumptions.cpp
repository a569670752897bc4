#include "core/nest/passes/assumptions.h"

#include <algorithm>

#include "core/simplify/polynomial.h"
#include "core/support/checked.h"

namespace tile::nest {
namespace {

// Multiples of `form` that leave `e` without one of its terms.
std::vector<int64_t> multiples(const Expr& e, const Expr& form) {
  algebra::Polynomial of_e = algebra::expand(e);
  std::vector<int64_t> found;
  for (const algebra::Term& each : algebra::expand(form).terms) {
    const algebra::Term* have = each.atoms.empty() ? nullptr : find_term(of_e, each.atoms);
    if (have == nullptr || trunc_mod(have->coefficient, each.coefficient) != 0) continue;
    int64_t times = trunc_div(have->coefficient, each.coefficient);
    if (times > 0) found.push_back(times);
  }
  return found;
}

}  // namespace

size_t Assumptions::learn(const std::vector<Expr>& nonnegative) {
  size_t before = forms_.size();
  forms_.insert(forms_.end(), nonnegative.begin(), nonnegative.end());
  return before;
}

size_t Assumptions::learn_failed(const std::vector<Expr>& nonnegative, const LoopContext& at) {
  if (nonnegative.size() != 1) return forms_.size();
  return learn({at.clean(Expr(-1) - nonnegative[0])});
}

bool Assumptions::proves_nonnegative(const Expr& e, const LoopContext& at) const {
  try {
    return std::any_of(forms_.begin(), forms_.end(), [&](const Expr& form) {
      std::vector<int64_t> times = multiples(e, form);
      return std::any_of(times.begin(), times.end(), [&](int64_t n) {
        return nest::proves_nonnegative(at.clean(e - Expr(n) * form), at.ranges());
      });
    });
  } catch (const Overflow&) {
    return false;
  }
}

bool Assumptions::proves_negative(const Expr& e, const LoopContext& at) const {
  return !forms_.empty() && proves_nonnegative(at.clean(Expr(-1) - e), at);
}

}  // namespace tile::nest
