// Rules 7.2 and 7.3: each access of a contraction's body gives a contraction with that access and
// the output exchanged, the same constraints, and the other accesses' bounds kept.
#include "core/autodiff/derivation/adjoint_body.h"
#include "core/autodiff/derivation/boundary_cases.h"
#include "core/autodiff/derivation/index_expression.h"
#include "core/autodiff/derivation/zero_sums.h"
#include "core/autodiff/product_rule.h"
#include "core/autodiff/scatter_rule.h"
#include "core/passes/bind/bind_context.h"

namespace tile {
namespace {

bool has_fractional_index(const SymbolicAccess& access) {
  for (const Expr& e : access.index) {
    if (is_fractional(e)) return true;
  }
  return false;
}

std::vector<bool> used_loads(const Body& body, size_t count) {
  std::vector<bool> used(count, false);
  for (const Node& n : body.nodes) {
    if (n.kind == NodeKind::load) used[n.slot] = true;
  }
  return used;
}

void drop_unused(SymbolicContraction& c) {
  std::vector<bool> used = used_loads(c.body, c.accesses.size());
  std::vector<int> slot(c.accesses.size(), -1);
  std::vector<SymbolicAccess> kept;
  for (size_t i = 0; i < c.accesses.size(); ++i) {
    if (!used[i]) continue;
    slot[i] = static_cast<int>(kept.size());
    kept.push_back(c.accesses[i]);
  }
  for (Node& n : c.body.nodes) {
    if (n.kind == NodeKind::load) n.slot = slot[n.slot];
  }
  c.accesses = std::move(kept);
}

// The value equals the aggregated one, both rounded to the output's type; NaN equals NaN
// (rule 7.3a): a NaN makes its whole cell NaN.
NodeId tie(AdjointBody& adjoint, NodeId extreme) {
  Body& body = adjoint.body;
  NodeId value = adjoint.result();
  bool rounded = body[value].kind == NodeKind::load;
  if (!rounded) value = body.operation(Op::cast_like, {value, extreme});
  NodeId equal = body.operation(Op::eq, {value, extreme});
  NodeId missing = body.operation(Op::isnan, {value});
  return body.operation(Op::logical_or, {equal, missing});
}

class Rule {
 public:
  Rule(Derivation& derivation, const Statement& statement, const SymbolicContraction& forward,
       TensorId d)
      : derivation_(derivation), statement_(statement), forward_(forward), d_(d) {}

  void run() {
    if (forward_.default_tensor && derivation_.active(*forward_.default_tensor)) add_default();
    bool any = false;
    for (const SymbolicAccess& a : forward_.accesses) any = any || derivation_.active(a.tensor);
    if (!any) return;
    bool extreme =
        forward_.aggregation == Aggregation::max || forward_.aggregation == Aggregation::min;
    if (extreme) shared_ = shared_among_ties();
    if (forward_.aggregation == Aggregation::product)
      others_ = product_of_others(derivation_, statement_, forward_);
    for (size_t i = 0; i < forward_.accesses.size(); ++i) {
      if (derivation_.active(forward_.accesses[i].tensor)) add_access(i);
    }
  }

