// Values that a GPU's forms compute from the number of a block or of a cell, and name. Private to
// core/lower/gpu.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/lower/launch/nest_builders.h"
#include "core/support/checked.h"

namespace tile::lowering {

// Values with names of their own, so that what uses them stays linear.
class Definitions {
 public:
  explicit Definitions(std::string prefix) : prefix_(std::move(prefix)) {}
  Expr define(const Expr& value) {
    if (linear_form(value)) return tidy(value);
    list_.emplace_back(prefix_ + std::to_string(list_.size()), value);
    return Expr::variable(list_.back().first);
  }
  // The digits of `value` in a mixed base, the last one fastest.
  std::vector<Expr> digits(const Expr& value, const std::vector<int64_t>& base) {
    std::vector<Expr> result(base.size());
    int64_t inner = 1, left = 0;
    for (size_t i = 0; i < base.size(); ++i) left += base[i] > 1 ? 1 : 0;
    for (size_t i = base.size(); i-- > 0;) {
      if (base[i] == 1) continue;
      Expr rest = floor_div(value, Expr(inner));
      result[i] = define(--left == 0 ? rest : floor_mod(rest, Expr(base[i])));
      inner = checked_mul(inner, base[i]);
    }
    return result;
  }
  nest::Block around(nest::Block inside) const {
    for (size_t i = list_.size(); i-- > 0;) {
      nest::For loop = make_loop(list_[i].first, list_[i].second, 1, nest::LoopKind::serial);
      loop.body = std::move(inside);
      inside.clear();
      inside.push_back(statement(std::move(loop)));
    }
    return inside;
  }

 private:
  std::string prefix_;
  std::vector<std::pair<std::string, Expr>> list_;
};

}  // namespace tile::lowering
