// Contractions whose bodies hold folds: each fold becomes statements of its own, over the
// contraction's cells. A reduction is a contraction over its trips as well; an ordered fold has a
// tensor of the states before each trip, and one of their adjoints.
#include <algorithm>
#include <map>

#include "core/autodiff/derivation/boundary_cases.h"
#include "core/autodiff/derivation/coordinates.h"
#include "core/autodiff/derivation/index_expression.h"
#include "core/autodiff/loops/loop_trips.h"
#include "core/autodiff/loops/nested_loops.h"
#include "core/autodiff/loops/ordered_fold.h"
#include "core/autodiff/loops/recognise_reductions.h"
#include "core/passes/bind/bind_context.h"
#include "core/passes/normalize/fold_region.h"

namespace tile {
namespace {

NodeId first_fold(const Body& body) {
  for (NodeId i : body.nodes.ids()) {
    if (body.nodes[i].kind == NodeKind::fold) return i;
  }
  return NodeId();
}

Leaf copies() {
  return [](Body&, const Node&) { return NodeId{-1}; };
}

// A sum whose terms are sums from zero runs over the points of both. `conditions` results at the
// end are not terms.
void merge_inner_sums(const Derivation& derivation, SymbolicContraction& c, size_t& conditions) {
  while (true) {
    c.body = tidied(c.body);
    const Body body = c.body;
    size_t terms = body.results.size() - conditions;
    const Node& root = body[body.results[0]];
    if (root.kind != NodeKind::component) return;
    const Node& fold = body[root.args[0]];
    bool whole = fold.op == Op::add && fold.slot == terms;
    for (size_t k = 0; k < terms && whole; ++k) {
      const Node &result = body[body.results[k]], &start = body[fold.args[k + 2]];
      bool zero = (start.kind == NodeKind::real && start.real == 0) ||
                  (start.kind == NodeKind::integer && start.integer == 0);
      whole = zero && result.kind == NodeKind::component && result.args[0] == root.args[0] &&
              result.slot == k;
    }
    if (!whole) return;
    LoopTrips trips = trips_of(derivation, c, fold);
    size_t slot = add_trip_index(c, trips, 0, fold.span);
    Body merged;
    NodeId counter = trip_counter(merged, body, fold, slot, 0);
    std::vector<NodeId> given = region_arguments(merged, body, fold, counter);
    for (NodeId result : fold.region->results)
      merged.results.push_back(region_value(merged, *fold.region, result, given));
    for (size_t k = terms; k < body.results.size(); ++k)
      merged.results.push_back(graft(merged, body, body.results[k], copies()));
    if (trips.by_value()) {
      merged.results.push_back(trip_condition(merged, body, fold, counter));
      ++conditions;
    }
    c.body = std::move(merged);
  }
}

class Expansion {
 public:
  Expansion(Derivation& derivation, const Statement& statement, SymbolicContraction c)
      : derivation_(derivation), statement_(statement), c_(std::move(c)) {}

  void run(TensorId d) {
    c_.body = with_nests_flattened(with_reductions(c_.body));
    find_cells();
    bool adds = c_.aggregation == Aggregation::sum || c_.aggregation == Aggregation::assign;
    if (!adds) return run_over_values(d);
    for (NodeId at = first_fold(c_.body); at.valid(); at = first_fold(c_.body)) replace(at);
    differentiate_contraction(derivation_, statement_, c_, d);
    for (size_t i = made_.size(); i-- > 0;) {
      const Made& one = made_[i];
      TensorId adjoint = derivation_.adjoint(one.statement.result, statement_.span);
      if (!adjoint.valid()) continue;
      if (one.ordered) {
        differentiate_ordered_fold(derivation_, one.statement, *one.ordered, adjoint);
      } else {
        differentiate_contraction(derivation_, one.statement, one.contraction, adjoint);
      }
    }
  }

 private:
  // A value that the contraction's body reads in place of a fold.
  struct Made {
    Statement statement;
    SymbolicContraction contraction;
    std::optional<OrderedFold> ordered;
  };

