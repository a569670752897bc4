// The state of one simplification: ranges, what is assumed on the way to an arm of a select, and
// what has been worked out so far. simplify.cpp holds the rules, divide.cpp those of quotients and
// remainders, range.cpp interval arithmetic, prove.cpp proofs with symbolic bounds, sample.cpp
// trial assignments.
#pragma once

#include <array>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/simplify/polynomial.h"
#include "core/simplify/simplify.h"

namespace tile::algebra {

using Wide = __int128;
constexpr Wide kInfinity = Wide(1) << 100;

// Bounds lo <= value <= hi; +-kInfinity where there is none. Finite bounds fit in 64 bits.
struct Interval {
  Wide lo = -kInfinity;
  Wide hi = kInfinity;
};

// A condition that is a comparison or one minus a comparison, and what holds in its arms.
struct Condition {
  std::optional<Expr> comparison;
  bool negated = false;
  std::vector<Polynomial> if_true, if_false;  // of the comparison; each >= 0
  Polynomial gap;                             // a < b: b - a
};

// Thrown where an expression nests deeper than the limit.
struct TooDeep {};

class Simplifier {
 public:
  explicit Simplifier(const Ranges& ranges) : ranges_(ranges) {}

  // The canonical form of `e`, whose nodes outlive this object. Throws Overflow and TooDeep.
  Polynomial run(const Expr& e);
  // Forgets the expressions seen, whose nodes may then die.
  void restart() { done_.clear(); }

  // Proofs: false means not proved. Overflow and deep nesting are not proved.
  bool nonnegative(const Polynomial& p);
  bool positive(const Polynomial& p);
  bool nonnegative_given(const Polynomial& p, const std::vector<Polynomial>& facts);
  // A lower bound of p, as good as the budget of steps allows; the search stops at `target`.
  Wide lower_bound(const Polynomial& p, Wide target);

  Interval interval(const Polynomial& p);

 private:
  static constexpr size_t kSamples = 6;
  using Samples = std::array<std::optional<int64_t>, kSamples>;
  struct VariableInfo {
    bool has_lo = false, has_hi = false, fixed = false;
    Polynomial lo, hi;
    Interval range;
    int rank = 0;
    std::optional<Samples> samples;
  };
  struct AtomInfo {
    Expr keep;  // holds the node whose address is the key
    std::vector<Polynomial> args;
    Interval range;
    int rank = 0;
    std::optional<Samples> samples;
  };
  // Bounds on an atom s in terms of others: each of `lows` <= scale * s <= each of `highs`, and s
  // is one of `cases` where those are given.
  struct SymbolBounds {
    std::vector<Polynomial> lows, highs, cases;
  };
  // divisor * s lies in [low, high].
  struct ScaledBounds {
    Polynomial divisor, low, high;
  };
  class Assume;

  // simplify.cpp
  Polynomial run_operation(const Expr& e);
  Polynomial run_product(const Expr& e);
  Polynomial variable(const Expr& e);
  Polynomial extremum(ExprKind kind, const std::vector<Polynomial>& of);
  Polynomial less_than(const Polynomial& a, const Polynomial& b);
  Polynomial equal_to(const Polynomial& a, const Polynomial& b);
  Polynomial selection(const Expr& e);
  std::optional<ExprKind> chosen_extremum(const Condition& c, const Polynomial& a,
                                          const Polynomial& b);
  Polynomial run_assuming(const Expr& e, const std::vector<Polynomial>& facts);
  bool push_into_extremum(Polynomial& p);
  Polynomial tidy(Polynomial p);

  // divide.cpp
  Polynomial divide(ExprKind kind, const Polynomial& a, const Polynomial& b);
  Polynomial divide_exactly(const Polynomial& a, const Polynomial& b);
  Polynomial divide_any_sign(ExprKind kind, const Polynomial& a, const Polynomial& b);
  Polynomial divide_down(bool modulo, const Polynomial& a, const Polynomial& b);
  std::optional<Polynomial> window(const Polynomial& r, const Polynomial& b);
  std::optional<Polynomial> divide_groups(bool modulo, const Polynomial& a, const Polynomial& b);
  std::optional<Polynomial> divide_group(bool modulo, const Polynomial& a, const Polynomial& b,
                                         const Term& g);
  std::optional<Polynomial> divide_quotient(const Polynomial& a, const Polynomial& b);
  Polynomial drop_inner_remainders(const Polynomial& a, const Polynomial& b);
  bool join_quotients(Polynomial& p);
  std::optional<Polynomial> joined(const Polynomial& p, const Term& t, const Expr& e);

  // range.cpp
  VariableInfo& variable_info(const std::string& name);
  AtomInfo& atom_info(const Expr& e);
  Interval atom_interval(const Expr& e);
  Interval operation_interval(const Expr& e, const std::vector<Polynomial>& args);
  int rank(const Expr& e);
  int rank(const Polynomial& p);

  // sample.cpp
  bool refuted(const Polynomial& p, Wide target);
  std::optional<int64_t> sample(const Polynomial& p, size_t i);
  const Samples& samples(const Expr& e);
  Samples variable_samples(const std::string& name, const VariableInfo& info);
  Samples atom_samples(const Expr& e, const AtomInfo& info);

  // prove.cpp
  Wide search(const Polynomial& p, Wide target);
  bool exact_interval(const Polynomial& p);
  Wide eliminate(const Polynomial& p, const Expr& s, Wide target);
  Wide eliminate_quotient(const Polynomial& rest, const Polynomial& factor, const Expr& s,
                          Wide target);
  SymbolBounds bounds_of(const Expr& s, const Polynomial& others);
  void bound_division(ExprKind kind, const Polynomial& x, const Polynomial& d, bool beside,
                      SymbolBounds& b);
  std::optional<ScaledBounds> scaled_bounds_of(const Expr& s);
  int sign(const Polynomial& p);

  const Ranges& ranges_;
  std::vector<Polynomial> facts_;  // each >= 0 here
  std::unordered_map<const ExprNode*, Polynomial> done_;
  std::unordered_map<std::string, VariableInfo> variables_;
  std::unordered_map<const ExprNode*, AtomInfo> atoms_;
  int depth_ = 0;
  int budget_ = 0;
};

// Counts nesting of recursive calls.
class Nesting {
 public:
  explicit Nesting(int& depth) : depth_(depth) {
    if (++depth_ > kMaxDepth) {
      --depth_;
      throw TooDeep();
    }
  }
  ~Nesting() { --depth_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  static constexpr int kMaxDepth = 1200;
  int& depth_;
};

}  // namespace tile::algebra
