// Ways that index expressions take: an extremum takes one of its operands, a comparison holds or
// not, a remainder stays in one period. Where the whole interior of an iteration space takes one
// way, the interior's code need not choose.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/simplify/simplify.h"

namespace tile::nest {

// One assignment near the middle of the loops entered: it tells which way is the interior's. Only a
// guess: whoever relies on it must prove or test the way's conditions.
class Middle {
 public:
  void set(const std::string& parameter, int64_t value) {
    values_[parameter] = value;
    parameters_.insert(parameter);
  }
  void enter(const std::string& variable, const Expr& begin, const Expr& extent);
  // Puts a variable that was entered in the middle of its periods, too.
  void centre(const std::string& variable, const std::set<int64_t>& periods);
  void leave(const std::string& variable) { values_.erase(variable); }
  std::optional<int64_t> at(const Expr& e) const;
  // Whether the expression has the same value everywhere.
  bool uniform(const Expr& e) const;

 private:
  std::map<std::string, int64_t, std::less<>> values_;
  std::set<std::string, std::less<>> parameters_;
};

// Whether every one of the forms is >= 0, or may be relied on to be.
using Holds = std::function<bool(const std::vector<Expr>& forms)>;

// `e` with each choice decided whose conditions hold; the value of `e` wherever the forms that
// `holds` has agreed to are >= 0. Remainders and quotients are decided only where one period is at
// least half of what the ranges allow.
Expr decided(const Expr& e, const Ranges& ranges, const Middle& middle, const Holds& holds);

// Whether `decided` could change the expression.
bool has_choices(const Expr& e);

}  // namespace tile::nest
