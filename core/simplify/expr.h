// Integer expressions: sizes, indices and addresses, on symbols and on numbers alike. Immutable
// trees, cheap to copy, compared by structure.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tile {

enum class ExprKind : uint8_t {
  constant,
  variable,
  add,  // n-ary, n >= 2
  sub,  // a - b
  mul,  // n-ary
  neg,
  exact_div,  // a / b, a multiple of b by promise; in Tile's index expressions the exact rational
  trunc_div,  // toward zero (sizes in programs)
  trunc_mod,  // sign of the dividend
  floor_div,
  floor_mod,  // sign of the divisor
  min,
  max,
  less,    // 1 if a < b, else 0
  equal,   // 1 if a == b, else 0
  select,  // a != 0 ? b : c
};

class Expr;
struct ExprNode {
  ExprKind kind = ExprKind::constant;
  int64_t value = 0;       // constant
  std::string name;        // variable
  std::vector<Expr> args;  // the others
};

class Expr {
 public:
  Expr() : Expr(int64_t{0}) {}
  Expr(int64_t value);                       // NOLINT: integers are expressions
  Expr(int value) : Expr(int64_t{value}) {}  // NOLINT
  static Expr variable(std::string name);
  static Expr make(ExprKind kind, std::vector<Expr> args);

  ExprKind kind() const { return node_->kind; }
  int64_t value() const { return node_->value; }
  // Of a temporary expression these are copies, since its tree may end with it.
  const std::string& name() const& { return node_->name; }
  std::string name() const&& { return node_->name; }
  const std::vector<Expr>& args() const& { return node_->args; }
  std::vector<Expr> args() const&& { return node_->args; }
  bool is_constant() const { return kind() == ExprKind::constant; }
  bool is_constant(int64_t v) const { return is_constant() && value() == v; }
  const ExprNode* node() const { return node_.get(); }

  friend bool operator==(const Expr& a, const Expr& b);

 private:
  explicit Expr(std::shared_ptr<const ExprNode> node) : node_(std::move(node)) {}
  std::shared_ptr<const ExprNode> node_;
};

// Builders fold constants and the neutral elements 0 and 1; a constant fold that overflows 64 bits
// throws tile::Overflow. Division builders leave a zero divisor unfolded.
Expr operator+(const Expr& a, const Expr& b);
Expr operator-(const Expr& a, const Expr& b);
Expr operator*(const Expr& a, const Expr& b);
Expr operator-(const Expr& a);
Expr exact_div(const Expr& a, const Expr& b);
Expr trunc_div(const Expr& a, const Expr& b);
Expr trunc_mod(const Expr& a, const Expr& b);
Expr floor_div(const Expr& a, const Expr& b);
Expr floor_mod(const Expr& a, const Expr& b);
Expr min(const Expr& a, const Expr& b);
Expr max(const Expr& a, const Expr& b);
Expr less(const Expr& a, const Expr& b);
Expr equal(const Expr& a, const Expr& b);
Expr select(const Expr& condition, const Expr& a, const Expr& b);
// The builder of `kind` applied to args (n-ary kinds from the left).
Expr build(ExprKind kind, const std::vector<Expr>& args);

// C-like text; floor_div prints as floordiv(a, b), floor_mod as mod(a, b), exact_div and trunc_div
// as a / b, trunc_mod as a % b, less as (a < b), equal as (a == b), select as (a ? b : c).
std::string to_string(const Expr& e);
// Parses what to_string prints; `/` becomes trunc_div. Throws Failure (stage parse).
Expr parse_expr(std::string_view text);

using Environment = std::function<std::optional<int64_t>(std::string_view name)>;
// Checked evaluation; nullopt for a variable without value or a division by zero; throws Overflow.
std::optional<int64_t> evaluate(const Expr& e, const Environment& environment);
// The same with the values of a map; an overflow has no value either.
std::optional<int64_t> value_at(const Expr& e,
                                const std::map<std::string, int64_t, std::less<>>& values);

// Replaces variables by name; names not in the map stay.
Expr substitute(const Expr& e, const std::map<std::string, Expr>& replacement);
void collect_variables(const Expr& e,
                       std::vector<std::string>& names);  // each once, first use first
bool uses_variable(const Expr& e, std::string_view name);

// The expression as sum of coefficient * variable + constant with integer coefficients; nullopt if
// it is not of that form. Terms are sorted by name, no coefficient is zero.
struct LinearForm {
  std::map<std::string, int64_t> terms;
  int64_t constant = 0;
};
std::optional<LinearForm> linear_form(const Expr& e);
Expr from_linear(const LinearForm& form);

}  // namespace tile
