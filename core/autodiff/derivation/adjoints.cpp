// The adjoints of a derivation: contributions, their sums, where they may be other than zero.
#include <algorithm>

#include "core/autodiff/derivation/derivation.h"

namespace tile {

void Derivation::contribute(TensorId id, TensorId adjoint, Places fixed) {
  contributions_[id].push_back({adjoint, std::move(fixed)});
}

const CellConditions& Derivation::conditions(TensorId adjoint) const {
  static const CellConditions none;
  auto found = conditions_.find(adjoint);
  return found == conditions_.end() ? none : found->second;
}

void Derivation::set_conditions(TensorId adjoint, CellConditions conditions) {
  if (keeps_conditions_ && !conditions.empty()) conditions_[adjoint] = std::move(conditions);
}

TensorId Derivation::unbroadcast(const std::string& name, Span span, TensorId adjoint,
                                 TensorId operand) {
  const CellConditions& own = conditions(adjoint);
  std::optional<SymbolicContraction> sum;
  if (!own.empty()) {
    sum = conditional_sum(adjoint, shapes_[adjoint], shapes_[operand], own, span);
  }
  if (!sum) return call(name, span, Function::sum_to, {adjoint, operand});
  CellConditions left = cell_conditions(*sum, sum->constraints.size());
  TensorId result = add(name, span, *std::move(sum));
  set_conditions(result, std::move(left));
  return result;
}

TensorId Derivation::component_of(TensorId adjoint, int k) const {
  auto known = components_.find(adjoint);
  if (known == components_.end()) return TensorId();
  auto found = known->second.find(k);
  return found == known->second.end() ? TensorId() : found->second;
}

// The sum over the first `rank` dimensions of `id`, each part where it belongs.
TensorId Derivation::sum_of_placed(const std::string& name, TensorId id, const Contributions& parts,
                                   size_t rank, Span span) {
  SymbolicContraction c;
  c.aggregation = Aggregation::assign;
  c.out_span = span;
  for (size_t d = 0; d < rank; ++d) {
    c.indices.push_back("i" + std::to_string(d) + "'");
    c.out_index.push_back(Expr::variable(c.indices.back()));
    c.out_size.push_back(extent(id, d));
  }
  NodeId sum;
  for (const Contribution& part : parts) {
    SymbolicAccess access;
    access.tensor = part.adjoint;
    access.span = span;
    NodeId here;
    for (size_t d = 0; d < rank; ++d) {
      if (part.fixed.empty() || !part.fixed[d]) {
        access.index.push_back(c.out_index[d]);
        continue;
      }
      NodeId place = c.body.size(*part.fixed[d]), index = c.body.index(d);
      NodeId test = c.body.operation(Op::eq, {index, place});
      here = here.valid() ? c.body.operation(Op::logical_and, {here, test}) : test;
    }
    NodeId value = c.body.load(c.accesses.size());
    c.accesses.push_back(std::move(access));
    if (here.valid()) value = c.body.operation(Op::select, {here, value, c.body.integer(0)});
    sum = sum.valid() ? c.body.operation(Op::add, {sum, value}) : value;
  }
  c.body.results = {sum};
  c.body = tidied(c.body);
  return add(name, span, std::move(c));
}

// Each component by itself, then the tensor of tuples.
TensorId Derivation::joined_components(TensorId id, const Contributions& parts, Span span) {
  size_t rank = parts[0].fixed.size() - 1;
  std::map<int64_t, Contributions> groups;
  for (const Contribution& part : parts) groups[part.fixed[rank]->value()].push_back(part);
  Contributions whole;
  std::map<int64_t, TensorId> components;
  for (const auto& [k, group] : groups) {
    bool plain = group.size() == 1 &&
                 std::none_of(group[0].fixed.begin(), group[0].fixed.end() - 1,
                              [](const std::optional<Expr>& e) { return e.has_value(); });
    std::string name = adjoint_name(id) + "_" + std::to_string(k);
    components[k] = plain ? group[0].adjoint : sum_of_placed(name, id, group, rank, span);
    Places fixed(rank + 1);
    fixed[rank] = Expr(k);
    whole.push_back({components[k], std::move(fixed)});
  }
  TensorId joined = sum_of_placed(adjoint_name(id), id, whole, rank + 1, span);
  components_[joined] = std::move(components);
  return joined;
}

TensorId Derivation::placed(TensorId id, const Contributions& parts, Span span) {
  bool tuples = std::all_of(parts.begin(), parts.end(), [](const Contribution& part) {
    return !part.fixed.empty() && part.fixed.back() && part.fixed.back()->is_constant();
  });
  if (tuples) return joined_components(id, parts, span);
  size_t rank = 0;
  for (const Contribution& part : parts) rank = std::max(rank, part.fixed.size());
  return sum_of_placed(adjoint_name(id), id, parts, rank, span);
}

// The sum takes the plain name; nothing but the sum refers to the parts. The seed keeps its name.
void Derivation::release_name(TensorId id, const std::vector<TensorId>& parts) {
  for (TensorId part : parts) {
    Tensor& t = program.tensors[part];
    if (t.name != adjoint_name(id) || part == seed_) continue;
    t.name = fresh(t.name);
    names_.erase(adjoint_name(id));
  }
}

// The adjoint of a tensor has the tensor's type: where a program converts between floats, what is
// added up of wider ones is rounded once, behind the sum.
TensorId Derivation::adjoint(TensorId id, Span span) {
  TensorId whole = added_up(id, span);
  bool typed = !converts_floats_ || !whole.valid() || whole == seed_ ||
               components_.contains(whole) || rounded_.contains(whole);
  if (typed) return whole;
  std::vector<TensorId> parts = addends(whole);
  release_name(id, {whole});
  Body body;
  NodeId value = body.load(0), like = body.load(1);
  body.results = {body.operation(Op::cast_like, {value, like})};
  TensorId result = elementwise(adjoint_name(id), span, {whole, id}, std::move(body));
  CellConditions own = conditions(whole);
  set_conditions(result, std::move(own));
  if (parts.size() > 1) addends_[result] = std::move(parts);
  rounded_.insert(result);
  contributions_[id] = {{result, {}}};
  return result;
}

TensorId Derivation::added_up(TensorId id, Span span) {
  const Contributions contributions = contributions_[id];
  if (contributions.empty()) return TensorId();
  bool anywhere = std::any_of(contributions.begin(), contributions.end(),
                              [](const Contribution& part) { return !part.fixed.empty(); });
  std::vector<TensorId> parts;
  for (const Contribution& part : contributions) parts.push_back(part.adjoint);
  if (anywhere) {
    release_name(id, parts);
    TensorId whole = placed(id, contributions, span);
    contributions_[id] = {{whole, {}}};
    return whole;
  }
  if (parts.size() == 1) return parts[0];
  release_name(id, parts);
  TensorId whole = sum_of(adjoint_name(id), span, parts);
  contributions_[id] = {{whole, {}}};
  addends_[whole] = std::move(parts);
  return whole;
}

TensorId Derivation::sum_of(const std::string& name, Span span,
                            const std::vector<TensorId>& parts) {
  Body body;
  NodeId sum = body.load(0);
  CellConditions common = conditions(parts[0]);
  for (size_t i = 1; i < parts.size(); ++i) {
    NodeId part = body.load(i);
    sum = body.operation(Op::add, {sum, part});
    common = common_conditions(common, conditions(parts[i]));
  }
  body.results = {sum};
  TensorId whole = elementwise(name, span, parts, std::move(body));
  set_conditions(whole, std::move(common));
  return whole;
}

std::vector<TensorId> Derivation::addends(TensorId adjoint) const {
  auto found = addends_.find(adjoint);
  return found == addends_.end() ? std::vector{adjoint} : found->second;
}

TensorId Derivation::sum_of_addends(TensorId adjoint, const std::vector<TensorId>& some) {
  if (some.empty()) return TensorId();
  if (some.size() == addends(adjoint).size()) return adjoint;
  if (some.size() == 1) return some[0];
  const Tensor& whole = tensor(adjoint);
  return sum_of(suffixed(whole.name, "_moving"), whole.span, some);
}

}  // namespace tile
