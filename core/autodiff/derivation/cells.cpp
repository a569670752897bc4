#include "core/autodiff/derivation/cells.h"

#include <algorithm>

namespace tile {
namespace {

bool has(const std::vector<SymbolicConstraint>& list, const SymbolicConstraint& one) {
  return std::any_of(list.begin(), list.end(), [&](const SymbolicConstraint& k) {
    return k.form == one.form && k.bound == one.bound;
  });
}

}  // namespace

Expr cell_name(size_t d) { return Expr::variable("#" + std::to_string(d)); }

std::optional<Expr> in_cell(const SymbolicContraction& contraction, const Expr& e) {
  std::map<std::string, Expr> places;
  for (size_t d = 0; d < contraction.out_index.size(); ++d) {
    const Expr& out = contraction.out_index[d];
    if (out == e && !e.is_constant()) return cell_name(d);
    if (out.kind() == ExprKind::variable) places.try_emplace(out.name(), cell_name(d));
  }
  Expr there = substitute(e, places);
  bool free = std::none_of(contraction.indices.begin(), contraction.indices.end(),
                           [&](const std::string& index) { return uses_variable(there, index); });
  return free ? std::optional(there) : std::nullopt;
}

bool in_range(const SymbolicAccess& access, size_t d) {
  bool by_value = d < access.values.size() && access.values[d] >= 0;
  return !by_value && (d >= access.boundary.size() || access.boundary[d] == Boundary::in_range);
}

bool reads_in_range(const SymbolicAccess& access) {
  for (size_t d = 0; d < access.index.size(); ++d) {
    if (!in_range(access, d)) return false;
  }
  return true;
}

bool has_single_points(const SymbolicContraction& contraction) {
  const std::vector<Expr>& out = contraction.out_index;
  return std::all_of(contraction.indices.begin(), contraction.indices.end(),
                     [&](const std::string& index) {
                       return std::find(out.begin(), out.end(), Expr::variable(index)) != out.end();
                     });
}

std::optional<IndexRanges> whole_ranges(const SymbolicContraction& c,
                                        const SymbolicShapes& shapes) {
  IndexRanges ranges;
  for (size_t d = 0; d < c.out_index.size(); ++d) {
    const Expr& e = c.out_index[d];
    if (e.is_constant(0) && c.out_size[d].is_constant(1)) continue;
    if (e.kind() != ExprKind::variable || ranges.contains(e.name())) return std::nullopt;
    ranges[e.name()] = c.out_size[d];
  }
  auto whole = [&](const Expr& e, const std::optional<Expr>& size) {
    if (e.is_constant(0) && size && size->is_constant(1)) return true;
    return e.kind() == ExprKind::variable && size &&
           ranges.try_emplace(e.name(), *size).first->second == *size;
  };
  for (const SymbolicAccess& a : c.accesses) {
    const SymbolicShape& shape = shapes[a.tensor];
    if (!shape.ranked) return std::nullopt;
    for (size_t d = 0; d < a.index.size(); ++d) {
      if (in_range(a, d) && !whole(a.index[d], shape.dims.at(d))) return std::nullopt;
    }
  }
  for (const SymbolicConstraint& k : c.constraints) {
    if (!whole(k.form, k.bound)) return std::nullopt;
  }
  bool all = std::all_of(c.indices.begin(), c.indices.end(),
                         [&](const std::string& index) { return ranges.contains(index); });
  return all ? std::optional(ranges) : std::nullopt;
}

CellConditions cell_conditions(const SymbolicContraction& contraction, size_t count) {
  CellConditions conditions;
  for (size_t k = 0; k < count; ++k) {
    const SymbolicConstraint& constraint = contraction.constraints[k];
    std::optional<Expr> form = in_cell(contraction, constraint.form);
    if (!form) continue;
    bool bound = false;
    for (size_t d = 0; d < contraction.out_size.size(); ++d) {
      bound = bound || (*form == cell_name(d) && constraint.bound == contraction.out_size[d]);
    }
    if (!bound) conditions.push_back({*form, constraint.bound, constraint.span});
  }
  return conditions;
}

CellConditions common_conditions(const CellConditions& a, const CellConditions& b) {
  CellConditions both;
  std::copy_if(a.begin(), a.end(), std::back_inserter(both),
               [&](const SymbolicConstraint& one) { return has(b, one); });
  return both;
}

void require(SymbolicContraction& contraction, const CellConditions& conditions,
             const std::vector<Expr>& index) {
  std::map<std::string, Expr> places;
  for (size_t d = 0; d < index.size(); ++d) places[cell_name(d).name()] = index[d];
  for (SymbolicConstraint one : conditions) {
    one.form = substitute(one.form, places);
    if (!has(contraction.constraints, one)) contraction.constraints.push_back(std::move(one));
  }
}

std::optional<SymbolicContraction> conditional_sum(TensorId whole, const SymbolicShape& shape,
                                                   const SymbolicShape& part,
                                                   const CellConditions& conditions, Span span) {
  if (!shape.ranked || !part.ranked || part.dims.size() > shape.dims.size()) return std::nullopt;
  SymbolicContraction c;
  c.out_span = span;
  SymbolicAccess access;
  access.tensor = whole;
  access.span = span;
  size_t more = shape.dims.size() - part.dims.size();
  for (size_t d = 0; d < shape.dims.size(); ++d) {
    c.indices.push_back("i" + std::to_string(d) + "'");
    access.index.push_back(Expr::variable(c.indices.back()));
    if (d < more) continue;
    const std::optional<Expr>&from = shape.dims[d], &to = part.dims[d - more];
    bool kept = from && to && *from == *to, one = to && to->is_constant(1);
    if (!kept && !one) return std::nullopt;
    c.out_index.push_back(kept ? access.index.back() : Expr(0));
    c.out_size.push_back(*to);
  }
  require(c, conditions, access.index);
  c.accesses = {std::move(access)};
  c.body.results = {c.body.load(0)};
  return c;
}

}  // namespace tile
