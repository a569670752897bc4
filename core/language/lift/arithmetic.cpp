// Operators and user functions on scalars; integers over sizes and loop variables stay index
// expressions.
#include <array>

#include "core/language/lift/evaluator.h"

namespace tile::lift {
namespace {

std::optional<Expr> index_operation(Op op, const std::vector<Expr>& e, Span span) {
  bool divides = op == Op::div || op == Op::mod;
  if (divides && e[1].is_constant(0)) {
    fail(Stage::parse, "division", span, "this index divides by zero");
  }
  switch (op) {
    case Op::add:
      return e[0] + e[1];
    case Op::sub:
      return e[0] - e[1];
    case Op::mul:
      return e[0] * e[1];
    case Op::div:
      return trunc_div(e[0], e[1]);
    case Op::mod:
      return trunc_mod(e[0], e[1]);
    case Op::neg:
      return -e[0];
    case Op::min:
      return min(e[0], e[1]);
    case Op::max:
      return max(e[0], e[1]);
    case Op::lt:
      return less(e[0], e[1]);
    case Op::gt:
      return less(e[1], e[0]);
    case Op::le:
      return less(e[0], e[1] + 1);
    case Op::ge:
      return less(e[1], e[0] + 1);
    case Op::eq:
      return equal(e[0], e[1]);
    case Op::ne:
      return Expr(1) - equal(e[0], e[1]);
    default:
      return std::nullopt;
  }
}

bool gives_bool(Op op) {
  TypeRule rule = info(op).rule;
  return rule == TypeRule::comparison || rule == TypeRule::logical || rule == TypeRule::predicate;
}

ScalarPtr as_float(const ScalarPtr& s, Span span) {
  if (s->type == DType::f32) return s;
  if (s->kind == ScalarKind::integer) return real_literal(static_cast<double>(s->integer));
  return operation(Op::cast, {s}, DType::f32, span);
}

// Comparisons and conditions hold for each element of vectors of one length.
Value elementwise(Evaluator& ev, Op op, const std::vector<Value>& args, Span span) {
  const Value* like = nullptr;
  for (const Value& arg : args) {
    if (!arg.array) continue;
    if (like != nullptr) ev.require_same(*like->type, *arg.type, span, "the vectors differ");
    like = &arg;
  }
  auto at = [&ev, op, args, span](const Expr& e) {
    std::vector<Value> elements;
    for (const Value& arg : args) elements.push_back(arg.array ? arg.array->at(e) : arg);
    return operate(ev, op, elements, span);
  };
  Value sample = at(ev.context.fresh(like->length()));
  return array_value(array_type(sample.type, like->length(), true), at, like->array->depth + 1);
}

bool is_truth(const Value& v) { return v.type->kind == TypeKind::bool_; }

}  // namespace

Value operate(Evaluator& ev, Op op, std::vector<Value> args, Span span) {
  bool vectors = false, floats = false, indices = true;
  for (const Value& arg : args) {
    vectors = vectors || (arg.array && arg.type->vector);
    if (!arg.scalar && !(arg.array && arg.type->vector)) {
      fail_type(span, "a Float or an Int for " + quoted(info(op).spelling), *arg.type);
    }
    floats = floats || (arg.scalar && arg.type->kind == TypeKind::float_);
    indices = indices && arg.scalar && is_index(*arg.scalar);
  }
  if (vectors) return elementwise(ev, op, args, span);
  TypeRule rule = info(op).rule;
  bool logical = rule == TypeRule::logical;
  for (const Value& arg : args) {
    if (is_truth(arg) != logical) {
      fail_type(span,
                (logical ? "a Bool for " : "a Float or an Int for ") + quoted(info(op).spelling),
                *arg.type);
    }
  }
  if (indices && !logical) {
    std::vector<Expr> exprs;
    bool weak = true;
    for (const Value& arg : args) {
      exprs.push_back(expr_of(*arg.scalar));
      weak = weak && arg.scalar->weak;
    }
    if (std::optional<Expr> e = index_operation(op, exprs, span)) {
      Scalar folded = *index_scalar(*e, gives_bool(op) ? DType::bool_ : DType::i32);
      folded.weak = weak && folded.kind == ScalarKind::integer && !gives_bool(op);
      return scalar_value(make_scalar(std::move(folded)));
    }
  }
  floats = floats || rule == TypeRule::floating;
  std::vector<ScalarPtr> scalars;
  for (const Value& arg : args) {
    scalars.push_back(floats ? as_float(arg.scalar, span) : arg.scalar);
  }
  DType type = gives_bool(op) ? DType::bool_ : floats ? DType::f32 : DType::i32;
  return scalar_value(operation(op, std::move(scalars), type, span));
}

Value choose(Evaluator& ev, const std::vector<Value>& args, Span span) {
  const Value &condition = args[0], &a = args[1], &b = args[2];
  if (!condition.scalar || !is_truth(condition)) {
    fail_type(span, "a comparison before `?`", *condition.type);
  }
  if (is_index(*condition.scalar)) {
    Expr decided = ev.context.tidy(expr_of(*condition.scalar));
    if (decided.is_constant() && a.type->kind == b.type->kind && a.scalar && b.scalar) {
      return decided.value() != 0 ? a : b;
    }
  }
  if (a.array || !a.parts.empty()) {
    ev.require_same(*a.type, *b.type, span, "the two arms of `?` differ");
    if (a.array) {
      auto at = [&ev, condition, a, b, span](const Expr& e) {
        return choose(ev, {condition, a.array->at(e), b.array->at(e)}, span);
      };
      return array_value(a.type, at, std::max(a.array->depth, b.array->depth) + 1);
    }
    std::vector<Value> parts;
    for (size_t i = 0; i < a.parts.size(); ++i) {
      parts.push_back(choose(ev, {condition, a.parts[i], b.parts[i]}, span));
    }
    return tuple_value(std::move(parts));
  }
  Value x = ev.converted(a, b.type), y = ev.converted(b, a.type);
  ev.require_same(*x.type, *y.type, span, "the two arms of `?` differ");
  bool index = is_index(*condition.scalar) && is_index(*x.scalar) && is_index(*y.scalar) &&
               x.type->kind == TypeKind::int_;
  if (index) {
    return scalar_value(
        index_scalar(select(expr_of(*condition.scalar), expr_of(*x.scalar), expr_of(*y.scalar))));
  }
  return scalar_value(
      operation(Op::select, {condition.scalar, x.scalar, y.scalar}, x.scalar->type, span));
}

namespace {

// Names of the deck and of C for rows of the operation table.
struct UserFunction {
  std::string_view name;
  Op op;
};
constexpr auto kUserFunctions = std::to_array<UserFunction>({{"add", Op::add},
                                                             {"sub", Op::sub},
                                                             {"subtract", Op::sub},
                                                             {"mult", Op::mul},
                                                             {"mul", Op::mul},
                                                             {"div", Op::div},
                                                             {"neg", Op::neg},
                                                             {"fabs", Op::abs}});

Value typed_function(Evaluator& ev, std::string_view name, Op op) {
  FunctionValue f;
  f.name = name;
  f.arity = info(op).arity;
  f.call = [&ev, op, called = std::string(name)](std::vector<Value> args, Span span) {
    if (args.size() == 2 && args[0].scalar && args[1].scalar) {
      args[0] = ev.converted(args[0], args[1].type);
      args[1] = ev.converted(args[1], args[0].type);
      if (args[0].type->kind != args[1].type->kind) {
        fail(Stage::parse, "type", span,
             called + " takes two values of one type: expected " + to_string(*args[0].type) +
                 ", found " + to_string(*args[1].type),
             "a Float is written 0.0f or 1.0f; toFloat(i) and toInt(v) convert");
      }
    }
    return operate(ev, op, std::move(args), span);
  };
  return function_value(std::move(f));
}

Value conversion(Evaluator& ev, std::string_view name, DType type) {
  return unary(name, [&ev, type](Value v, Span span) {
    if (!v.scalar || is_truth(v)) fail_type(span, "a Float or an Int", *v.type);
    if (v.scalar->type == type) return v;
    if (type == DType::f32) return scalar_value(as_float(v.scalar, span));
    return scalar_value(operation(Op::cast, {v.scalar}, type, span));
  });
}

}  // namespace

std::optional<Value> user_function(Evaluator& ev, std::string_view name) {
  if (name == "id") return unary(name, [](Value v, Span) { return v; });
  if (name == "toFloat") return conversion(ev, name, DType::f32);
  if (name == "toInt") return conversion(ev, name, DType::i32);
  for (const UserFunction& row : kUserFunctions) {
    if (row.name == name) return typed_function(ev, name, row.op);
  }
  std::optional<Op> op = find_function(name);
  if (!op) return std::nullopt;
  bool numeric = info(*op).rule == TypeRule::arithmetic || info(*op).rule == TypeRule::floating ||
                 info(*op).rule == TypeRule::rounding;
  if (!numeric) return std::nullopt;
  return typed_function(ev, name, *op);
}

}  // namespace tile::lift
