// The pieces that the text forms of the IR's levels share: a reader of tokens and the form of
// bodies.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/ir/body.h"
#include "core/support/checked.h"
#include "core/support/diagnostic.h"

namespace tile {

// A cursor over an IR text. White space and `#` comments separate tokens. Every mismatch throws
// Failure (stage parse, code "syntax") at the place where something else was expected.
class TextReader {
 public:
  explicit TextReader(SourcePtr source) : source_(std::move(source)) { skip_space(); }

  bool at_end() const { return at_ == source_->text.size(); }
  // A symbol or a whole word at the cursor.
  bool peek(std::string_view token) const;
  bool accept(std::string_view token);
  void expect(std::string_view token);
  std::string name();   // [A-Za-z_][A-Za-z0-9_'.]*
  int64_t integer();    // with an optional minus
  double real();        // also hexadecimal floats, nan, inf, -inf
  Rational rational();  // "3", "-1/2"
  Expr
  expression();  // up to a comma, semicolon or closing bracket of its own level, ` when ` or `{`
  std::vector<int64_t> integers();  // "[1, 2]"
  std::vector<Expr> expressions();  // "[i, j + 1]"
  DType type();
  [[noreturn]] void wrong(const std::string& expected) const;

 private:
  void skip_space();
  std::string_view rest() const { return std::string_view(source_->text).substr(at_); }
  SourcePtr source_;
  size_t at_ = 0;
};

std::string print_real(double value);  // exact: hexadecimal where decimal is not
std::string print_integers(const std::vector<int64_t>& values);
std::string print_expressions(const std::vector<Expr>& values);

// "{ %0:f32 = load 0; %1:f32 = mul %0 %0; yield %1 }"
std::string print(const Body& body);
Body parse_body(TextReader& reader);
// Operands earlier, slots below the given counts, results in range; with `typed`, types as
// core/ir/body.h says. Throws InternalError.
void verify_body(const Body& body, size_t loads, size_t indices, bool typed);

}  // namespace tile
