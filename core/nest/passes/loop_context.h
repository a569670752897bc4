// What is known at a statement of a nest that is walked: the ranges of the variables around it, a
// point in the middle of them, and which of them are bound inside the tile region being rewritten.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/nest/nest.h"
#include "core/nest/passes/interior.h"
#include "core/simplify/simplify.h"

namespace tile::nest {

// Decided by constant ranges, or by the bounds' forms.
bool proves_nonnegative(const Expr& e, const Ranges& ranges);
bool proves_negative(const Expr& e, const Ranges& ranges);

class LoopContext {
 public:
  explicit LoopContext(const Nest& nest);  // the nest must outlive it

  const Ranges& ranges() const { return ranges_; }
  const Middle& middle() const { return middle_; }
  Expr clean(const Expr& e) const { return simplify(e, ranges_); }

  // The variable of a loop, or of the counter of a fold, while its body is walked.
  void enter(const For& f);
  void leave(const For& f);
  bool enter_counter(const Body& b, const Node& fold);  // for leave_counter
  void leave_counter(const Node& fold, bool fresh);
  void set_range(const std::string& variable, int64_t lo, int64_t hi) {
    ranges_.set(variable, lo, hi);
  }
  // False: the variable is bound inside the region already.
  bool bind_inside(const std::string& variable) { return inside_.insert(variable).second; }
  void unbind_inside(const std::string& variable) { inside_.erase(variable); }

  // The minimum of a form over the variables bound inside the region, in the variables outside;
  // nullopt: not linear, or an inside variable without constant range.
  std::optional<Expr> region_minimum(const Expr& e) const;

 private:
  bool split_terms(const Expr& e, int64_t factor, std::map<std::string, int64_t>& inside,
                   Expr& rest) const;
  std::optional<Expr> uniform_bound(const std::string& name, bool low) const;
  bool names_registers(const Access& a, const std::string& variable) const;
  bool names_registers(const Block& statements, const std::string& variable) const;

  const Nest& nest_;
  Ranges ranges_;
  Middle middle_;
  std::set<std::string> inside_;
};

}  // namespace tile::nest