  void find_cells() {
    cells_ = coordinates_of(derivation_, c_);
    if (cells_.size() == c_.indices.size()) return;
    fail(Stage::bind, "derivative", statement_.span,
         "the derivative of " + name() + " needs every index to be bounded");
  }
  const std::string& name() const { return derivation_.tensor(statement_.result).name; }
  Statement statement_of(TensorId result) const {
    Statement s = statement_;
    s.result = result;
    return s;
  }

  // Values to be multiplied, or the largest of which is taken, must be the very ones that the
  // result is made of: they become a tensor.
  void run_over_values(TensorId d) {
    SymbolicContraction values = over_cells(c_, cells_, statement_.span);
    values.body = c_.body;
    values.components = c_.components;
    Made body{statement_of(add_value("_values", values)), values, std::nullopt};
    SymbolicContraction whole = c_;
    keep_bounds(whole);
    whole.accesses.clear();
    whole.body = Body{};
    for (size_t k = 0; k < c_.body.results.size(); ++k) {
      int component = c_.components == 0 ? -1 : static_cast<int>(k);
      whole.accesses.push_back(
          cell_access(body.statement.result, cells_, component, statement_.span));
      DType type = c_.body[c_.body.results[k]].type;
      whole.body.results.push_back(whole.body.load(k, type));
    }
    TensorId again = add_value("_again", whole);
    differentiate_contraction(derivation_, statement_of(again), whole, d);
    TensorId adjoint = derivation_.adjoint(body.statement.result, statement_.span);
    if (adjoint.valid())
      differentiate_contraction(derivation_, body.statement, body.contraction, adjoint);
  }
  void keep_bounds(SymbolicContraction& c) const {
    for (const SymbolicAccess& a : c_.accesses) {
      for (size_t k = 0; k < a.index.size(); ++k) {
        bool inside = k >= a.boundary.size() || a.boundary[k] == Boundary::in_range;
        bool value = k < a.values.size() && a.values[k] >= 0;
        if (inside && !value && has_affine_form(a.index[k], c.indices))
          c.constraints.push_back({a.index[k], derivation_.extent(a.tensor, k), a.span});
      }
    }
  }

  TensorId add_value(const std::string& suffix, const SymbolicContraction& c) {
    return derivation_.add_value(suffixed(name(), suffix), statement_.span, c);
  }

  // Integers carry no derivatives.
  TensorId add_loop(DType type, SymbolicContraction& c) {
    drop_unread_values(c);
    if (is_float(type)) return add_value("_loop", c);
    return derivation_.add(suffixed(name(), "_loop"), statement_.span, c);
  }

  void replace(NodeId at) {
    const Node fold = c_.body[at];
    LoopTrips trips = trips_of(derivation_, c_, fold);
    std::vector<SymbolicAccess> reads(fold.slot);
    for (const auto& [type, components] : components_by_type(c_.body, fold)) {
      TensorId made = fold.op == Op::ident ? add_ordered(fold, trips, type, components)
                                           : add_reduction(fold, trips, type, components);
      for (size_t k = 0; k < components.size(); ++k) {
        int component = components.size() == 1 ? -1 : static_cast<int>(k);
        reads[components[k]] = cell_access(made, cells_, component, statement_.span);
      }
    }
    substitute(fold, std::move(reads));
  }

  TensorId add_ordered(const Node& fold, const LoopTrips& trips, DType type,
                       const std::vector<size_t>& components) {
    OrderedFold ordered{c_, cells_, fold, trips, components};
    SymbolicContraction results = over_cells(c_, cells_, statement_.span);
    results.components = components.size() == 1 ? 0 : static_cast<int>(components.size());
    Body& body = results.body;
    for (size_t k : components) body.results.push_back(whole_fold(body, c_.body, fold, k, type));
    body = tidied(body);
    TensorId made = add_loop(type, results);
    made_.push_back({statement_of(made), std::move(results), std::move(ordered)});
    return made;
  }
  static NodeId whole_fold(Body& to, const Body& from, const Node& fold, size_t k, DType type) {
    Node copied = fold;
    for (NodeId& arg : copied.args) arg = graft(to, from, arg, copies());
    NodeId id = to.add(std::move(copied));
    return to.component(id, k, type, fold.span);
  }

