// Systems whose parts need no search: each iterator is in at most one condition together with
// others, such as the one that an index with padding is inside of its tensor. Bounds of what forms
// take on a part are then intervals' sums, and exact where no sum leaves gaps.
#pragma once

#include <optional>
#include <vector>

#include "core/lattice/lattice.h"

namespace tile::lattice {

// The values of a form whose iterators are independent: they contain all, and the ends are taken if
// the form is integral.
Interval sum_of(const Affine& form, const std::vector<Interval>& values);

class SimpleSystem {
 public:
  // `bounds`: those of the system. nullopt: it is not simple, or has no points.
  static std::optional<SimpleSystem> of(const System& system, const Bounds& bounds);

  // The points whose iterators are in these intervals, which are within the bounds.
  class Part {
   public:
    // Of each iterator the values that it has in some point; an empty one: there is no point.
    const std::vector<Interval>& values() const { return projected_; }
    // The least and the largest value of an integral form; nullopt: not known without a search.
    std::optional<Interval> of(const Affine& form) const;

   private:
    friend class SimpleSystem;
    std::vector<Condition> tied_;
    std::vector<Interval> given_, projected_;
  };
  // With conditions of several iterators besides. nullopt: it is not simple.
  std::optional<Part> part(std::vector<Interval> values,
                           const std::vector<Condition>& more = {}) const;

 private:
  // Adds a condition of several iterators; false where some are tied already.
  static bool tie(std::vector<Condition>& tied, const Condition& c);

  std::vector<Condition> tied_;  // of several iterators each
};

}  // namespace tile::lattice
