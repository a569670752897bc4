#include "core/passes/normalize/plain_piece.h"

#include <algorithm>
#include <limits>

namespace tile {
namespace {

// The iterator that the form is; -1: it is constant, -2: it is neither.
int iterator_of(const Affine& form) {
  int found = -1;
  for (size_t i = 0; i < form.coefficients.size(); ++i) {
    const Rational& c = form.coefficients[i];
    if (c.is_zero()) continue;
    if (found >= 0 || c != Rational(1)) return -2;
    found = static_cast<int>(i);
  }
  return found >= 0 && !form.constant.is_zero() ? -2 : found;
}

bool holds(const Constraint& c) {
  const Rational& value = c.form.constant;
  return value.is_integer() && value.num() >= c.lo && value.num() < c.hi;
}

// How many of the first iterators the cells of the result are.
std::optional<size_t> first_iterators(const Access& store) {
  int next = 0;
  for (const Index& index : store.index) {
    int iterator = iterator_of(index.affine);
    if (iterator == -1) continue;
    if (iterator != next) return std::nullopt;
    ++next;
  }
  return static_cast<size_t>(next);
}

}  // namespace

std::optional<PlainDomain> plain_domain(const Piece& piece) {
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  std::optional<size_t> parallel = first_iterators(piece.stores.at(0));
  if (!parallel) return std::nullopt;
  PlainDomain domain{*parallel, std::vector<int64_t>(piece.iterators.size(), kNone)};
  for (const Constraint& c : piece.constraints) {
    int iterator = iterator_of(c.form);
    if (iterator == -2 || (iterator == -1 && !holds(c))) return std::nullopt;
    if (iterator < 0) continue;
    if (c.lo != 0) return std::nullopt;
    int64_t& extent = domain.box[static_cast<size_t>(iterator)];
    extent = std::min(extent, c.hi);
  }
  bool several = std::all_of(domain.box.begin(), domain.box.end(),
                             [](int64_t extent) { return extent >= 2 && extent != kNone; });
  return several ? std::optional(std::move(domain)) : std::nullopt;
}

}  // namespace tile