 private:
  SymbolicAccess output_access(TensorId tensor) const {
    SymbolicAccess a;
    a.tensor = tensor;
    a.index = forward_.out_index;
    a.span = statement_.span;
    return a;
  }
  // The forward contraction's points with another output and body.
  SymbolicContraction over_same_points() const {
    SymbolicContraction c;
    c.indices = forward_.indices;
    c.accesses = forward_.accesses;
    c.constraints = forward_.constraints;
    c.out_span = statement_.span;
    return c;
  }
  // Gives the contraction its body; accesses that the body no longer reads keep bounding the
  // points.
  void finish(SymbolicContraction& c, Body body, NodeId value, int exchanged) const {
    Body tidy = finished(body, value);
    std::vector<bool> used = used_loads(tidy, c.accesses.size());
    bool keeps_reads = false;
    for (size_t i = 0; i < forward_.accesses.size(); ++i) {
      if (used[i] || static_cast<int>(i) == exchanged) continue;
      if (has_fractional_index(c.accesses[i])) {
        NodeId read = body.load(i);
        NodeId always = body.integer(1);
        value = body.operation(Op::select, {always, value, read});
        keeps_reads = true;
      } else {
        keep_bounds(c, c.accesses[i]);
      }
    }
    c.body = keeps_reads ? finished(std::move(body), value) : std::move(tidy);
    drop_unused(c);
  }
  static bool in_range(const SymbolicAccess& access, size_t d) {
    return d >= access.boundary.size() || access.boundary[d] == Boundary::in_range;
  }
  void keep_bounds(SymbolicContraction& c, const SymbolicAccess& access) const {
    for (size_t d = 0; d < access.index.size(); ++d) {
      // Indices that are not affine, such as remainders, are in range by construction.
      bool bounds = in_range(access, d) && has_affine_form(access.index[d], c.indices);
      if (!bounds) continue;
      Expr bound = derivation_.extent(access.tensor, d);
      const Expr& index = access.index[d];
      bool there = index.is_constant() && bound.is_constant() && index.value() >= 0 &&
                   index.value() < bound.value();
      for (const SymbolicConstraint& k : c.constraints) {
        there = there || (k.form == access.index[d] && k.bound == bound);
      }
      if (!there) c.constraints.push_back({access.index[d], bound, access.span});
    }
  }

  // A constant outside takes no part in the derivative; under the other rules the element read
  // outside is one of those inside, which the points of each case name.
  void add_access(size_t i) {
    auto cases = boundary_cases(derivation_, forward_, forward_.accesses[i]);
    if (!cases || !derivation_.affords(cases->size())) return scatter_access(i);
    seed_ = moving(i);
    if (!seed_.valid()) return;
    for (const BoundaryCase& one : *cases) add_case(i, one);
  }
  // The adjoint as far as it moves what access i reads: see without_zero_sums.
  TensorId moving(size_t i) const {
    bool sums =
        forward_.aggregation == Aggregation::sum || forward_.aggregation == Aggregation::assign;
    auto ranges = derivation_.whole_ranges(forward_);
    bool known = derivation_.drops_zero_sums() && sums && ranges && forward_.components == 0 &&
                 reads_in_range(forward_.accesses[i]);
    if (!known) return d_;
    std::map<std::string, Expr> names;
    SummedSpace space;
    for (const auto& [index, extent] : *ranges) {
      names[index] = Expr::variable("#" + index);
      space.summed["#" + index] = extent;
    }
    for (const Expr& e : forward_.accesses[i].index) {
      if (!e.is_constant()) space.summed.erase("#" + e.name());
    }
    AdjointBody adjoint(forward_.body);
    size_t count = forward_.accesses.size();
    NodeId value = adjoint.derivative(i, adjoint.body.load(count));
    if (!value.valid()) return d_;
    space.read = [&](size_t slot) {
      SymbolicAccess access = slot == count ? output_access(d_) : forward_.accesses[slot];
      Element element{access.tensor, {}};
      for (const Expr& e : access.index) element.place.push_back(substitute(e, names));
      return reads_in_range(access) ? std::optional(std::move(element)) : std::nullopt;
    };
    return without_zero_sums(derivation_, adjoint.body, value, count, space);
  }
  void add_case(size_t i, const BoundaryCase& one) {
    const SymbolicAccess& access = forward_.accesses[i];
    SymbolicContraction c = over_same_points();
    c.aggregation = Aggregation::sum;
    if (forward_.components == 0) require(c, derivation_.conditions(seed_), forward_.out_index);
    const size_t conditions = c.constraints.size();
    c.indices.insert(c.indices.end(), one.indices.begin(), one.indices.end());
    c.constraints.insert(c.constraints.end(), one.constraints.begin(), one.constraints.end());
    Places fixed = fixed_places(one, c.indices);
    for (size_t d = 0; d < one.index.size(); ++d) {
      if (!fixed.empty() && fixed[d]) continue;
      c.out_index.push_back(one.index[d]);
      c.out_size.push_back(derivation_.extent(access.tensor, d));
    }
    if (!set_derivative(c, i, false)) return;
    CellConditions own = cell_conditions(c, fixed.empty() ? conditions : 0);
    TensorId adjoint =
        derivation_.add(derivation_.adjoint_name(access.tensor), statement_.span, std::move(c));
    derivation_.set_conditions(adjoint, std::move(own));
    derivation_.contribute(access.tensor, adjoint, std::move(fixed));
  }
  // Where a case adds to one place along a dimension, such as an edge or a component, only that
  // place is computed. Empty: there is none.
  Places fixed_places(const BoundaryCase& one, const std::vector<std::string>& indices) const {
    Places fixed(one.index.size());
    bool any = false;
    for (size_t d = 0; d < one.index.size() && forward_.typed; ++d) {
      auto used = [&](const std::string& name) { return uses_variable(one.index[d], name); };
      if (std::any_of(indices.begin(), indices.end(), used)) continue;
      fixed[d] = one.index[d];
      any = true;
    }
    return any ? fixed : Places{};
  }

