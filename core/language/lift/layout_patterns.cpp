// Patterns that only rearrange: each makes a view, which composes its index function with those of
// the views below it (core/language/lift/REFERENCE.md 2.2, 2.3).
#include <algorithm>

#include "core/language/lift/boundaries.h"
#include "core/language/lift/evaluator.h"

namespace tile::lift {
namespace {

const Value& need_array(const Value& v, std::string_view pattern, Span span) {
  require_array(v, pattern, span);
  return v;
}

void require_nested(const Value& v, std::string_view pattern, Span span) {
  if (v.array && v.type->parts[0]->kind == TypeKind::array) return;
  fail_type(span, std::string(pattern) + " to be applied to an array of arrays", *v.type);
}
// A view of `source` whose element i is the source's element index(i).
Value reordered(const Value& source, const Expr& length, const TypePtr& element,
                std::function<Expr(const Expr&)> index) {
  return array_of(
      length, element, [source, index](const Expr& i) { return source.array->at(index(i)); },
      source.array->depth + 1);
}

// Split and Join.

Value split(Evaluator& ev, const Value& v, const Expr& n, bool vector, Span span) {
  std::string text =
      "Split(" + to_string(n) + ") needs a length that it divides, found " + to_string(*v.type);
  ev.context.require({v.length(), SizeCheck::Relation::multiple_of, n, "split", text, span});
  TypePtr element = v.type->parts[0];
  TypePtr chunk = array_type(element, n, vector);
  int depth = v.array->depth + 2;
  auto at = [&ev, v, n, chunk, depth](const Expr& c) {
    return array_value(
        chunk, [&ev, v, n, c](const Expr& e) { return v.array->at(ev.context.tidy(c * n + e)); },
        depth);
  };
  return array_of(ev.context.tidy(exact_div(v.length(), n)), chunk, at, depth);
}

Value make_split(const PatternUse& use) {
  Expr n = use.size(0, "Split", 1);
  return unary("Split", [&ev = use.ev, n](Value v, Span span) {
    return split(ev, need_array(v, "Split", span), n, false, span);
  });
}
Value make_as_vector(const PatternUse& use) {
  Expr n = use.size(0, "asVector", 1);
  return unary("asVector", [&ev = use.ev, n](Value v, Span span) {
    require_array(v, "asVector", span);
    if (!is_scalar(*v.type->parts[0])) {
      fail_type(span, "asVector to be applied to an array of scalars", *v.type);
    }
    return split(ev, v, n, true, span);
  });
}

Value join(Evaluator& ev, const Value& v) {
  TypePtr inner = v.type->parts[0];
  Expr n = inner->length;
  auto at = [&ev, v, n](const Expr& i) {
    Value outer = v.array->at(ev.context.tidy(trunc_div(i, n)));
    return outer.array->at(ev.context.tidy(trunc_mod(i, n)));
  };
  std::vector<Expr> rows = v.array->rows;
  rows.push_back(n);
  Value joined = array_of(ev.context.tidy(v.length() * n), inner->parts[0], at, v.array->depth + 2);
  return with_rows(std::move(joined), std::move(rows));
}

Value make_join(const PatternUse& use) {
  return unary("Join", [&ev = use.ev](Value v, Span span) {
    require_nested(v, "Join", span);
    return join(ev, v);
  });
}
Value make_as_scalar(const PatternUse& use) {
  return unary("asScalar", [&ev = use.ev](Value v, Span span) {
    bool vectors = v.array && v.type->parts[0]->vector;
    if (!vectors) fail_type(span, "asScalar to be applied to an array of vectors", *v.type);
    return join(ev, v);
  });
}
// Transpose, Head, Tail, At.

Value make_transpose(const PatternUse&) {
  return unary("Transpose", [](Value v, Span span) { return transpose(v, span); });
}

Value make_head(const PatternUse& use) {
  return unary("Head", [&ev = use.ev](Value v, Span span) {
    require_array(v, "Head", span);
    require_nonempty(ev, v, "Head", span);
    return v.array->at(0);
  });
}
Value make_tail(const PatternUse& use) {
  return unary("Tail", [&ev = use.ev](Value v, Span span) {
    require_array(v, "Tail", span);
    require_nonempty(ev, v, "Tail", span);
    return reordered(v, ev.context.tidy(v.length() - 1), v.type->parts[0],
                     [](const Expr& i) { return i + 1; });
  });
}

// The element at a position, which is inside the array by proof, by a check at bind or, where it
// depends on data or loops, by clamping.
Value element_at(Evaluator& ev, const Value& v, const Expr& position, Span span) {
  Expr i = ev.context.tidy(position);
  if (ev.context.in_range(i, v.length())) return v.array->at(i);
  Expr n = v.length();
  std::vector<std::string> names;
  collect_variables(i, names);
  bool varies = std::any_of(names.begin(), names.end(), [](const auto& s) { return s[0] == '$'; });
  if (varies) return v.array->at(clamp_index(i, n));
  std::string text = "the position " + to_string(i) +
                     " is outside the array: expected 0 <= position < " + to_string(n);
  ev.context.require({i, SizeCheck::Relation::at_least, Expr(0), "index", text, span});
  ev.context.require({n, SizeCheck::Relation::at_least, i + 1, "index", text, span});
  return v.array->at(i);
}

Value make_at(const PatternUse& use) {
  Expr i = use.ev.index_of(use.param(0), use.param_span(0));
  return unary("At", [&ev = use.ev, i](Value v, Span span) {
    require_array(v, "At", span);
    return element_at(ev, v, i, span);
  });
}
// Gather and Scatter.

struct IndexFunction {
  std::function<Expr(const Expr& i, const Expr& n)> forward, inverse;  // inverse: may be empty
};

Expr shifted(const Expr& i, const Expr& k, const Expr& n) { return wrap_index(i + k, n); }
Expr strided(const Expr& i, const Expr& s, const Expr& n) {
  Expr rows = exact_div(n, s);
  return trunc_div(i, rows) + s * trunc_mod(i, rows);
}

IndexFunction written_index_function(const PatternUse& use) {
  Value f = use.param(0);
  Span span = use.param_span(0);
  if (!f.function) fail_type(span, "an index function", *f.type);
  auto forward = [&ev = use.ev, f, span](const Expr& i, const Expr& n) {
    std::vector<Value> args = {scalar_value(index_scalar(i))};
    if (f.function->arity == 2) args.push_back(scalar_value(index_scalar(n)));
    Expr to = ev.context.tidy(ev.index_of(ev.apply(f, std::move(args), span), span));
    return ev.context.in_range(to, n) ? to : clamp_index(to, n);
  };
  return {forward, nullptr};
}

IndexFunction index_function(const PatternUse& use) {
  SyntaxId id = use.params[0];
  const Syntax& node = use.ev.syntax[id];
  bool called = node.kind == SyntaxKind::call;
  std::string_view name = use.ev.name_if_unbound(called ? node.args[0] : id, use.environment);
  size_t values = called ? node.args.size() - 1 : 0;
  bool reverse = name == "reverse", shift = name == "shift", stride = name == "stride";
  if (!reverse && !shift && !stride) return written_index_function(use);
  if (values != (reverse ? 0u : 1u)) {
    fail(Stage::parse, "arity", node.span,
         std::string(name) + " expects " + (reverse ? "no parameter" : "1 parameter"));
  }
  if (reverse) {
    auto mirror = [](const Expr& i, const Expr& n) { return n - 1 - i; };
    return {mirror, mirror};
  }
  if (shift) {
    Expr k = use.ev.size_parameter(node.args[1], use.environment, "shift", INT32_MIN);
    return {[k](const Expr& i, const Expr& n) { return shifted(i, k, n); },
            [k](const Expr& i, const Expr& n) { return shifted(i, -k, n); }};
  }
  Expr s = use.ev.size_parameter(node.args[1], use.environment, "stride", 1);
  auto check = [&ev = use.ev, s, span = node.span](const Expr& n) {
    std::string text =
        "stride(" + to_string(s) + ") needs a length that it divides, found " + to_string(n);
    ev.context.require({n, SizeCheck::Relation::multiple_of, s, "stride", text, span});
  };
  return {[s, check](const Expr& i, const Expr& n) {
            check(n);
            return strided(i, s, n);
          },
          [s, check](const Expr& i, const Expr& n) {
            check(n);
            return strided(i, exact_div(n, s), n);
          }};
}

Value gathered(Evaluator& ev, const Value& v,
               const std::function<Expr(const Expr&, const Expr&)>& index) {
  Expr n = v.length();
  index(ev.context.fresh(n), n);  // finds its errors even if no element is read
  return reordered(v, n, v.type->parts[0], [&ev, n, index](const Expr& i) {
    Expr to = index(i, n);
    return is_clamped(to) || is_wrapped(to) ? to : ev.context.tidy(to);
  });
}

Value make_gather(const PatternUse& use) {
  IndexFunction f = index_function(use);
  return unary("Gather", [&ev = use.ev, f](Value v, Span span) {
    return gathered(ev, need_array(v, "Gather", span), f.forward);
  });
}

// A write through a function without known inverse: element o is the sum over the one i that is
// written there.
Value scattered(Evaluator& ev, const Value& v, const Expr& o,
                const std::function<Expr(const Expr&, const Expr&)>& forward) {
  auto pick = [&ev, o, forward, n = v.length()](const ScalarPtr& s, const Expr& i) {
    ScalarPtr zero = s->type == DType::f32 ? real_literal(0) : integer_literal(0);
    ScalarPtr hit = index_scalar(equal(ev.context.tidy(forward(i, n)), o), DType::bool_);
    Scalar node;
    node.kind = ScalarKind::reduce;
    node.op = Op::add;
    node.type = s->type;
    node.variable = i.name();
    node.exprs = {n};
    node.args = {operation(Op::select, {hit, s, zero}, s->type)};
    return scalar_value(make_scalar(std::move(node)));
  };
  std::function<Value(const Value&, const Expr&)> each =
      [&each, &ev, pick](const Value& x, const Expr& i) -> Value {
    if (x.scalar) return pick(x.scalar, i);
    if (x.array) fail(Stage::parse, "type", {}, "Scatter by a lambda writes scalars and tuples");
    std::vector<Value> parts;
    for (const Value& part : x.parts) parts.push_back(each(part, i));
    return tuple_value(std::move(parts));
  };
  Expr i = ev.context.fresh(v.length());
  return each(v.array->at(i), i);
}

Value make_scatter(const PatternUse& use) {
  IndexFunction f = index_function(use);
  return unary("Scatter", [&ev = use.ev, f](Value v, Span span) {
    require_array(v, "Scatter", span);
    if (f.inverse) return gathered(ev, v, f.inverse);
    auto at = [&ev, v, f](const Expr& o) { return scattered(ev, v, o, f.forward); };
    Value written = array_of(v.length(), v.type->parts[0], at, v.array->depth + 1);
    return ev.context.materialised(written, span);
  });
}
}  // namespace

void require_nonempty(Evaluator& ev, const Value& v, std::string_view pattern, Span span) {
  std::string text =
      std::string(pattern) + " needs an array of at least 1 element, found " + to_string(*v.type);
  ev.context.require({v.length(), SizeCheck::Relation::at_least, Expr(1), "size", text, span});
}
Value transpose(const Value& v, Span span) {
  require_nested(v, "Transpose", span);
  TypePtr inner = v.type->parts[0];
  TypePtr row = array_type(inner->parts[0], v.length());
  int depth = v.array->depth + 2;
  auto at = [v, row, depth](const Expr& j) {
    return array_value(row, [v, j](const Expr& i) { return v.array->at(i).array->at(j); }, depth);
  };
  return array_of(inner->length, row, at, depth);
}
std::vector<Pattern> layout_patterns() {
  return {{"Split", 1, 1, make_split},         {"Join", 0, 0, make_join},
          {"AsVector", 1, 1, make_as_vector},  {"AsScalar", 0, 0, make_as_scalar},
          {"Transpose", 0, 0, make_transpose}, {"Head", 0, 0, make_head},
          {"Tail", 0, 0, make_tail},           {"At", 1, 1, make_at},
          {"Gather", 1, 1, make_gather},       {"Scatter", 1, 1, make_scatter}};
}

}  // namespace tile::lift
