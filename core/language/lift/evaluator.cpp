#include "core/language/lift/evaluator.h"

#include <algorithm>
#include <utility>

#include "core/language/idioms/lift_idioms.h"
#include "core/support/checked.h"
#include "core/support/control.h"
#include "core/support/nearest_name.h"

namespace tile::lift {
namespace {

constexpr int kMaxSteps = 300'000;  // applications of functions in one program
constexpr int kMaxCalls = 400;      // nested applications
constexpr int kMaxViewDepth = 64;   // views on views before the elements get a tensor
constexpr size_t kMaxLeaves = 512;  // scalars in one element of a nested tuple
constexpr int kMaxRank = 32;

void measure(const Type& type, size_t& leaves, int rank, int& deepest) {
  deepest = std::max(deepest, rank);
  if (type.parts.empty()) ++leaves;
  for (const TypePtr& part : type.parts) {
    if (leaves > kMaxLeaves) return;
    measure(*part, leaves, rank + 1, deepest);
  }
}

void check_size_of(const Type& type, Span span) {
  size_t leaves = 0;
  int deepest = 0;
  measure(type, leaves, 0, deepest);
  if (leaves <= kMaxLeaves && deepest <= kMaxRank) return;
  fail(Stage::parse, "limit", span,
       "a value of this type is too large: at most " + std::to_string(kMaxLeaves) +
           " components and " + std::to_string(kMaxRank) + " nested arrays and tuples");
}

const Value* lookup(const Environment& environment, std::string_view name) {
  for (const Binding* b = environment.get(); b != nullptr; b = b->outer.get()) {
    if (b->name == name) return &b->value;
  }
  return nullptr;
}

Environment bind_name(const Environment& outer, std::string_view name, Value value) {
  return std::make_shared<const Binding>(Binding{name, std::move(value), outer});
}

std::string counted(size_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

Value constructor(Evaluator& ev, const Pattern& pattern, Span span) {
  FunctionValue f;
  f.name = pattern.name;
  f.constructor = true;
  f.least = static_cast<int>(pattern.least);
  f.most = static_cast<int>(pattern.most);
  f.call = [&ev, make = pattern.make, span](std::vector<Value>, Span) {
    return make(PatternUse{ev, span, {}, nullptr});
  };
  return function_value(std::move(f));
}

}  // namespace

std::string quoted(std::string_view text) { return "`" + std::string(text) + "`"; }

namespace {

std::string type_hint(const std::string& expected, const Type& found) {
  bool array = found.kind == TypeKind::array;
  if (expected.starts_with("a Float or an Int") && array) {
    // Most often it is what a Reduce leaves, in a formula.
    if (found.length.is_constant(1)) {
      return "Reduce leaves an array of one element, which is At(0) $ (…)";
    }
    if (found.parts[0]->kind == TypeKind::array) {
      return "Map(Map(f)) takes each element of rows, Join() makes one array of them";
    }
    return "Map(v => …) $ a takes each element, Map(add) $ Zip(a, b) those of two arrays, At(0) $ "
           "a "
           "one; $ binds last: (At(0) $ a) + (At(1) $ a)";
  }
  bool number = found.kind == TypeKind::float_ || found.kind == TypeKind::int_;
  if (expected.ends_with("to be applied to an array") && number) {
    return "Map gives a function single elements: leave it out for the whole array, or make rows "
           "with Slide(3, 1) or Split(4)";
  }
  if (expected.ends_with("to be applied to an array") && found.kind == TypeKind::tuple) {
    if (expected.starts_with("At")) return "a component of a tuple is Get(0) $ t";
    return "Zip of arrays of arrays makes pairs of rows, which are zipped in turn: Map(p => Map(f) "
           "$ Zip(Get(0) $ p, Get(1) $ p)) $ Zip(a, b)";
  }
  if (expected == "a program that returns data") return "apply it to an input: f $ a";
  if (expected.starts_with("a function") || expected.starts_with("an index function")) {
    return "functions are names such as sqrt, patterns such as Map(f), and v => …";
  }
  return "";
}

}  // namespace

void fail_type(Span span, const std::string& expected, const Type& found) {
  fail(Stage::parse, "type", span, "expected " + expected + ", found " + to_string(found),
       type_hint(expected, found));
}

Value unary(std::string_view name, std::function<Value(Value, Span)> call) {
  FunctionValue f;
  f.name = name;
  f.call = [call](std::vector<Value> args, Span span) { return call(std::move(args[0]), span); };
  return function_value(std::move(f));
}

void require_array(const Value& value, std::string_view pattern, Span span) {
  if (value.array) return;
  fail_type(span, std::string(pattern) + " to be applied to an array", *value.type);
}

Evaluator::Evaluator(SourcePtr source, const ProgramSyntax& program_syntax)
    : context(std::move(source)), syntax(program_syntax) {}

Value Evaluator::evaluate(SyntaxId id, const Environment& environment) {
  const Syntax& node = syntax[id];
  switch (node.kind) {
    case SyntaxKind::integer: {
      Scalar literal;
      literal.integer = node.integer;
      literal.weak = true;
      return scalar_value(make_scalar(std::move(literal)));
    }
    case SyntaxKind::real:
      return scalar_value(real_literal(node.real));
    case SyntaxKind::name:
      return name(node, environment);
    case SyntaxKind::call:
      return call(node, environment);
    case SyntaxKind::lambda:
      return lambda(id, environment);
    case SyntaxKind::composition:
      return composition(node, environment);
    case SyntaxKind::application:
      return application(node, environment);
    case SyntaxKind::operation:
    case SyntaxKind::conditional: {
      std::vector<Value> args;
      for (SyntaxId arg : node.args) args.push_back(evaluate(arg, environment));
      if (node.kind == SyntaxKind::conditional) return choose(*this, args, node.span);
      return operate(*this, node.op, std::move(args), node.span);
    }
  }
  throw InternalError("lift: a syntax node of no kind");
}

std::string Evaluator::unknown_name_hint(std::string_view name,
                                         const Environment& environment) const {
  if (std::string_view hint = idiom_hint(name); !hint.empty()) return std::string(hint);
  if (std::string_view hint = word_hint(name); !hint.empty()) return std::string(hint);
  std::vector<std::string_view> known = pattern_names();
  for (const OpInfo& row : operations()) {
    if (find_function(row.spelling)) known.push_back(row.spelling);
  }
  for (const Binding* b = environment.get(); b != nullptr; b = b->outer.get()) {
    known.push_back(b->name);
  }
  for (size_t d = 0; d < visible_definitions_; ++d)
    known.push_back(syntax.definitions[d].name.text);
  if (std::optional<std::string_view> nearest = nearest_name(name, known)) {
    return "did you mean " + quoted(*nearest) + "?";
  }
  return "expected a parameter, a size, a pattern such as Map or a function such as add";
}

Value Evaluator::name(const Syntax& node, const Environment& environment) {
  if (const Value* value = lookup(environment, node.text)) return *value;
  if (context.is_size(node.text)) {
    return scalar_value(index_scalar(Expr::variable(std::string(node.text))));
  }
  for (size_t d = 0; d < visible_definitions_; ++d) {
    if (syntax.definitions[d].name.text == node.text) return definition(d, node.span);
  }
  if (const Pattern* pattern = find_pattern(node.text)) {
    return constructor(*this, *pattern, node.span);
  }
  if (std::optional<Value> f = user_function(*this, node.text)) return *f;
  fail(Stage::parse, "name", node.span, "nothing is called " + quoted(node.text),
       unknown_name_hint(node.text, environment));
}

std::string_view Evaluator::name_if_unbound(SyntaxId id, const Environment& environment) const {
  const Syntax& node = syntax[id];
  if (node.kind != SyntaxKind::name || lookup(environment, node.text) != nullptr) return {};
  return node.text;
}

Value Evaluator::call(const Syntax& node, const Environment& environment) {
  Value callee = evaluate(node.args[0], environment);
  std::vector<SyntaxId> params(node.args.begin() + 1, node.args.end());
  if (callee.function && callee.function->constructor) {
    const Pattern& pattern = *find_pattern(callee.function->name);
    if (params.size() < pattern.least || params.size() > pattern.most) {
      std::string range = counted(pattern.least, "parameter");
      if (pattern.most != pattern.least) {
        range = std::to_string(pattern.least) + " to " + counted(pattern.most, "parameter");
      }
      fail(Stage::parse, "arity", node.span,
           std::string(pattern.name) + " expects " + range + ", found " +
               std::to_string(params.size()),
           std::string(pattern_form(pattern.name)));
    }
    return pattern.make(PatternUse{*this, node.span, std::move(params), environment});
  }
  std::vector<Value> args;
  for (SyntaxId param : params) args.push_back(evaluate(param, environment));
  return apply(callee, std::move(args), node.span);
}

void Evaluator::check_arity(const FunctionValue& f, size_t count, Span span) const {
  if (f.arity < 0) return;  // any number
  auto arity = static_cast<size_t>(f.arity);
  if (count == arity) return;
  fail(Stage::parse, "arity", span,
       f.name + " expects " + counted(arity, "argument") + ", found " + std::to_string(count));
}

Value Evaluator::apply(const Value& f, std::vector<Value> args, Span span) {
  if (!f.function) fail_type(span, "a function", *f.type);
  checkpoint_at(span);
  if (++steps_ > kMaxSteps) {
    fail(Stage::parse, "limit", span,
         "the program applies more than " + std::to_string(kMaxSteps) + " functions");
  }
  if (nesting_ >= kMaxCalls) {
    fail(Stage::parse, "limit", span,
         "functions are applied more than " + std::to_string(kMaxCalls) + " levels deep");
  }
  ++nesting_;
  Value applied = f;
  if (f.function->constructor) {
    if (f.function->least > 0) {
      fail(Stage::parse, "arity", span,
           f.function->name + " is applied without parameters: expected " +
               counted(static_cast<size_t>(f.function->least), "parameter") + " in brackets first");
    }
    applied = f.function->call({}, span);
  }
  bool spread = args.size() == 1 && applied.function->arity > 1 && !args[0].parts.empty();
  if (spread) {
    std::vector<Value> parts = std::move(args[0].parts);
    args = std::move(parts);
  }
  check_arity(*applied.function, args.size(), span);
  Value result = applied.function->call(std::move(args), span);
  --nesting_;
  check_size_of(*result.type, span);
  bool deep = result.array && result.array->depth > kMaxViewDepth;
  return deep ? context.materialised(result, span) : result;
}

Value Evaluator::lambda(SyntaxId id, const Environment& environment) {
  const Syntax& node = syntax[id];
  FunctionValue f;
  f.name = "this lambda";
  f.arity = static_cast<int>(node.params.size());
  f.call = [this, id, environment](std::vector<Value> args, Span) {
    const Syntax& lambda = syntax[id];
    Environment inner = environment;
    for (size_t i = 0; i < args.size(); ++i) {
      std::string_view param = lambda.params[i].text;
      inner = bind_name(inner, param,
                        bound_argument(lambda.args[0], param, std::move(args[i]), lambda.span));
    }
    return evaluate(lambda.args[0], inner);
  };
  return function_value(std::move(f));
}

// How often a body reads a parameter; a use inside an inner function counts as many.
int Evaluator::uses(SyntaxId id, std::string_view name, bool repeated) const {
  const Syntax& node = syntax[id];
  if (node.kind == SyntaxKind::name) return node.text == name ? (repeated ? 2 : 1) : 0;
  if (node.kind == SyntaxKind::lambda) {
    for (const NameSyntax& param : node.params) {
      if (param.text == name) return 0;
    }
    repeated = true;
  }
  int count = 0;
  for (SyntaxId arg : node.args) count = std::min(2, count + uses(arg, name, repeated));
  return count;
}

// An array whose elements cost much and are read more than once gets a tensor.
Value Evaluator::bound_argument(SyntaxId body, std::string_view name, Value argument, Span span) {
  if (argument.function || (argument.scalar && argument.scalar->kind == ScalarKind::load)) {
    return argument;
  }
  auto [found, fresh] = uses_[body].try_emplace(name, 0);
  if (fresh) found->second = uses(body, name, false);
  if (found->second < 2 || argument.scalar) return argument;
  if (context.work(argument) <= kRecomputeLimit) return argument;
  return context.materialised(argument, span);
}

Value Evaluator::composition(const Syntax& node, const Environment& environment) {
  std::vector<Value> functions;
  std::vector<Span> spans;
  for (SyntaxId arg : node.args) {
    functions.push_back(evaluate(arg, environment));
    spans.push_back(syntax[arg].span);
    if (!functions.back().function) {
      fail_type(spans.back(), "a function beside `o`", *functions.back().type);
    }
  }
  FunctionValue f;
  f.name = "this composition";
  const FunctionValue& last = *functions.back().function;
  f.arity = last.constructor ? 1 : last.arity;
  f.call = [this, functions, spans](std::vector<Value> args, Span) {
    Value value = apply(functions.back(), std::move(args), spans.back());
    for (size_t i = functions.size() - 1; i-- > 0;) value = apply(functions[i], {value}, spans[i]);
    return value;
  };
  return function_value(std::move(f));
}

Value Evaluator::application(const Syntax& node, const Environment& environment) {
  Value value = evaluate(node.args.back(), environment);
  if (value.function && !value.function->constructor) {
    fail_type(syntax[node.args.back()].span, "data after `$`", *value.type);
  }
  for (size_t i = node.args.size() - 1; i-- > 0;) {
    Value f = evaluate(node.args[i], environment);
    value = apply(f, {std::move(value)}, syntax[node.args[i]].span);
  }
  return value;
}

// An earlier `val`, as a function: fun(T…, lambda) is its lambda.
Value Evaluator::definition(size_t number, Span span) {
  const Syntax& node = syntax[syntax.definitions[number].value];
  bool fun = node.kind == SyntaxKind::call && syntax[node.args[0]].text == "fun";
  size_t visible = std::exchange(visible_definitions_, number);
  if (++nesting_ > kMaxCalls) fail(Stage::parse, "limit", span, "definitions nest too deep");
  Value value = evaluate(fun ? node.args.back() : syntax.definitions[number].value, nullptr);
  --nesting_;
  visible_definitions_ = visible;
  return value;
}

Expr Evaluator::index_of(const Value& value, Span span) {
  bool integer = value.scalar && value.type->kind == TypeKind::int_;
  if (!integer) fail_type(span, "an Int", *value.type);
  return context.data_index(value.scalar);
}

Expr Evaluator::size_parameter(SyntaxId id, const Environment& environment, std::string_view of,
                               int64_t least) {
  Span span = syntax[id].span;
  Value value = evaluate(id, environment);
  if (!value.scalar || value.type->kind != TypeKind::int_) {
    fail(Stage::parse, "type", span,
         "expected an Int parameter of " + std::string(of) + ", found " + to_string(*value.type),
         std::string(pattern_form(of)));
  }
  if (!is_index(*value.scalar) || !value.scalar->free.empty()) {
    fail(Stage::parse, "type", span,
         "a parameter of " + std::string(of) + " must be known from the sizes alone");
  }
  Expr e = context.tidy(expr_of(*value.scalar));
  std::string bound = "a parameter of " + std::string(of) + " must be at least " +
                      std::to_string(least) + ", found " + to_string(e);
  context.require({e, SizeCheck::Relation::at_least, Expr(least), "size", bound, span});
  return e;
}

void Evaluator::require_same(const Type& a, const Type& b, Span span, const std::string& what) {
  auto mismatch = [&] {
    fail(Stage::parse, "type", span,
         what + ": expected " + to_string(a) + ", found " + to_string(b));
  };
  if (a.kind != b.kind || a.parts.size() != b.parts.size()) mismatch();
  if (a.kind == TypeKind::array) {
    std::string text = what + ": expected " + to_string(a) + ", found " + to_string(b);
    context.require({a.length, SizeCheck::Relation::equal, b.length, "type", text, span});
  }
  for (size_t i = 0; i < a.parts.size(); ++i) {
    if (a.parts[i]->kind != b.parts[i]->kind) mismatch();
    require_same(*a.parts[i], *b.parts[i], span, what);
  }
}

Value Evaluator::converted(const Value& value, const TypePtr& type) {
  if (value.scalar) {
    bool literal = value.scalar->weak && type->kind == TypeKind::float_;
    return literal ? scalar_value(real_literal(static_cast<double>(value.scalar->integer))) : value;
  }
  if (value.array && type->kind == TypeKind::array) {
    TypePtr part = type->parts[0];
    Value sample = value.array->at(context.fresh(value.length()));
    Value first = converted(sample, part);
    if (to_string(*first.type) == to_string(*sample.type)) return value;
    return array_of(
        value.length(), first.type,
        [this, value, part](const Expr& e) { return converted(value.array->at(e), part); },
        value.array->depth + 1);
  }
  Value out = value;
  if (value.parts.size() != type->parts.size()) return out;
  for (size_t i = 0; i < out.parts.size(); ++i) {
    out.parts[i] = converted(out.parts[i], type->parts[i]);
  }
  return value.parts.empty() ? out : tuple_value(std::move(out.parts));
}

}  // namespace tile::lift
