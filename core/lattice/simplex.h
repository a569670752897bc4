// An exact simplex for variables with lower and upper bounds: the relaxation of integer rows.
// Bland's rule, so it always ends. Source: Dutertre and de Moura, "A Fast Linear-Arithmetic Solver
// for DPLL(T)", section 3 (feasibility); bounded-variable primal simplex (optimisation).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/lattice/wide_rational.h"

namespace tile::lattice {

// Variables 0 .. iterators-1 are the iterators, the next ones the values of the rows.
class Simplex {
 public:
  Simplex(const Rows& rows);

  // Moves to a point within all bounds; false when there is none.
  bool feasible();
  // After feasible(): moves to a point where the variable is least (greatest) and returns that
  // value; nullopt when it is unbounded.
  std::optional<WideRational> least(size_t variable) { return extreme(variable, -1); }
  std::optional<WideRational> greatest(size_t variable) { return extreme(variable, 1); }
  const WideRational& value(size_t variable) const { return value_[variable]; }
  bool integral() const;  // every iterator has an integer value at the present point
  void add_to(std::vector<double>& sum) const;  // the iterators' values, in floating point

 private:
  struct Step {
    std::optional<WideRational> size;   // nullopt: nothing stops the move
    std::optional<size_t> leaving_row;  // absent: the entering variable meets its own bound
  };

  std::optional<WideRational> extreme(size_t variable, int sign);
  std::optional<size_t> entering(size_t row, int sign) const;
  Step longest_step(size_t column, int direction) const;
  bool can_move(size_t variable, int direction) const;
  bool climb(size_t column, int direction, size_t objective);
  void move(size_t column, const WideRational& change);
  void pivot(size_t row, size_t column);
  std::optional<size_t> row_of(size_t variable) const;

  size_t iterators_;
  std::vector<Range> bounds_;                       // by variable
  std::vector<WideRational> value_;                 // by variable
  std::vector<size_t> basic_, nonbasic_;            // variable of each tableau row, column
  std::vector<std::vector<WideRational>> tableau_;  // basic = tableau * nonbasic
};

}  // namespace tile::lattice
