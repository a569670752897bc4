// Patterns that compute: maps, reductions, scans, and the low-level forms, which mean the same as
// the high-level ones.
#include <algorithm>

#include "core/language/lift/evaluator.h"

namespace tile::lift {
namespace {

constexpr int64_t kMaxUnrolledTrips = 32;
constexpr int64_t kMaxUnrolledWork = 4096;

Value make_map(const PatternUse& use) {
  Value f = use.param(0);
  if (!f.function) fail_type(use.param_span(0), "a function", *f.type);
  return unary("Map", [&ev = use.ev, f, inside = use.param_span(0)](Value v, Span span) {
    require_array(v, "Map", span);
    return map_over(ev, f, v, inside);
  });
}

// MapGlb(f) or MapGlb(dimension)(f).
Value make_placed_map(const PatternUse& use) {
  Value f = use.param(0);
  if (f.function) return make_map(use);
  use.size(0, "MapGlb", 0);
  return unary("Map", [&ev = use.ev](Value inner, Span at) {
    if (!inner.function) fail_type(at, "a function", *inner.type);
    return unary("Map", [&ev, inner, at](Value v, Span span) {
      require_array(v, "Map", span);
      return map_over(ev, inner, v, at);
    });
  });
}

// toGlobal(f): where a value is kept is a hint.
Value make_placement(const PatternUse& use) {
  Value f = use.param(0);
  if (!f.function) fail_type(use.param_span(0), "a function", *f.type);
  return f;
}

// fun(x => ...) inside an expression is its lambda.
Value make_fun(const PatternUse& use) {
  size_t last = use.params.size() - 1;
  Value f = use.param(last);
  if (!f.function) fail_type(use.param_span(last), "a lambda", *f.type);
  return f;
}

Value make_id(const PatternUse&) {
  return unary("Id", [](Value v, Span) { return v; });
}

// Reductions.

// The neutral element of a combination, if `s` is it.
bool is_neutral(Op op, const Scalar& s) {
  double value = s.kind == ScalarKind::real ? s.real : static_cast<double>(s.integer);
  bool literal = s.kind == ScalarKind::real || s.kind == ScalarKind::integer;
  if (op == Op::add) return literal && value == 0;
  return op == Op::mul && literal && value == 1;
}

// carried op x, with x free of the carried value: the points may be combined in any order.
std::optional<std::pair<Op, ScalarPtr>> combination(const Scalar& next, int id) {
  bool known = next.kind == ScalarKind::operation && (next.op == Op::add || next.op == Op::mul ||
                                                      next.op == Op::max || next.op == Op::min);
  if (!known) return std::nullopt;
  for (size_t i = 0; i < 2; ++i) {
    const Scalar& held = *next.args[i];
    const ScalarPtr& other = next.args[1 - i];
    if (held.kind == ScalarKind::carried && held.id == id && !other->open.contains(id)) {
      return std::pair(next.op, other);
    }
  }
  return std::nullopt;
}

// A loop over `variable` in [0, trips) with carried scalars.
struct Loop {
  Evaluator& ev;
  int id;
  Expr variable, trips;
  std::optional<Expr> last;  // a scan: only variable <= last
  std::vector<Expr> rows;    // see ArrayValue
  Span span;

  // One loop of a reduction around `term`.
  ScalarPtr loop_over(Op op, const Expr& index, const Expr& count, const ScalarPtr& term) const {
    Scalar node;
    node.kind = ScalarKind::reduce;
    node.op = op;
    node.type = term->type;
    node.id = id;
    node.variable = index.name();
    node.exprs = {count};
    if (last) node.exprs.push_back(*last);
    node.args = {term};
    node.span = span;
    return make_scalar(std::move(node));
  }