  // Gives the contraction, over the same points, the derivative that goes to access i as its body;
  // false: there is none. `masks`: zero where a constant outside is read.
  bool set_derivative(SymbolicContraction& c, size_t i, bool masks) const {
    AdjointBody adjoint(forward_.body);
    std::vector<NodeId> seeds;
    if (forward_.components == 0) {
      seeds = {seed_value(c, adjoint)};
    } else {
      for (int k = 0; k < forward_.components; ++k) {
        TensorId own = derivation_.component_of(d_, k);
        c.accesses.push_back(output_access(own.valid() ? own : d_));
        if (!own.valid()) c.accesses.back().index.emplace_back(k);
        seeds.push_back(adjoint.body.load(c.accesses.size() - 1));
      }
    }
    NodeId value = adjoint.derivative(static_cast<int>(i), seeds);
    if (!value.valid()) return false;
    if (masks) {
      NodeId inside = add_inside_test(adjoint.body, derivation_, forward_, i);
      if (inside.valid()) {
        NodeId zero = adjoint.body.integer(0);
        value = adjoint.operation(Op::select, {inside, value, zero});
      }
    }
    finish(c, std::move(adjoint.body), value, static_cast<int>(i));
    return true;
  }

  // Where data decides which element is read, or very many cases do, the contributions and their
  // places are tensors over the points, and are scattered.
  void scatter_access(size_t i) {
    SymbolicContraction c = over_same_points();
    if (!set_derivative(c, i, true)) return;
    const SymbolicAccess& access = forward_.accesses[i];
    derivation_.contribute(access.tensor,
                           scattered(derivation_, statement_, forward_, i, std::move(c)));
  }

  // What multiplies the body's derivative: the adjoint of the cell, its share among ties, or the
  // adjoint times the other factors.
  NodeId seed_value(SymbolicContraction& c, AdjointBody& adjoint) const {
    auto load = [&](SymbolicAccess access) {
      c.accesses.push_back(std::move(access));
      return adjoint.body.load(c.accesses.size() - 1);
    };
    switch (forward_.aggregation) {
      case Aggregation::sum:
      case Aggregation::assign:
        return load(output_access(seed_.valid() ? seed_ : d_));
      case Aggregation::max:
      case Aggregation::min: {
        NodeId holds = tie(adjoint, load(output_access(statement_.result)));
        NodeId share = load(output_access(shared_));
        NodeId zero = adjoint.body.integer(0);
        return adjoint.body.operation(Op::select, {holds, share, zero});
      }
      case Aggregation::product: {
        NodeId value = load(output_access(d_));
        for (const SymbolicAccess& factor : others_) value = adjoint.times(value, load(factor));
        return value;
      }
    }
    return NodeId();
  }

  // The adjoint of each cell divided by the number of its tied points; an empty cell has none, and
  // its share, which no point reads, must be finite too: a further derivative multiplies it by 0.
  TensorId shared_among_ties() {
    SymbolicContraction count = over_same_points();
    count.aggregation = Aggregation::sum;
    count.out_index = forward_.out_index;
    count.out_size = forward_.out_size;
    AdjointBody adjoint(forward_.body);
    count.accesses.push_back(output_access(statement_.result));
    NodeId extreme = adjoint.body.load(count.accesses.size() - 1);
    NodeId holds = tie(adjoint, extreme);
    NodeId one = adjoint.body.real(1), zero = adjoint.body.real(0);
    NodeId value = adjoint.body.operation(Op::select, {holds, one, zero});
    finish(count, std::move(adjoint.body), value, -1);
    const std::string& name = derivation_.tensor(statement_.result).name;
    TensorId counted = derivation_.add(suffixed(name, "_ties"), statement_.span, std::move(count));
    Body body;
    NodeId d = body.load(0), n = body.load(1), one_point = body.integer(1);
    NodeId share = body.operation(Op::div, {d, body.operation(Op::max, {n, one_point})});
    body.results = {body.operation(Op::cast_like, {share, d})};
    return derivation_.elementwise(suffixed(derivation_.adjoint_name(statement_.result), "_shared"),
                                   statement_.span, {d_, counted}, std::move(body));
  }