  // Products and extrema have a point more, before the first trip, whose value is the neutral
  // element: no cell is without points.
  TensorId add_reduction(const Node& fold, LoopTrips trips, DType type,
                         const std::vector<size_t>& components) {
    bool runs = trips.exact && trips.most.is_constant() && trips.most.value() > 0;
    int shift = fold.op == Op::add || runs ? 0 : 1;
    Ranges ranges = known_ranges(derivation_.program, c_);
    bool never_negative = trips.length && prove_less(-1, *trips.length, ranges) == true;
    if (shift != 0 && !never_negative) trips.length.reset();
    SymbolicContraction c = over_cells(c_, cells_, statement_.span);
    c.aggregation = aggregation_of(fold.op).value();
    c.components = components.size() == 1 ? 0 : static_cast<int>(components.size());
    size_t slot = add_trip_index(c, trips, shift, fold.span);
    Body& body = c.body;
    NodeId counter = trip_counter(body, c_.body, fold, slot, shift);
    std::vector<NodeId> given = region_arguments(body, c_.body, fold, counter);
    for (size_t k : components) {
      NodeId root = fold.region->results[k];
      body.results.push_back(region_value(body, *fold.region, root, given));
    }
    size_t conditions = 0;
    if (shift != 0) {
      NodeId first = body.integer(1, DType::i64), t = body.index(slot, DType::i64);
      body.results.push_back(body.operation(Op::ge, {t, first}, DType::bool_));
      ++conditions;
      for (SymbolicAccess& a : c.accesses) stay_inside(a);
    }
    if (trips.by_value()) {
      body.results.push_back(trip_condition(body, c_.body, fold, counter));
      ++conditions;
    }
    if (fold.op == Op::add) merge_inner_sums(derivation_, c, conditions);
    apply(c.body, fold.op, conditions, fold.span);
    TensorId made = add_loop(type, c);
    made_.push_back({statement_of(made), std::move(c), std::nullopt});
    return made;
  }
  // The point before the first trip reads elements too, which do not count.
  static void stay_inside(SymbolicAccess& a) {
    a.boundary.resize(a.index.size(), Boundary::in_range);
    for (Boundary& b : a.boundary) b = b == Boundary::in_range ? Boundary::clamp : b;
  }
  // Terms count where the conditions, the last results, hold.
  void apply(Body& body, Op op, size_t conditions, Span span) const {
    std::vector<NodeId> tests(body.results.end() - static_cast<std::ptrdiff_t>(conditions),
                              body.results.end());
    body.results.resize(body.results.size() - conditions);
    for (NodeId& term : body.results) {
      DType type = body[term].type;
      for (NodeId test : tests) {
        NodeId neutral = neutral_element(body, op, type);
        if (!neutral.valid()) {
          fail(Stage::bind, "gradient", span,
               "the derivative of " + name() +
                   " is not known: it holds a loop over integers whose length is not known");
        }
        term = body.operation(Op::select, {test, term, neutral}, type, span);
      }
    }
    body = tidied(body);
  }

  // The fold's components read `reads`, combined with its starts.
  void substitute(const Node& fold, std::vector<SymbolicAccess> reads) {
    std::vector<int> slots;
    for (SymbolicAccess& a : reads) {
      slots.push_back(static_cast<int>(c_.accesses.size()));
      c_.accesses.push_back(std::move(a));
    }
    c_.body = replace_components(c_.body, fold, [&](Body& to, const Node& n, NodeId first) {
      NodeId whole = to.load(slots[n.slot], n.type, n.span);
      if (fold.op == Op::ident) return whole;
      if (is_neutral(to[first], fold.op)) return whole;
      DType wide = compute_type(n.type);
      NodeId start = to.cast(first, wide, n.span);
      whole = to.cast(whole, wide, n.span);
      return to.cast(to.operation(fold.op, {start, whole}, wide, n.span), n.type, n.span);
    });
  }

  Derivation& derivation_;
  const Statement& statement_;
  SymbolicContraction c_;
  std::vector<Coordinate> cells_;
  std::vector<Made> made_;
};

}  // namespace

void differentiate_folds(Derivation& derivation, const Statement& statement,
                         const SymbolicContraction& contraction, TensorId d) {
  Expansion(derivation, statement, contraction).run(d);
}

}  // namespace tile
