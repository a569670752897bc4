#include "core/language/tile/names.h"

#include <algorithm>

#include "core/support/nearest_name.h"

namespace tile {
namespace {

std::string quoted(std::string_view name) { return "'" + std::string(name) + "'"; }

std::string_view described(Symbol::Kind kind) {
  switch (kind) {
    case Symbol::Kind::input:
      return "an input";
    case Symbol::Kind::assigned:
      return "a tensor";
    case Symbol::Kind::dimension:
      return "a dimension";
  }
  return "";
}

}  // namespace

Names::Names(const Source& source, const std::vector<StatementSyntax>& statements)
    : source_(source) {
  for (const StatementSyntax& s : statements) assigned_.emplace(s.result.text, s.result.span);
}

std::string Names::place(Span span) const {
  Position p = position_of(source_, span.begin);
  return "line " + std::to_string(p.line) + ", column " + std::to_string(p.column);
}

const Symbol* Names::find(std::string_view name) const {
  auto it = symbols_.find(name);
  return it == symbols_.end() ? nullptr : &it->second;
}

void Names::declare_dimension(std::string_view name, Span span) {
  const Symbol* known = find(name);
  if (known != nullptr && known->kind != Symbol::Kind::dimension) {
    fail(
        Stage::parse, "name", span,
        quoted(name) + " is declared as a dimension here and as a tensor at " + place(known->span));
  }
  if (known == nullptr) {
    Symbol symbol;
    symbol.kind = Symbol::Kind::dimension;
    symbol.span = span;
    symbols_.emplace(name, symbol);
  }
}

void Names::declare_tensor(std::string_view name, Symbol symbol) {
  auto [it, inserted] = symbols_.emplace(name, symbol);
  if (inserted) return;
  const Symbol& known = it->second;
  std::string at = " at " + place(known.span);
  if (known.kind == Symbol::Kind::dimension) {
    fail(Stage::parse, "name", symbol.span,
         quoted(name) + " is a tensor here and a dimension" + at);
  }
  if (symbol.kind == Symbol::Kind::input) {
    fail(Stage::parse, "name", symbol.span,
         "input " + quoted(name) + " is declared twice, first" + at);
  }
  bool input = known.kind == Symbol::Kind::input;
  fail(Stage::parse, "name", symbol.span,
       "tensor " + quoted(name) + (input ? " is an input, declared" : " is already assigned") + at,
       "every tensor is assigned exactly once: use a new name");
}

const Symbol& Names::tensor(std::string_view name, Span span) const {
  const Symbol* known = find(name);
  if (known == nullptr) fail_undefined(name, span, "tensor");
  if (known->kind == Symbol::Kind::dimension) {
    fail(Stage::parse, "name", span,
         quoted(name) + " is a dimension, declared at " + place(known->span) + ", not a tensor");
  }
  return *known;
}

void Names::require_dimension(std::string_view name, Span span) const {
  const Symbol* known = find(name);
  if (known == nullptr) fail_undefined(name, span, "dimension");
  if (known->kind == Symbol::Kind::dimension) return;
  std::string shown(name);
  fail(Stage::parse, "name", span,
       quoted(name) + " is " + std::string(described(known->kind)) + ", declared at " +
           place(known->span) + ", not a dimension",
       "the size of its first dimension is written " + shown + ".0");
}

void Names::fail_undefined(std::string_view name, Span span, std::string_view what) const {
  auto later = assigned_.find(name);
  if (later != assigned_.end()) {
    fail(Stage::parse, "name", span,
         "tensor " + quoted(name) + " is used before it is assigned at " + place(later->second));
  }
  std::vector<std::string_view> candidates;
  for (const auto& [known, symbol] : symbols_) candidates.push_back(known);
  std::optional<std::string_view> nearest = nearest_name(name, candidates);
  bool declared = what == "dimension";
  std::string hint = nearest ? "did you mean " + quoted(*nearest) + "?"
                     : declared
                         ? "dimensions are declared by the inputs, as in A[N, M]; the names of "
                           "indices start with a lower-case letter"
                         : "";
  fail(Stage::parse, "name", span,
       (declared ? "undeclared " : "undefined ") + std::string(what) + " " + quoted(name), hint);
}

std::string Names::fresh(std::string_view base) {
  constexpr size_t kMaxBase = 200;  // leaves room for the number in a name's limit
  if (base.ends_with('\'')) base.remove_suffix(1);
  base = base.substr(0, kMaxBase);
  int& last = generated_.try_emplace(std::string(base), 0).first->second;
  for (;;) {
    std::string name = std::string(base) + "_" + std::to_string(++last);
    if (!symbols_.contains(name) && !assigned_.contains(name)) return name;
  }
}

}  // namespace tile
