// Iterate: steps become statements, or one statement that repeats a program, so that what is
// compiled does not grow with their number.
#include <algorithm>
#include <memory>

#include "core/ir/repeat.h"
#include "core/language/lift/evaluator.h"
#include "core/language/lift/lower.h"

namespace tile::lift {
namespace {

constexpr int64_t kMostTrips = 1'000'000'000;
constexpr int64_t kMostWrittenOut = 10'000;  // steps that are evaluated one by one
// Statements that are not worth a loop.
constexpr int64_t kFewSteps = 4;
// Work of steps that are composed into one statement, where they read one element for one.
constexpr int64_t kComposedWork = 8 * kRecomputeLimit;
// Views on views, of which the evaluator allows 64, in a state and in what one step adds: what is
// stored for being too deep is then a state, never windows.
constexpr int kDeepState = 48;
constexpr int kDeepStep = 16;

// A scalar of a nested value at loop variables of its own.
struct Leaf {
  std::vector<Expr> dims;
  ScalarPtr scalar;
};

void collect_leaves(Context& context, const Value& v, std::vector<Expr>& dims,
                    std::vector<Leaf>& leaves) {
  if (v.scalar) leaves.push_back({dims, v.scalar});
  for (const Value& part : v.parts) collect_leaves(context, part, dims, leaves);
  if (!v.array) return;
  dims.push_back(context.fresh(v.length()));
  collect_leaves(context, v.array->at(dims.back()), dims, leaves);
  dims.pop_back();
}
std::vector<Leaf> leaves_of(Context& context, const Value& v) {
  std::vector<Expr> dims;
  std::vector<Leaf> leaves;
  collect_leaves(context, v, dims, leaves);
  return leaves;
}

bool same_type(const Context& context, const Type& a, const Type& b) {
  if (a.kind != b.kind || a.parts.size() != b.parts.size()) return false;
  bool array = a.kind == TypeKind::array;
  if (array && prove_equal(a.length, b.length, context.ranges()) != true) return false;
  for (size_t i = 0; i < a.parts.size(); ++i) {
    if (!same_type(context, *a.parts[i], *b.parts[i])) return false;
  }
  return true;
}

std::vector<Expr> joined(std::vector<Expr> a, const std::vector<Expr>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Whether one tensor holds the value: an array of scalars, or of tuples of like scalars, which are
// its last dimension.
bool fits_one_tensor(const Type& type, const std::vector<Leaf>& leaves) {
  auto same = [&](const Leaf& leaf) {
    return leaf.dims == leaves[0].dims && leaf.scalar->type == leaves[0].scalar->type;
  };
  return type.kind == TypeKind::array && !leaves.empty() && leaves.size() <= 64 &&
         std::all_of(leaves.begin(), leaves.end(), same);
}

// The tensor whose elements the leaves of a value at these loop variables are, as they are.
std::optional<TensorId> whole_tensor(const Context& context, const std::vector<Leaf>& leaves,
                                     const std::vector<Expr>& index) {
  TensorId tensor = leaves[0].scalar->tensor;
  for (size_t i = 0; i < leaves.size(); ++i) {
    std::vector<Expr> at = index;
    if (leaves.size() > 1) at.emplace_back(static_cast<int64_t>(i));
    const Scalar& s = *leaves[i].scalar;
    if (s.kind != ScalarKind::load || s.tensor != tensor || s.exprs != at) return std::nullopt;
  }
  const std::vector<Expr>& shape = context.shapes[tensor];
  for (size_t d = 0; d < index.size(); ++d) {
    const Expr& extent = context.extent(index[d].name());
    if (prove_equal(shape[d], extent, context.ranges()) != true) return std::nullopt;
  }
  auto count = static_cast<int64_t>(leaves.size());
  if (count > 1 && !shape.back().is_constant(count)) return std::nullopt;
  return tensor;
}

// The leaves of a value that fits one tensor, in a tensor.
TensorId in_one_tensor(Context& context, const std::vector<Leaf>& leaves,
                       const std::vector<Expr>& index, Span span) {
  std::vector<ResultDimension> dims;
  for (const Expr& dim : index) dims.push_back(plain_dimension(context, dim));
  std::vector<ScalarPtr> scalars;
  for (const Leaf& leaf : leaves) scalars.push_back(leaf.scalar);
  TensorId made = lower(context, scalars, dims, context.temporary_name(), span);
  if (leaves.size() > 1) {
    context.shapes[made].emplace_back(static_cast<int64_t>(leaves.size()));
  }
  return made;
}

// An array that evaluates its elements once where the next step reads them in several places, as
// when it swaps the components of tuples: composed, such steps would double what is evaluated.
Value remembering(const Context& context, const Value& v) {
  struct Known {
    Expr index;
    int64_t forgotten;
    Value element;
  };
  constexpr size_t kMostKnown = 8;
  if (!v.array) {
    Value whole = v;
    for (Value& part : whole.parts) part = remembering(context, part);
    return whole;
  }
  auto known = std::make_shared<std::vector<Known>>();
  auto at = [&context, v, known](const Expr& index) {
    for (const Known& k : *known) {
      // What was evaluated in a step that left no trace may be of a tensor that is gone.
      if (k.forgotten == context.forgotten && k.index == index) return k.element;
    }
    Known now{index, context.forgotten, remembering(context, v.array->at(index))};
    if (known->size() == kMostKnown) known->erase(known->begin());
    known->push_back(now);
    return now.element;
  };
  return with_rows(array_value(v.type, at, v.array->depth), v.array->rows);
}

// One step of a state whose elements stand in tensors: what it reads of them, and its statements.
class Step {
 public:
  // `outer`: loop variables around the state that it depends on.
  Step(Evaluator& ev, const Value& f, const Value& state, std::vector<Expr> outer, Span span)
      : context_(ev.context),
        outer_(std::move(outer)),
        first_(ev.context.program.statements.size()),
        state_(ev.context.program.tensors.size()) {
    std::vector<Leaf> leaves = leaves_of(context_, state);
    one_tensor_ = fits_one_tensor(*state.type, leaves);
    components_ = one_tensor_ && leaves.size() > 1;
    std::vector<TensorId> tensors;
    for (const Leaf& leaf : leaves) {
      size_t components = components_ ? leaves.size() : 0;
      std::vector<Expr> dims = joined(outer_, leaf.dims);
      tensors.push_back(context_.declare(leaf.scalar->type, dims, components, span));
      if (components_) break;
    }
    states_ = tensors.size();
    result_ = ev.apply(f, {context_.stored(state.type, tensors, outer_)}, span);
    for (const Leaf& leaf : leaves_of(context_, result_)) {
      look(*leaf.scalar, joined(outer_, leaf.dims));
    }
  }
  // Leaves no trace unless it was taken out.
  ~Step() {
    if (!taken_) context_.forget(first_, state_);
  }
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  const Value& result() const { return result_; }
  // Each element depends on the state's element in the same place alone: composed, such steps read
  // it once, while those of neighbours would multiply what they read, or their boundaries.
  bool in_place() const { return !elsewhere_ && is_one_view(); }
  // No statement of its own: steps can be composed at all.
  bool is_one_view() const { return context_.program.statements.size() == first_; }
  // Loop variables around the result that are none around the state.
  std::vector<Expr> further() const {
    std::vector<Expr> list;
    for (const Leaf& leaf : leaves_of(context_, result_)) {
      for (const std::string& name : context_.loop_variables(*leaf.scalar)) {
        Expr variable = Expr::variable(name);
        bool known = std::find(outer_.begin(), outer_.end(), variable) != outer_.end() ||
                     std::find(leaf.dims.begin(), leaf.dims.end(), variable) != leaf.dims.end() ||
                     std::find(list.begin(), list.end(), variable) != list.end();
        if (!known) list.push_back(variable);
      }
    }
    return list;
  }
  // Whether one tensor is the state, and the next one is like it.
  bool repeats(const Value& state) const {
    return one_tensor_ && same_type(context_, *state.type, *result_.type) &&
           context_.closed(result_);
  }
  // The step as a program; `operands` gets what it reads beside the state.
  Program taken_out(std::vector<TensorId>& operands, Span span) {
    std::vector<Leaf> next = leaves_of(context_, result_);
    std::vector<Expr> index = joined(outer_, next.at(0).dims);
    std::optional<TensorId> made = whole_tensor(context_, next, index);
    bool by_step = made && made->index() >= state_.index() + states_;
    if (!by_step) made = in_one_tensor(context_, next, index, span);
    taken_ = true;
    Program step = take_out_step(context_.program, first_, state_, *made, operands);
    context_.shapes.resize(state_.index());
    ++context_.forgotten;
    return step;
  }

 private:
  void look(const Scalar& s, const std::vector<Expr>& place) {
    if (!seen_.insert(&s).second) return;
    bool data = std::any_of(s.free.begin(), s.free.end(),
                            [&](const std::string& name) { return context_.is_data(name); });
    elsewhere_ = elsewhere_ || data || s.kind == ScalarKind::reduce || s.kind == ScalarKind::fold;
    if (s.kind == ScalarKind::load && s.tensor >= state_) {
      size_t rank = s.exprs.size() - (components_ ? 1 : 0);
      bool same =
          rank == place.size() && std::equal(place.begin(), place.end(), s.exprs.begin(),
                                             [](const Expr& a, const Expr& b) { return a == b; });
      elsewhere_ = elsewhere_ || !same;
    }
    for (const ScalarPtr& arg : s.args) look(*arg, place);
  }

  Context& context_;
  std::vector<Expr> outer_;
  size_t first_;       // its first statement
  TensorId state_;     // the first of the tensors that stand for the state
  size_t states_ = 0;  // of them
  bool one_tensor_ = false, components_ = false;
  Value result_;
  bool elsewhere_ = false;  // reads another place, or in a loop, or where data says
  bool taken_ = false;
  std::set<const Scalar*> seen_;
};

class Iteration {
 public:
  Iteration(Evaluator& ev, Value f, Span span)
      : ev_(ev), context_(ev.context), f_(std::move(f)), span_(span) {}

  Value run(Value v, int64_t count) {
    if (count < 2 || !v.array || !context_.closed(v)) return composed(f_, std::move(v), count);
    std::vector<Expr> outer = around(v);
    auto step = std::make_unique<Step>(ev_, f_, v, outer, span_);
    const Plan plan = plan_for(*step, v, count);
    if (plan.light) {
      step.reset();
      return composed(f_, std::move(v), count);
    }
    std::optional<Value> end;
    if (plan.loops) end = looped(v, outer, std::move(step), plan.grouped, count / plan.grouped);
    step.reset();
    if (!end) return stepwise(std::move(v), count, plan.in_place);
    return composed(f_, std::move(*end), count % plan.grouped);
  }

 private:
  // How steps like this one are written down.
  struct Plan {
    bool light = false;     // all in one statement
    bool loops = false;     // as a loop, whose trips are `grouped` composed steps
    bool in_place = false;  // see Step
    int64_t grouped = 1;
  };
  Plan plan_for(const Step& step, const Value& v, int64_t count) const {
    int depth = step.result().array ? step.result().array->depth : 1;
    Plan plan;
    plan.light = step.is_one_view() && is_light(step.result(), count);
    plan.in_place = step.in_place() && depth <= kDeepStep;
    if (plan.in_place) {
      int64_t most = kComposedWork / std::max<int64_t>(1, context_.work(step.result()));
      plan.grouped = std::clamp<int64_t>(std::min<int64_t>(most, kDeepState / depth), 1, count);
    }
    plan.loops = step.repeats(v) && count > kFewSteps * plan.grouped;
    return plan;
  }

  // What all steps together compute for an element is less than a state's way through memory: the
  // work of a step is done for each element that the next one reads.
  bool is_light(const Value& step, int64_t count) const {
    int64_t work = std::clamp<int64_t>(context_.work(step), 2, kRecomputeLimit + 1), all = 1;
    for (int64_t i = 0; i < count && all <= kRecomputeLimit; ++i) all *= work;
    return all <= kRecomputeLimit;
  }

  // The loop variables that the value depends on.
  std::vector<Expr> around(const Value& v) {
    std::vector<Expr> outer;
    for (const Leaf& leaf : leaves_of(context_, v)) {
      std::set<std::string> names = context_.loop_variables(*leaf.scalar);
      for (const Expr& dim : leaf.dims) names.erase(dim.name());
      for (const std::string& name : names) {
        Expr variable = Expr::variable(name);
        if (std::find(outer.begin(), outer.end(), variable) == outer.end()) {
          outer.push_back(variable);
        }
      }
    }
    return outer;
  }

  Value composed(const Value& f, Value v, int64_t count) {
    check_count(count);
    for (int64_t i = 0; i < count; ++i) {
      v = remembering(context_, i == 0 ? ev_.apply(f, {std::move(v)}, span_) : after(f, v));
      if (context_.work(v) > kComposedWork) v = context_.materialised(v, span_);
    }
    return v;
  }

  // A step of a state that is computed so far, or of one that is stored where the step would store
  // more of it, such as what it pads.
  Value after(const Value& f, const Value& v) {
    bool deep = v.array && v.array->depth > kDeepState;
    size_t first = context_.program.statements.size();
    auto tensor = TensorId(context_.program.tensors.size());
    if (!deep) {
      Value next = ev_.apply(f, {v}, span_);
      bool stores = v.array && context_.program.statements.size() != first && context_.closed(v);
      if (!stores) return next;
      context_.forget(first, tensor);
    }
    return ev_.apply(f, {context_.materialised(v, span_)}, span_);
  }

  // A statement for each step whose elements the next one reads several times.
  Value stepwise(Value v, int64_t count, bool in_place) {
    if (in_place) return composed(f_, std::move(v), count);
    check_count(count);
    for (int64_t i = 0; i < count; ++i) {
      if (i > 0) v = context_.materialised(v, span_);
      v = ev_.apply(f_, {std::move(v)}, span_);
    }
    return v;
  }

  void check_count(int64_t count) const {
    if (count <= kMostWrittenOut) return;
    fail(Stage::parse, "limit", span_,
         "the count of Iterate must be at most " + std::to_string(kMostWrittenOut) +
             " where its step changes the type, found " + std::to_string(count));
  }

  // `step` is one step, evaluated. nullopt: the step is no program by itself.
  std::optional<Value> looped(const Value& v, std::vector<Expr> outer, std::unique_ptr<Step> step,
                              int64_t grouped, int64_t trips) {
    Value f = unary("Iterate",
                    [this, grouped](Value x, Span) { return composed(f_, std::move(x), grouped); });
    // Evaluated again only where it is to be another: loops in loops are evaluated once each.
    auto evaluate = [&] {
      step.reset();
      step = std::make_unique<Step>(ev_, f, v, outer, span_);
    };
    if (grouped > 1) evaluate();
    if (std::vector<Expr> further = step->further(); !further.empty()) {
      outer = joined(std::move(outer), further);
      evaluate();
    }
    if (!step->repeats(v) || !step->further().empty()) return std::nullopt;
    Repeat repeat;
    repeat.trips = trips;
    std::vector<TensorId> operands;
    repeat.step = std::make_shared<const Program>(step->taken_out(operands, span_));
    repeat.operands = {start(v, outer)};
    repeat.operands.insert(repeat.operands.end(), operands.begin(), operands.end());
    TensorId end = context_.repeat(std::move(repeat), span_);
    return context_.stored(v.type, {end}, outer);
  }

  // The tensor that holds the first state.
  TensorId start(const Value& v, const std::vector<Expr>& outer) {
    std::vector<Leaf> leaves = leaves_of(context_, v);
    std::vector<Expr> index = joined(outer, leaves.at(0).dims);
    if (std::optional<TensorId> whole = whole_tensor(context_, leaves, index)) return *whole;
    return in_one_tensor(context_, leaves, index, span_);
  }

  Evaluator& ev_;
  Context& context_;
  Value f_;
  Span span_;
};

Value iterate_function(Evaluator& ev, int64_t count, const Value& f, Span span) {
  if (!f.function) fail_type(span, "a function", *f.type);
  // Repeats of repeats are repeats: evaluated one inside the other, each level would double what
  // is evaluated, and loops would be in loops.
  int64_t inner = f.function->repeats;
  bool nested = count > 0 && inner > 0 && inner <= kMostTrips / count;
  Value repeated = nested ? function_value(*f.function->repeated) : f;
  int64_t all = nested ? count * inner : count;
  Value iterate = unary("Iterate", [&ev, all, repeated](Value v, Span at) {
    return Iteration(ev, repeated, at).run(std::move(v), all);
  });
  FunctionValue marked = *iterate.function;
  marked.repeated = repeated.function;
  marked.repeats = all;
  return function_value(std::move(marked));
}

// Iterate(k, f) or Iterate(k)(f).
Value make_iterate(const PatternUse& use) {
  Expr k = use.size(0, "Iterate", 0);
  if (!k.is_constant() || k.value() > kMostTrips) {
    fail(Stage::parse, "limit", use.param_span(0),
         "the count of Iterate must be a number of at most " + std::to_string(kMostTrips) +
             ", found " + to_string(k));
  }
  int64_t count = k.value();
  if (use.params.size() == 2)
    return iterate_function(use.ev, count, use.param(1), use.param_span(1));
  return unary("Iterate", [&ev = use.ev, count](Value f, Span span) {
    return iterate_function(ev, count, f, span);
  });
}

}  // namespace

std::vector<Pattern> iteration_patterns() { return {{"Iterate", 1, 2, make_iterate}}; }

}  // namespace tile::lift
