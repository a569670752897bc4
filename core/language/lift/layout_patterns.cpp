// Patterns that only rearrange: each makes a view, which composes its index function with those of
// the views below it (spec/lift.md 2.2, 2.3).
#include <algorithm>

#include "core/language/lift/boundaries.h"
#include "core/language/lift/evaluator.h"

namespace tile::lift {
namespace {

Span span_of(const PatternUse& use) { return use.span; }

const Value& need_array(const Value& v, std::string_view pattern, Span span) {
  require_array(v, pattern, span);
  return v;
}

void require_nested(const Value& v, std::string_view pattern, Span span) {
  if (v.array && v.type->parts[0]->kind == TypeKind::array) return;
  fail_type(span, std::string(pattern) + " to be applied to an array of arrays", *v.type);
}

void require_nonempty(Evaluator& ev, const Value& v, std::string_view pattern, Span span) {
  std::string text =
      std::string(pattern) + " needs an array of at least 1 element, found " + to_string(*v.type);
  ev.context.require({v.length(), SizeCheck::Relation::at_least, Expr(1), "size", text, span});
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

// Slide.

Value windows(Evaluator& ev, const Value& v, const Expr& size, const Expr& step) {
  Expr count = ev.context.tidy(max(0, floor_div(v.length() - size, step) + 1));
  TypePtr window = array_type(v.type->parts[0], size);
  int depth = v.array->depth + 2;
  auto at = [&ev, v, step, window, depth](const Expr& c) {
    return array_value(
        window,
        [&ev, v, step, c](const Expr& e) { return v.array->at(ev.context.tidy(c * step + e)); },
        depth);
  };
  return array_of(count, window, at, depth);
}

// Slide over the outermost `rank` dimensions: the window's dimensions come last of them.
Value slide_nested(Evaluator& ev, const Value& v, const std::vector<std::pair<Expr, Expr>>& dims,
                   size_t d, Span span) {
  require_array(v, "Slide", span);
  if (d + 1 == dims.size()) return slide(ev, v, dims[d].first, dims[d].second, span);
  Value inner = map_over(
      ev,
      unary("Slide",
            [&ev, dims, d](Value x, Span at) { return slide_nested(ev, x, dims, d + 1, at); }),
      v, span);
  Value outer = slide(ev, inner, dims[d].first, dims[d].second, span);
  // The window of this dimension moves inside those of the others: past the inner positions.
  std::function<Value(Value, size_t, Span)> sink = [&ev, &sink](Value x, size_t levels, Span at) {
    Value swapped = transpose(x, at);
    if (levels <= 1) return swapped;
    return map_over(
        ev,
        unary("Slide", [&sink, levels](
                           Value y, Span where) { return sink(std::move(y), levels - 1, where); }),
        swapped, at);
  };
  return map_over(ev,
                  unary("Slide", [&sink, levels = dims.size() - d - 1](
                                     Value x, Span at) { return sink(std::move(x), levels, at); }),
                  outer, span);
}

Value make_slide(const PatternUse& use) {
  Expr size = use.size(0, "Slide", 1), step = use.size(1, "Slide", 1);
  return unary("Slide", [&ev = use.ev, size, step](Value v, Span span) {
    require_array(v, "Slide", span);
    return slide(ev, v, size, step, span);
  });
}

Value slide_function(Evaluator& ev, std::string_view name,
                     std::vector<std::pair<Expr, Expr>> dims) {
  return unary(name, [&ev, dims = std::move(dims)](Value v, Span span) {
    return slide_nested(ev, v, dims, 0, span);
  });
}

size_t constant_rank(const PatternUse& use, std::string_view name) {
  Expr n = use.size(0, name, 1);
  if (n.is_constant() && n.value() <= 8) return static_cast<size_t>(n.value());
  fail(Stage::parse, "type", use.param_span(0),
       "the number of dimensions of " + std::string(name) + " must be 1 to 8");
}

// Slide2D(size, step) or, outer dimension first, Slide2D(size, step, size, step).
template <size_t kRank>
Value make_slide_of_rank(const PatternUse& use) {
  std::string name = "Slide" + std::to_string(kRank) + "D";
  if (use.params.size() != 2 && use.params.size() != 2 * kRank) {
    fail(Stage::parse, "arity", use.span,
         name + " expects 2 or " + std::to_string(2 * kRank) + " parameters, found " +
             std::to_string(use.params.size()));
  }
  std::vector<std::pair<Expr, Expr>> dims;
  for (size_t d = 0; d < kRank; ++d) {
    size_t first = use.params.size() == 2 ? 0 : 2 * d;
    dims.emplace_back(use.size(first, name, 1), use.size(first + 1, name, 1));
  }
  return slide_function(use.ev, name, std::move(dims));
}

// SlideND(n, size, step); SlideND(n)(size, step) is the same.
Value make_slide_nd(const PatternUse& use) {
  size_t rank = constant_rank(use, "SlideND");
  if (use.params.size() == 3) {
    Expr size = use.size(1, "SlideND", 1), step = use.size(2, "SlideND", 1);
    return slide_function(use.ev, "SlideND", {rank, {size, step}});
  }
  FunctionValue f;
  f.name = "SlideND";
  f.arity = 2;
  f.call = [&ev = use.ev, rank](std::vector<Value> args, Span span) {
    Expr size = ev.index_of(args[0], span), step = ev.index_of(args[1], span);
    for (const Expr& e : {size, step}) {
      ev.context.require({e, SizeCheck::Relation::at_least, Expr(1), "size",
                          "a parameter of SlideND must be at least 1", span});
    }
    return slide_function(ev, "SlideND", {rank, {size, step}});
  };
  return function_value(std::move(f));
}

// Pad.

struct Padding {
  Expr left, right;
  PadBoundary boundary;
};

Value guarded(Evaluator& ev, const Value& v, const Expr& raw, const Expr& n,
              const ScalarPtr& outside) {
  if (v.scalar) {
    Value fill = ev.converted(scalar_value(outside), v.type);
    if (fill.type->kind != v.type->kind) {
      fail_type(outside->span, "a constant of type " + to_string(*v.type), *fill.type);
    }
    Scalar node;
    node.kind = ScalarKind::guard;
    node.type = v.scalar->type;
    node.args = {v.scalar, fill.scalar};
    node.exprs = {raw, n};
    return scalar_value(make_scalar(std::move(node)));
  }
  Value out = v;
  for (Value& part : out.parts) part = guarded(ev, part, raw, n, outside);
  if (v.array) {
    auto at = [&ev, v, raw, n, outside](const Expr& e) {
      return guarded(ev, v.array->at(e), raw, n, outside);
    };
    out.array = std::make_shared<const ArrayValue>(ArrayValue{at, v.array->depth + 1, {}});
  }
  return out;
}

Value pad(Evaluator& ev, const Value& v, const Padding& p, Span span) {
  require_array(v, "Pad", span);
  require_nonempty(ev, v, "Pad", span);
  Expr n = v.length(), padded = ev.context.tidy(n + p.left + p.right);
  auto at = [&ev, v, p, n, padded](const Expr& i) {
    // One clamp on another is the clamp to the smaller range.
    std::optional<BoundedIndex> outer = find_bounded_index(i, padded);
    bool merges = outer && outer->kind == Boundary::clamp && p.boundary.kind == Boundary::clamp;
    Expr raw = ev.context.tidy((merges ? outer->raw : i) - p.left);
    if (ev.context.in_range(raw, n)) return v.array->at(raw);
    Value inside = v.array->at(boundary_index(p.boundary.kind, raw, n));
    if (p.boundary.kind != Boundary::constant) return inside;
    return guarded(ev, inside, raw, n, p.boundary.outside);
  };
  return array_of(padded, v.type->parts[0], at, v.array->depth + 1);
}

Value pad_nested(Evaluator& ev, const Value& v, const std::vector<Padding>& dims, size_t d,
                 Span span) {
  require_array(v, "Pad", span);
  Value inner = v;
  if (d + 1 < dims.size()) {
    inner = map_over(
        ev,
        unary("Pad",
              [&ev, dims, d](Value x, Span at) { return pad_nested(ev, x, dims, d + 1, at); }),
        v, span);
  }
  return pad(ev, inner, dims[d], span);
}

PadBoundary read_boundary(const PatternUse& use, size_t i) {
  SyntaxId id = use.params[i];
  const Syntax& node = use.ev.syntax[id];
  bool called = node.kind == SyntaxKind::call;
  std::string_view name = use.ev.name_if_unbound(called ? node.args[0] : id, use.environment);
  PadBoundary boundary;
  std::optional<Boundary> kind = find_boundary(name);
  size_t values = called ? node.args.size() - 1 : 0;
  bool constant = kind == Boundary::constant;
  if (!kind || values != (constant ? 1u : 0u)) {
    fail(Stage::parse, "boundary", node.span,
         "expected the boundary Clamp, Mirror, Wrap or Constant(value)");
  }
  boundary.kind = *kind;
  if (constant) {
    Value outside = use.ev.evaluate(node.args[1], use.environment);
    if (!outside.scalar || outside.type->kind == TypeKind::bool_) {
      fail_type(node.span, "a Float or an Int outside the array", *outside.type);
    }
    Scalar copy = *outside.scalar;
    copy.span = node.span;
    boundary.outside = make_scalar(std::move(copy));
  }
  return boundary;
}

Value pad_function(Evaluator& ev, std::string_view name, std::vector<Padding> dims) {
  return unary(name, [&ev, dims = std::move(dims)](Value v, Span span) {
    return pad_nested(ev, v, dims, 0, span);
  });
}

// Pad2D(l, r, b) or, outer dimension first, Pad2D(top, bottom, left, right, b).
template <size_t kRank>
Value make_pad_of_rank(const PatternUse& use) {
  std::string name = kRank == 1 ? "Pad" : "Pad" + std::to_string(kRank) + "D";
  size_t count = use.params.size();
  if (count != 3 && count != 2 * kRank + 1) {
    fail(Stage::parse, "arity", use.span,
         name + " expects 3 or " + std::to_string(2 * kRank + 1) + " parameters, found " +
             std::to_string(count));
  }
  PadBoundary boundary = read_boundary(use, count - 1);
  std::vector<Padding> dims;
  for (size_t d = 0; d < kRank; ++d) {
    size_t first = count == 3 ? 0 : 2 * d;
    dims.push_back({use.size(first, name, 0), use.size(first + 1, name, 0), boundary});
  }
  return pad_function(use.ev, name, std::move(dims));
}

Value make_pad_nd(const PatternUse& use) {
  size_t rank = constant_rank(use, "PadND");
  Padding p{use.size(1, "PadND", 0), use.size(2, "PadND", 0), read_boundary(use, 3)};
  return pad_function(use.ev, "PadND", {rank, p});
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

// Zip, Unzip, Tuple, Get.

Value zip(Evaluator& ev, const std::vector<Value>& arrays, Span span) {
  int depth = 0;
  std::vector<TypePtr> parts;
  for (const Value& v : arrays) {
    require_array(v, "Zip", span);
    depth = std::max(depth, v.array->depth);
    parts.push_back(v.type->parts[0]);
    std::string text = "Zip needs arrays of one length: found " + to_string(*arrays[0].type) +
                       " and " + to_string(*v.type);
    ev.context.require(
        {arrays[0].length(), SizeCheck::Relation::equal, v.length(), "type", text, span});
  }
  auto at = [arrays](const Expr& i) {
    std::vector<Value> elements;
    for (const Value& v : arrays) elements.push_back(v.array->at(i));
    return tuple_value(std::move(elements));
  };
  return with_rows(array_of(arrays[0].length(), tuple_type(std::move(parts)), at, depth + 1),
                   arrays[0].array->rows);
}

std::vector<Value> given(const PatternUse& use) {
  std::vector<Value> values;
  for (size_t i = 0; i < use.params.size(); ++i) {
    values.push_back(use.param(i));
    if (values.back().function) fail_type(use.param_span(i), "data", *values.back().type);
  }
  return values;
}

Value make_zip(const PatternUse& use) {
  if (use.params.size() == 1) {
    fail(Stage::parse, "arity", use.span, "Zip expects 2 or more parameters, found 1");
  }
  if (!use.params.empty()) return zip(use.ev, given(use), use.span);
  return unary("Zip", [&ev = use.ev](Value v, Span span) {
    if (v.parts.size() < 2) fail_type(span, "Zip to be applied to a tuple of arrays", *v.type);
    return zip(ev, v.parts, span);
  });
}

Value make_unzip(const PatternUse&) {
  return unary("Unzip", [](Value v, Span span) {
    if (!v.array || v.type->parts[0]->kind != TypeKind::tuple) {
      fail_type(span, "Unzip to be applied to an array of tuples", *v.type);
    }
    std::vector<Value> parts;
    const std::vector<TypePtr>& types = v.type->parts[0]->parts;
    for (size_t p = 0; p < types.size(); ++p) {
      parts.push_back(array_of(
          v.length(), types[p], [v, p](const Expr& i) { return v.array->at(i).parts[p]; },
          v.array->depth + 1));
    }
    return tuple_value(std::move(parts));
  });
}

Value make_tuple(const PatternUse& use) { return tuple_value(given(use)); }

Value component(const Value& v, const PatternUse& use, size_t param, Span span) {
  Expr i = use.size(param, "Get", 0);
  if (v.parts.empty()) fail_type(span, "Get to be applied to a tuple", *v.type);
  bool inside = i.is_constant() && i.value() < static_cast<int64_t>(v.parts.size());
  if (!inside) {
    fail(Stage::parse, "index", use.param_span(param),
         "Get(" + to_string(i) + ") of a tuple of " + std::to_string(v.parts.size()) +
             " components: " + to_string(*v.type));
  }
  return v.parts[static_cast<size_t>(i.value())];
}

Value make_get(const PatternUse& use) {
  if (use.params.size() == 2) return component(use.param(0), use, 1, span_of(use));
  return unary("Get", [use](Value v, Span span) { return component(v, use, 0, span); });
}

// Generate, Value.

Value make_generate(const PatternUse& use) {
  Value f = use.param(0);
  if (!f.function) fail_type(use.param_span(0), "a function of the index", *f.type);
  Expr n = use.size(1, "Generate", 0);
  auto at = [&ev = use.ev, f, n, span = use.span](const Expr& i) {
    std::vector<Value> args = {scalar_value(index_scalar(i))};
    if (f.function->arity == 2) args.push_back(scalar_value(index_scalar(n)));
    return ev.apply(f, std::move(args), span);
  };
  Value sample = at(use.ev.context.fresh(n));
  if (sample.function) fail_type(use.param_span(0), "elements that are data", *sample.type);
  return array_of(n, sample.type, at, 1);
}

Value filled(const Value& v, const TypePtr& type) {
  if (type->kind != TypeKind::array) return v;
  TypePtr part = type->parts[0];
  return array_value(type, [v, part](const Expr&) { return filled(v, part); }, 1);
}

Value make_value(const PatternUse& use) {
  Value v = use.param(0);
  if (!v.scalar) fail_type(use.param_span(0), "a Float or an Int", *v.type);
  if (use.params.size() == 1) return v;
  TypePtr type = use.ev.type_of(use.params[1]), leaf = type;
  while (leaf->kind == TypeKind::array) leaf = leaf->parts[0];
  Value element = use.ev.converted(v, leaf);
  if (element.type->kind != leaf->kind) {
    fail_type(use.param_span(0), "a value of type " + to_string(*leaf), *v.type);
  }
  return filled(element, type);
}

}  // namespace

// Where windows overlap, elements that cost much are computed once, into a tensor.
Value slide(Evaluator& ev, const Value& array, const Expr& size, const Expr& step, Span span) {
  require_array(array, "Slide", span);
  bool overlaps = !ev.context.proves(less(size, step + 1));
  int64_t reads = size.is_constant() ? size.value() : kAssumedTrips;
  int64_t work = overlaps ? ev.context.work(array) : 0;
  bool costly = work > 8 && (work > kRecomputeLimit ||
                             work * std::min(reads, kAssumedTrips) > 4 * kRecomputeLimit);
  return windows(ev, costly ? ev.context.materialised(array, span) : array, size, step);
}

std::vector<Pattern> layout_patterns() {
  return {{"Split", 1, 1, make_split},
          {"Join", 0, 0, make_join},
          {"AsVector", 1, 1, make_as_vector},
          {"AsScalar", 0, 0, make_as_scalar},
          {"Transpose", 0, 0, make_transpose},
          {"Head", 0, 0, make_head},
          {"Tail", 0, 0, make_tail},
          {"At", 1, 1, make_at},
          {"Slide", 2, 2, make_slide},
          {"Slide2D", 2, 4, make_slide_of_rank<2>},
          {"Slide3D", 2, 6, make_slide_of_rank<3>},
          {"SlideND", 1, 3, make_slide_nd},
          {"Pad", 3, 3, make_pad_of_rank<1>},
          {"Pad2D", 3, 5, make_pad_of_rank<2>},
          {"Pad3D", 3, 7, make_pad_of_rank<3>},
          {"PadND", 4, 4, make_pad_nd},
          {"Gather", 1, 1, make_gather},
          {"Scatter", 1, 1, make_scatter},
          {"Zip", 0, 64, make_zip},
          {"Unzip", 0, 0, make_unzip},
          {"Tuple", 1, 64, make_tuple},
          {"Get", 1, 2, make_get},
          {"Generate", 2, 2, make_generate},
          {"Value", 1, 2, make_value}};
}

}  // namespace tile::lift
