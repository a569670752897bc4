// Evaluation of Lift expressions: every function is applied to the views of its arguments, which
// infers types and composes views in one walk along the data flow.
#pragma once

#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "core/language/lift/context.h"
#include "core/language/lift/lower.h"
#include "core/language/lift/syntax.h"

namespace tile::lift {

struct Binding;
using Environment = std::shared_ptr<const Binding>;
struct Binding {
  std::string_view name;
  Value value;
  Environment outer;
};

class Evaluator {
 public:
  Evaluator(SourcePtr source, const ProgramSyntax& syntax);
  Program run();

  Context context;
  const ProgramSyntax& syntax;

  Value evaluate(SyntaxId id, const Environment& environment);
  // f(args…), a tuple being spread over several parameters.
  Value apply(const Value& f, std::vector<Value> args, Span span);
  // A type written as an expression.
  TypePtr type_of(SyntaxId id);
  // An integer over sizes and loop variables.
  Expr index_of(const Value& value, Span span);
  // The same over sizes alone: a parameter such as that of Split.
  Expr size_parameter(SyntaxId id, const Environment& environment, std::string_view of,
                      int64_t least);

  // Elements of an array.
  Value element(const Value& array, const Expr& index) const { return array.array->at(index); }

  // Checks that the types agree, up to lengths that only bind can compare.
  void require_same(const Type& a, const Type& b, Span span, const std::string& what);
  // Scalars, tuples and arrays of Float where an integer literal was given for one.
  Value converted(const Value& value, const TypePtr& type);

  std::string_view name_if_unbound(SyntaxId id, const Environment& environment) const;

 private:
  Value name(const Syntax& node, const Environment& environment);
  std::string unknown_name_hint(std::string_view name, const Environment& environment) const;
  Value call(const Syntax& node, const Environment& environment);
  Value lambda(SyntaxId id, const Environment& environment);
  Value composition(const Syntax& node, const Environment& environment);
  Value application(const Syntax& node, const Environment& environment);
  Value definition(size_t number, Span span);
  void check_arity(const FunctionValue& f, size_t count, Span span) const;
  Value bound_argument(SyntaxId body, std::string_view name, Value argument, Span span);
  int uses(SyntaxId id, std::string_view name, bool repeated) const;

  void declare_inputs(const Syntax& fun);
  void name_dimensions();
  void solve_size(const std::string& name, const Expr& dim, const std::string& own, Span span);
  Expr size_expression(SyntaxId id);
  std::optional<TensorId> repeated(const std::vector<ScalarPtr>& scalars,
                                   const std::vector<ResultDimension>& dims) const;
  void emit_output(const Value& result, const std::string& name, Span span);
  Value element_of(const Value& result, bool rows, std::vector<ResultDimension>& dims);
  Value component_of(const Value& v, size_t p);

  std::vector<TypePtr> input_types_;
  std::map<SyntaxId, std::map<std::string_view, int>> uses_;
  size_t visible_definitions_ = 0;
  int nesting_ = 0;
  int steps_ = 0;
};

std::string quoted(std::string_view text);
// "expected what, found type"
[[noreturn]] void fail_type(Span span, const std::string& expected, const Type& found);

// Arithmetic on scalars, vectors and index expressions (arithmetic.cpp).
Value operate(Evaluator& ev, Op op, std::vector<Value> args, Span span);
Value choose(Evaluator& ev, const std::vector<Value>& args, Span span);
// The user functions that every program may call: add, mult, sqrt … ; nullopt for other names.
std::optional<Value> user_function(Evaluator& ev, std::string_view name);

// One use of a pattern in the text: Slide(3, 1).
struct PatternUse {
  Evaluator& ev;
  Span span;
  std::vector<SyntaxId> params;
  Environment environment;

  Value param(size_t i) const { return ev.evaluate(params[i], environment); }
  Expr size(size_t i, std::string_view of, int64_t least) const {
    return ev.size_parameter(params[i], environment, of, least);
  }
  Span param_span(size_t i) const { return ev.syntax[params[i]].span; }
};
struct Pattern {
  std::string_view name;
  size_t least, most;  // parameters
  Value (*make)(const PatternUse& use);
};
// By name, also with its first letter in lower case.
const Pattern* find_pattern(std::string_view name);
std::vector<std::string_view> pattern_names();
// By file: rearranging; Slide and Pad; tuples and Generate; computing; Iterate.
std::vector<Pattern> layout_patterns();
std::vector<Pattern> window_patterns();
std::vector<Pattern> tuple_patterns();
std::vector<Pattern> compute_patterns();
std::vector<Pattern> iteration_patterns();

// What layout and compute patterns share.
Value unary(std::string_view name, std::function<Value(Value, Span)> call);
// Fails unless the value is an array.
void require_array(const Value& value, std::string_view pattern, Span span);
// Fails, now or at bind, unless the array has an element.
void require_nonempty(Evaluator& ev, const Value& v, std::string_view pattern, Span span);
Value transpose(const Value& v, Span span);
// `span` is where f stands, at which what f refuses of the elements is reported.
Value map_over(Evaluator& ev, const Value& f, const Value& array, Span span);
Value slide(Evaluator& ev, const Value& array, const Expr& size, const Expr& step, Span span);

}  // namespace tile::lift