  // Over an array of rows: an index for each level.
  ScalarPtr loop_over_rows(Op op, const ScalarPtr& term) const {
    Context& context = ev.context;
    Expr outer = trips, position = 0;
    for (const Expr& length : rows) outer = exact_div(outer, length);
    std::vector<Expr> counts = {context.tidy(outer)}, indices;
    counts.insert(counts.end(), rows.begin(), rows.end());
    for (const Expr& count : counts) {
      indices.push_back(context.fresh(count));
      position = position * count + indices.back();
    }
    Substitution by;
    by.indices.emplace(variable.name(), position);
    ScalarPtr result = context.substituted(term, by);
    for (size_t d = counts.size(); d-- > 0;) result = loop_over(op, indices[d], counts[d], result);
    return result;
  }

  ScalarPtr reduction(Op op, const ScalarPtr& start, const ScalarPtr& term) const {
    bool flat = rows.empty() || last;
    ScalarPtr all = flat ? loop_over(op, variable, trips, term) : loop_over_rows(op, term);
    return is_neutral(op, *start) ? all : operation(op, {start, all}, start->type, span);
  }

  std::vector<ScalarPtr> unrolled(std::vector<ScalarPtr> values,
                                  const std::vector<ScalarPtr>& next) const {
    for (int64_t trip = 0; trip < trips.value(); ++trip) {
      Substitution by;
      by.indices.emplace(variable.name(), Expr(trip));
      by.id = id;
      by.carried = values;
      std::vector<ScalarPtr> after;
      for (size_t k = 0; k < next.size(); ++k) {
        after.push_back(skips_start(trip, *values[k], *next[k])
                            ? ev.context.substituted(combination(*next[k], id)->second, by)
                            : ev.context.substituted(next[k], by));
      }
      values = std::move(after);
    }
    return values;
  }

  // 0 + x and 1 * x are x.
  bool skips_start(int64_t trip, const Scalar& start, const Scalar& next) const {
    auto found = trip == 0 ? combination(next, id) : std::nullopt;
    return found && is_neutral(found->first, start);
  }

  std::vector<ScalarPtr> folded(const std::vector<ScalarPtr>& starts,
                                const std::vector<ScalarPtr>& next) const {
    Scalar fold;
    fold.kind = ScalarKind::fold;
    fold.type = DType::none;
    fold.id = id;
    fold.variable = variable.name();
    fold.exprs = {last ? *last + 1 : trips};
    fold.args = starts;
    fold.args.insert(fold.args.end(), next.begin(), next.end());
    fold.span = span;
    ScalarPtr made = make_scalar(std::move(fold));
    std::vector<ScalarPtr> results;
    for (size_t k = 0; k < starts.size(); ++k) {
      Scalar part;
      part.kind = ScalarKind::component;
      part.type = starts[k]->type;
      part.slot = k;
      part.args = {made};
      results.push_back(make_scalar(std::move(part)));
    }
    return results;
  }