  // The default tensor's cells count where no point reaches.
  void add_default() {
    SymbolicContraction count = over_same_points();
    count.aggregation = Aggregation::sum;
    count.out_index = forward_.out_index;
    count.out_size = forward_.out_size;
    Body one;
    NodeId value = one.integer(1);
    finish(count, std::move(one), value, -1);
    const std::string& name = derivation_.tensor(statement_.result).name;
    TensorId covered =
        derivation_.add(suffixed(name, "_points"), statement_.span, std::move(count));
    Body body;
    NodeId n = body.load(0), d = body.load(1), zero = body.integer(0);
    NodeId bare = body.operation(Op::eq, {n, zero});
    body.results = {body.operation(Op::select, {bare, d, zero})};
    TensorId target = *forward_.default_tensor;
    derivation_.contribute(
        target, derivation_.elementwise(derivation_.adjoint_name(target), statement_.span,
                                        {covered, d_}, std::move(body)));
  }

  Derivation& derivation_;
  const Statement& statement_;
  const SymbolicContraction& forward_;
  TensorId d_;
  TensorId seed_;  // of the access at hand, in sums
  TensorId shared_;
  std::vector<SymbolicAccess> others_;
};

bool has_folds(const Body& body) {
  return std::any_of(body.nodes.begin(), body.nodes.end(),
                     [](const Node& n) { return n.kind == NodeKind::fold; });
}

// Component k of a tensor of tuples.
TensorId component(Derivation& derivation, TensorId tensor, int k, size_t rank, Span span) {
  SymbolicContraction c;
  c.out_span = span;
  SymbolicAccess read;
  read.tensor = tensor;
  read.span = span;
  for (size_t d = 0; d < rank; ++d) {
    c.indices.push_back("i" + std::to_string(d) + "'");
    c.out_index.push_back(Expr::variable(c.indices.back()));
    c.out_size.push_back(derivation.extent(tensor, d));
  }
  read.index = c.out_index;
  read.index.emplace_back(k);
  c.accesses = {std::move(read)};
  c.aggregation = Aggregation::assign;
  c.body.results = {c.body.load(0)};
  const std::string name = derivation.tensor(tensor).name + "_" + std::to_string(k);
  return derivation.add(name, span, std::move(c));
}

// Products and extrema of tuples: each component by itself.
void differentiate_components(Derivation& derivation, const Statement& statement,
                              const SymbolicContraction& what, TensorId d) {
  size_t rank = what.out_index.size();
  for (int k = 0; k < what.components; ++k) {
    SymbolicContraction one = what;
    one.components = 0;
    one.body.results = {what.body.results[static_cast<size_t>(k)]};
    one.body = tidied(one.body);
    Statement part = statement;
    part.result = component(derivation, statement.result, k, rank, statement.span);
    TensorId adjoint = component(derivation, d, k, rank, statement.span);
    Rule(derivation, part, one, adjoint).run();
  }
}

}  // namespace

void differentiate_contraction(Derivation& derivation, const Statement& statement,
                               const SymbolicContraction& what, TensorId d) {
  if (has_folds(what.body)) return differentiate_folds(derivation, statement, what, d);
  SymbolicContraction expressed = what;
  express_indices(derivation.program, expressed);
  bool adds = what.aggregation == Aggregation::sum || what.aggregation == Aggregation::assign;
  if (what.components != 0 && !adds) {
    return differentiate_components(derivation, statement, expressed, d);
  }
  Rule(derivation, statement, expressed, d).run();
}

}  // namespace tile
