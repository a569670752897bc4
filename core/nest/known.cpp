#include "core/nest/known.h"

#include <algorithm>
#include <utility>

#include "core/support/checked.h"

namespace tile::nest {
namespace {

using Terms = std::vector<std::pair<int64_t, Expr>>;  // coefficient, what it multiplies

void collect(const Expr& e, int64_t factor, Terms& terms) {
  switch (e.kind()) {
    case ExprKind::add:
      for (const Expr& arg : e.args()) collect(arg, factor, terms);
      return;
    case ExprKind::sub:
      collect(e.args()[0], factor, terms);
      collect(e.args()[1], checked_neg(factor), terms);
      return;
    case ExprKind::neg:
      collect(e.args()[0], checked_neg(factor), terms);
      return;
    case ExprKind::mul:
      if (e.args().size() == 2 && e.args()[0].is_constant()) {
        terms.emplace_back(checked_mul(factor, e.args()[0].value()), e.args()[1]);
        return;
      }
      break;
    case ExprKind::constant:
      return;
    default:
      break;
  }
  terms.emplace_back(factor, e);
}

// Multiples of `form` that leave `e` without one of its terms.
std::vector<int64_t> multiples(const Expr& e, const Expr& form) {
  Terms of_e, of_form;
  collect(e, 1, of_e);
  collect(form, 1, of_form);
  std::vector<int64_t> found;
  for (const auto& [have, term] : of_e) {
    for (const auto& [each, same] : of_form) {
      if (each == 0 || !(term == same) || trunc_mod(have, each) != 0) continue;
      int64_t times = trunc_div(have, each);
      if (times > 0) found.push_back(times);
    }
  }
  return found;
}

}  // namespace

size_t Known::learn(const std::vector<Expr>& nonnegative) {
  size_t before = forms_.size();
  forms_.insert(forms_.end(), nonnegative.begin(), nonnegative.end());
  return before;
}

size_t Known::learn_failed(const std::vector<Expr>& nonnegative, const Surroundings& at) {
  if (nonnegative.size() != 1) return forms_.size();
  return learn({at.clean(Expr(-1) - nonnegative[0])});
}

bool Known::proves_nonnegative(const Expr& e, const Surroundings& at) const {
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

bool Known::proves_negative(const Expr& e, const Surroundings& at) const {
  return !forms_.empty() && proves_nonnegative(at.clean(Expr(-1) - e), at);
}

}  // namespace tile::nest
