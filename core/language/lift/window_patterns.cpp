// Slide and Pad in one and more dimensions.
#include <algorithm>

#include "core/language/lift/boundaries.h"
#include "core/language/lift/evaluator.h"

namespace tile::lift {
namespace {

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

// Whether elements of so much work are worth a tensor rather than being computed so many times.
bool is_costly(int64_t work, int64_t reads) {
  reads = std::min(reads, kAssumedTrips);
  return work > 8 && (work > kRecomputeLimit || work * reads > 4 * kRecomputeLimit);
}

// What windows would compute again is stored before there are any: an array of windows is many
// times as large. So are views which with those of the windows would be too deep.
Value before_windows(Evaluator& ev, const Value& v, const std::vector<std::pair<Expr, Expr>>& dims,
                     Span span) {
  constexpr int kDeep = 32;  // views; half of what the evaluator allows
  if (dims.size() < 2 || !v.array) return v;
  int64_t reads = 1;
  for (const auto& [size, step] : dims) {
    bool overlaps = !ev.context.proves(less(size, step + 1));
    if (overlaps) reads *= size.is_constant() ? std::min<int64_t>(size.value(), 64) : 64;
  }
  bool costly = reads > 1 && is_costly(ev.context.work(v), reads);
  return costly || v.array->depth > kDeep ? ev.context.materialised(v, span) : v;
}

Value slide_function(Evaluator& ev, std::string_view name,
                     std::vector<std::pair<Expr, Expr>> dims) {
  return unary(name, [&ev, dims = std::move(dims)](Value v, Span span) {
    return slide_nested(ev, before_windows(ev, v, dims, span), dims, 0, span);
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

}  // namespace

// Where windows overlap, elements that cost much are computed once, into a tensor.
Value slide(Evaluator& ev, const Value& array, const Expr& size, const Expr& step, Span span) {
  require_array(array, "Slide", span);
  bool overlaps = !ev.context.proves(less(size, step + 1));
  int64_t reads = size.is_constant() ? size.value() : kAssumedTrips;
  bool costly = overlaps && is_costly(ev.context.work(array), reads);
  return windows(ev, costly ? ev.context.materialised(array, span) : array, size, step);
}

std::vector<Pattern> window_patterns() {
  return {{"Slide", 2, 2, make_slide},
          {"Slide2D", 2, 4, make_slide_of_rank<2>},
          {"Slide3D", 2, 6, make_slide_of_rank<3>},
          {"SlideND", 1, 3, make_slide_nd},
          {"Pad", 3, 3, make_pad_of_rank<1>},
          {"Pad2D", 3, 5, make_pad_of_rank<2>},
          {"Pad3D", 3, 7, make_pad_of_rank<3>},
          {"PadND", 4, 4, make_pad_nd}};
}

}  // namespace tile::lift
