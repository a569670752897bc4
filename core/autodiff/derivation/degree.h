// How a value follows when one tensor T of the program, or its logarithm, is moved by u.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/ir/body.h"
#include "core/simplify/expr.h"

namespace tile {

// A value that the shift leaves as it is: what it is made of, and the places that are read, as
// expressions in the names of the space that the degree lives in (a point's indices, or cell_name).
struct Factor {
  std::string text;
  std::vector<Expr> at;
  int power = 1;
};

// A sum of products of numbers and factors.
class Coefficient {
 public:
  Coefficient() = default;
  explicit Coefficient(double number) { add({number, {}}); }

  bool is_zero() const { return terms_.empty(); }
  Coefficient plus(const Coefficient& other) const;
  Coefficient scaled(double by) const;
  Coefficient times(const Factor& factor) const;
  bool equals(const Coefficient& other) const { return plus(other.scaled(-1)).is_zero(); }

  using Move = std::function<std::optional<Expr>(const Expr&)>;
  // The same with each place moved; nullopt where one cannot be.
  std::optional<Coefficient> moved(const Move& move) const;

 private:
  struct Term {
    double number = 0;
    std::vector<Factor> factors;  // in a fixed order
  };
  void add(Term term);
  std::vector<Term> terms_;
};

// Of a value v that depends on one cell of T alone, at the place `cell`:
//   fixed           dv/du = 0
//   additive        dv/du = c
//   multiplicative  dv/du = c v (a literal zero has every c)
//   unknown         anything else
// where c does not depend on u.
struct Degree {
  enum class Kind : uint8_t { fixed, additive, multiplicative, unknown };
  Kind kind = Kind::fixed;
  Coefficient c;
  std::vector<Expr> cell;

  static Degree unknown() { return {Kind::unknown, {}, {}}; }
  bool is_fixed() const { return kind == Kind::fixed; }
  bool is_unknown() const { return kind == Kind::unknown; }
};

// The degree in another space; unknown where a place has no image there.
Degree moved(const Degree& degree, const Coefficient::Move& move);

// What the loads of a body are: their degrees, and as factors.
struct BodyReads {
  std::function<Degree(const Node& load)> degree;
  // Appends the load to a factor; false: it cannot be one.
  std::function<bool(const Node& load, Factor& factor)> describe;
  std::function<Expr(size_t slot)> index;
};

// The degrees of a body's results. Regions of folds may only read what is fixed.
std::vector<Degree> degrees_of(const Body& body, const BodyReads& reads);

}  // namespace tile
