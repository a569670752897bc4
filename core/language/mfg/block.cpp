// Blocks, statements, user functions and the names that they bind.
#include <utility>

#include "core/language/mfg/builtin_names.h"
#include "core/language/mfg/elaborate.h"

namespace tile::mfg {
namespace {

std::string count_text(size_t count, std::string_view word) {
  return std::to_string(count) + " " + std::string(word) + (count == 1 ? "" : "s");
}

}  // namespace

std::vector<Elaborator::Argument> Elaborator::block_arguments(BlockId block,
                                                              const std::vector<Value>& values,
                                                              std::string_view what) {
  const BlockSyntax& b = block_at(block);
  if (b.parameters.size() != values.size()) {
    fail(Stage::parse, "arity", {b.span.begin, b.span.begin + 1},
         "expected a block with " + count_text(values.size(), "parameter") + " after " +
             std::string(what) + ", found " + count_text(b.parameters.size(), "parameter"));
  }
  std::vector<Argument> arguments;
  for (size_t i = 0; i < values.size(); ++i) {
    const ParameterSyntax& p = b.parameters[i];
    if (!p.type.text.empty()) {
      fail(Stage::parse, "syntax", p.type.span, "only a function's parameters have types");
    }
    arguments.push_back({p.name, values[i]});
  }
  return arguments;
}

Value Elaborator::run_block(BlockId id, const std::vector<Argument>& arguments) {
  const BlockSyntax& b = block_at(id);
  if (b.value < 0) {
    Span at = b.statements.empty() ? Span{b.span.end - 1, b.span.end} : b.statements.back().span;
    fail(Stage::parse, "syntax", at,
         std::string("expected an expression as the last line of the block, its value") +
             (b.statements.empty() ? "" : "; it ends in a statement"));
  }
  scopes_.emplace_back();
  for (const Argument& a : arguments) bind(a.name, a.value);
  scopes_.emplace_back();  // a `let` may hide a parameter
  for (const StatementSyntax& s : b.statements) statement(s);
  Value value = expression(b.value);
  scopes_.pop_back();
  scopes_.pop_back();
  return value;
}

// The block of for_each: it changes local tensors and has no value.
void Elaborator::run_statements(BlockId id, const std::vector<Argument>& arguments) {
  const BlockSyntax& b = block_at(id);
  if (b.value >= 0) {
    fail(Stage::parse, "syntax", at(b.value).span,
         "the value of this line is not used: for_each returns no value",
         "change a local tensor, as in mut! _h(i) += 1");
  }
  scopes_.emplace_back();
  for (const Argument& a : arguments) bind(a.name, a.value);
  scopes_.emplace_back();  // a `let` may hide a parameter
  for (const StatementSyntax& s : b.statements) statement(s);
  scopes_.pop_back();
  scopes_.pop_back();
}

void Elaborator::statement(const StatementSyntax& s) {
  frames_.at(s.span);
  switch (s.kind) {
    case StatementKind::let:
      bind_let(s);
      return;
    case StatementKind::definition:
      define_local(s.definition);
      return;
    case StatementKind::mutate:
      mutate(s);
      return;
    case StatementKind::for_each:
      for_each(at(s.value));
      return;
  }
}

Binding Elaborator::let_value(SyntaxId id) {
  const Syntax& node = at(id);
  if (node.kind == SyntaxKind::sampler) return make_sampler(node);
  return expression(id);
}

void Elaborator::bind_let(const StatementSyntax& s) {
  Binding binding = let_value(s.value);
  if (!s.pattern) {
    bind(s.names[0], std::move(binding));
    return;
  }
  const Value* value = std::get_if<Value>(&binding);
  if (value == nullptr || !value->type.tuple) {
    fail(Stage::parse, "type", at(s.value).span,
         "expected a tuple of " + count_text(s.names.size(), "component") + ", found " +
             (value == nullptr ? "a sampler" : to_string(value->type)));
  }
  if (value->parts.size() != s.names.size()) {
    fail(Stage::parse, "arity", s.names[0].span,
         "expected " + count_text(value->parts.size(), "name") + " for a " +
             to_string(value->type) + ", found " + std::to_string(s.names.size()));
  }
  for (size_t i = 0; i < s.names.size(); ++i) bind(s.names[i], scalar_value(value->part(i)));
}

void Elaborator::bind(NameSyntax name, Binding binding) {
  if (name.text == "_") return;
  if (scopes_.back().emplace(name.text, std::move(binding)).second) return;
  fail(Stage::parse, "name", name.span,
       "'" + std::string(name.text) + "' is defined already in this block",
       "values do not change: choose another name");
}

const Binding* Elaborator::find_local(std::string_view name) const {
  for (size_t i = scopes_.size(); i-- > 0;) {
    auto found = scopes_[i].find(name);
    if (found != scopes_[i].end()) return &found->second;
  }
  return nullptr;
}

const Elaborator::Global* Elaborator::find_global(std::string_view name) const {
  auto found = globals_.find(name);
  return found == globals_.end() ? nullptr : &found->second;
}

// A `let` outside tensors is evaluated once in every body that uses it, outside its loops.
Binding Elaborator::global_binding(const GlobalLet& global, std::string_view) {
  auto known = global_values_.find(global.statement);
  if (known == global_values_.end()) {
    std::vector<Scope> scopes = std::exchange(scopes_, std::vector<Scope>(1));
    std::vector<Ref> pixel = std::exchange(pixel_, {});
    std::vector<Expr> extents = std::exchange(extents_, {});
    std::vector<Ref> counters = std::exchange(counters_, {});
    Span span = frames_.span();
    std::optional<Binding> value;
    frames_.in_root([&] { value = let_value(global.statement->value); });
    frames_.at(span);
    scopes_ = std::move(scopes);
    pixel_ = std::move(pixel);
    extents_ = std::move(extents);
    counters_ = std::move(counters);
    known = global_values_.emplace(global.statement, std::move(*value)).first;
  }
  if (global.component < 0) return known->second;
  const Value& tuple = std::get<Value>(known->second);
  return scalar_value(tuple.part(static_cast<size_t>(global.component)));
}

Value Elaborator::call_function(const Syntax& call, const Function& function) {
  std::vector<Value> values = arguments(call);
  const BlockSyntax& block = block_at(function.block);
  if (values.size() != function.parameters.size()) {
    fail(Stage::parse, "arity", call.span,
         "expected " + count_text(function.parameters.size(), "argument") + " of '" +
             std::string(call.text) + "', found " + std::to_string(values.size()));
  }
  std::vector<Argument> bound;
  for (size_t i = 0; i < values.size(); ++i) {
    const Type& wanted = function.parameters[i];
    bool fits = values[i].type.tuple == wanted.tuple && values[i].parts.size() == wanted.size();
    for (size_t c = 0; fits && c < wanted.size(); ++c) {
      DType from = values[i].type.parts[c];
      fits = from == wanted.parts[c] || promoted(from, wanted.parts[c]) == wanted.parts[c];
    }
    if (!fits) {
      fail(Stage::parse, "type", call.span,
           "expected a " + to_string(wanted) + " as argument " + std::to_string(i + 1) + " of '" +
               std::string(call.text) + "', found " + to_string(values[i].type));
    }
    Value argument{wanted, {}};
    for (size_t c = 0; c < wanted.size(); ++c) {
      argument.parts.push_back(arithmetic_.convert(values[i].part(c), wanted.parts[c]).ref);
    }
    bound.push_back({block.parameters[i].name, std::move(argument)});
  }
  std::vector<Scope> scopes = std::exchange(scopes_, std::vector<Scope>(1));
  calls_.push_back(call.span.begin);
  Value result = run_block(function.block, bound);
  calls_.pop_back();
  scopes_ = std::move(scopes);
  return result;
}

}  // namespace tile::mfg