  std::vector<ScalarPtr> run(const std::vector<ScalarPtr>& starts,
                             const std::vector<ScalarPtr>& next) const {
    int64_t work = 1;
    for (const ScalarPtr& s : next) work += s->work;
    bool few = !last && trips.is_constant() && trips.value() <= kMaxUnrolledTrips &&
               trips.value() * std::min(work, kMaxUnrolledWork) <= kMaxUnrolledWork;
    if (few) return unrolled(starts, next);
    auto found = next.size() == 1 ? combination(*next[0], id) : std::nullopt;
    if (!found) return folded(starts, next);
    // A sum over no points is 0; the other combinations need a point.
    bool counted = found->first == Op::add || ev.context.at_least(trips, 1);
    bool nested = ev.context.depends_on_open(*found->second);
    if (!counted || nested) return folded(starts, next);
    return {reduction(found->first, starts[0], found->second)};
  }
};

// The accumulator of type `type`, before an element is known: arrays remember the index asked for.
Value accumulator(const TypePtr& type, int id, int& slot, std::vector<Expr> index) {
  if (is_scalar(*type)) {
    Scalar node;
    node.kind = ScalarKind::carried;
    node.type = dtype_of(*type);
    node.id = id;
    node.slot = slot++;
    node.exprs = std::move(index);
    return scalar_value(make_scalar(std::move(node)));
  }
  if (type->kind == TypeKind::tuple) {
    std::vector<Value> parts;
    for (const TypePtr& part : type->parts) parts.push_back(accumulator(part, id, slot, index));
    return tuple_value(std::move(parts));
  }
  int first = slot;
  accumulator(type->parts[0], id, slot, index);  // counts its scalars
  return array_value(
      type,
      [type, id, first, index](const Expr& e) {
        int at = first;
        std::vector<Expr> all = index;
        all.push_back(e);
        return accumulator(type->parts[0], id, at, std::move(all));
      },
      1);
}

// Carried elements must be read at the element that is being computed.
void check_carried(const Scalar& s, int id, const std::vector<Expr>& index, Span span,
                   std::set<const Scalar*>& seen) {
  if (!s.open.contains(id) || !seen.insert(&s).second) return;
  if (s.kind == ScalarKind::carried && s.id == id && s.exprs != index) {
    fail(Stage::parse, "accumulator", span,
         "an element of the accumulator array depends on another of its elements; expected each "
         "element to depend on itself alone");
  }
  for (const ScalarPtr& arg : s.args) check_carried(*arg, id, index, span, seen);
}

void collect_scalars(const Value& v, std::vector<ScalarPtr>& out) {
  if (v.scalar) out.push_back(v.scalar);
  for (const Value& part : v.parts) collect_scalars(part, out);
}

bool has_array(const Type& type) {
  return type.kind == TypeKind::array ||
         std::any_of(type.parts.begin(), type.parts.end(),
                     [](const TypePtr& p) { return has_array(*p); });
}

Value rebuilt(const TypePtr& type, const std::vector<ScalarPtr>& scalars, size_t& at) {
  if (is_scalar(*type)) return scalar_value(scalars[at++]);
  std::vector<Value> parts;
  for (const TypePtr& part : type->parts) parts.push_back(rebuilt(part, scalars, at));
  return tuple_value(std::move(parts));
}

// The loop's result: element by element of an accumulator array, all scalars of a tuple at once.
Value loop_result(const Loop& loop, const Value& start, const Value& next, int first,
                  const std::vector<Expr>& index) {
  if (start.array) {
    auto at = [loop, start, next, first, index](const Expr& e) {
      std::vector<Expr> all = index;
      all.push_back(e);
      return loop_result(loop, start.array->at(e), next.array->at(e), first, all);
    };
    return array_value(start.type, at, std::max(start.array->depth, next.array->depth) + 1);
  }
  if (has_array(*start.type)) {
    fail_type(loop.span, "an accumulator that is a scalar, a tuple of scalars or an array",
              *start.type);
  }
  std::vector<ScalarPtr> starts, values;
  collect_scalars(start, starts);
  collect_scalars(next, values);
  std::set<const Scalar*> seen;
  for (const ScalarPtr& s : values) check_carried(*s, loop.id, index, loop.span, seen);
  std::vector<ScalarPtr> results = loop.run(starts, values);
  size_t at = 0;
  return rebuilt(start.type, results, at);
}

// f(accumulator, element) over an array, starting with `start`.
Value fold_over(Evaluator& ev, const Value& f, const Value& start, const Value& v,
                std::optional<Expr> last, Span span) {
  Expr r = ev.context.fresh(v.length());
  Loop loop{ev, ev.context.fresh_id(), r, v.length(), std::move(last), v.array->rows, span};
  int slots = 0;
  Value acc = accumulator(start.type, loop.id, slots, {});
  Value next = ev.apply(f, {acc, v.array->at(r)}, span);
  Value adapted = ev.converted(start, next.type);
  if (to_string(*adapted.type) != to_string(*start.type)) {
    return fold_over(ev, f, adapted, v, loop.last, span);
  }
  next = ev.converted(next, start.type);
  ev.require_same(*start.type, *next.type, span,
                  "the function of a reduction must return its accumulator's type");
  return loop_result(loop, start, next, 0, {});
}

void require_data(const Value& start, const PatternUse& use) {
  if (start.function) fail_type(use.param_span(1), "a start value", *start.type);
}

Value make_reduce(const PatternUse& use) {
  Value f = use.param(0), start = use.param(1);
  if (!f.function) fail_type(use.param_span(0), "a function", *f.type);
  require_data(start, use);
  return unary("Reduce", [&ev = use.ev, f, start](Value v, Span span) {
    require_array(v, "Reduce", span);
    Value result = fold_over(ev, f, start, v, std::nullopt, span);
    return array_of(
        1, result.type, [result](const Expr&) { return result; },
        result.array ? result.array->depth + 1 : 1);
  });
}

Value make_scan(const PatternUse& use) {
  Value f = use.param(0), start = use.param(1);
  if (!f.function) fail_type(use.param_span(0), "a function", *f.type);
  require_data(start, use);
  return unary("ScanSeq", [&ev = use.ev, f, start](Value v, Span span) {
    require_array(v, "ScanSeq", span);
    auto at = [&ev, f, start, v, span](const Expr& i) {
      return fold_over(ev, f, start, v, i, span);
    };
    Value sample = at(ev.context.fresh(v.length()));
    return ev.context.materialised(array_of(v.length(), sample.type, at, v.array->depth + 1), span);
  });
}

Value make_map_seq_slide(const PatternUse& use) {
  Value f = use.param(0);
  if (!f.function) fail_type(use.param_span(0), "a function", *f.type);
  Expr size = use.size(1, "MapSeqSlide", 1), step = use.size(2, "MapSeqSlide", 1);
  return unary("MapSeqSlide", [&ev = use.ev, f, size, step](Value v, Span span) {
    return map_over(ev, f, slide(ev, v, size, step, span), span);
  });
}

}  // namespace

Value map_over(Evaluator& ev, const Value& f, const Value& array, Span span) {
  Expr i = ev.context.fresh(array.length());
  Value element = ev.apply(f, {array.array->at(i)}, span);
  if (element.function) fail_type(span, "a function that returns data", *element.type);
  int depth = std::max(array.array->depth, element.array ? element.array->depth : 0) + 1;
  auto at = [&ev, element, i](const Expr& e) { return ev.context.substituted(element, i, e); };
  return with_rows(array_of(array.length(), element.type, at, depth), array.array->rows);
}

std::vector<Pattern> compute_patterns() {
  return {{"Map", 1, 1, make_map},
          {"MapSeq", 1, 1, make_map},
          {"MapGlb", 1, 1, make_placed_map},
          {"MapWrg", 1, 1, make_placed_map},
          {"MapLcl", 1, 1, make_placed_map},
          {"ToGlobal", 1, 1, make_placement},
          {"ToLocal", 1, 1, make_placement},
          {"ToPrivate", 1, 1, make_placement},
          {"Id", 0, 0, make_id},
          {"Fun", 1, 64, make_fun},
          {"Reduce", 2, 2, make_reduce},
          {"ReduceSeq", 2, 2, make_reduce},
          {"ReduceSeqUnroll", 2, 2, make_reduce},
          {"ScanSeq", 2, 2, make_scan},
          {"MapSeqSlide", 3, 3, make_map_seq_slide}};
}

namespace {

const std::vector<Pattern>& all_patterns() {
  static const std::vector<Pattern> patterns = [] {
    std::vector<Pattern> all;
    for (auto list :
         {layout_patterns, window_patterns, tuple_patterns, compute_patterns, iteration_patterns}) {
      std::vector<Pattern> more = list();
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }();
  return patterns;
}

}  // namespace

std::vector<std::string_view> pattern_names() {
  std::vector<std::string_view> names;
  for (const Pattern& pattern : all_patterns()) names.push_back(pattern.name);
  return names;
}

const Pattern* find_pattern(std::string_view name) {
  if (name.empty()) return nullptr;
  std::string capital(name);
  if (capital[0] >= 'a' && capital[0] <= 'z') capital[0] = static_cast<char>(capital[0] - 32);
  if (name == "id") return nullptr;
  for (const Pattern& pattern : all_patterns()) {
    if (pattern.name == capital) return &pattern;
  }
  return nullptr;
}

}  // namespace tile::lift
