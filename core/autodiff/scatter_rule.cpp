#include "core/autodiff/scatter_rule.h"

#include <algorithm>

#include "core/autodiff/derivation/boundary_cases.h"
#include "core/autodiff/derivation/coordinates.h"
#include "core/autodiff/derivation/index_expression.h"
#include "core/passes/bind/index_node.h"

namespace tile {
namespace {

// Writes the flat row-major position that a load reads as a value of a typed body.
class PlaceWriter {
 public:
  PlaceWriter(const Derivation& derivation, const SymbolicContraction& forward, size_t slot)
      : derivation_(derivation),
        forward_(forward),
        access_(forward.accesses[slot]),
        ranges_(known_ranges(derivation.program, forward)) {}

  // `load`: of the access, its operands being nodes of `body`.
  NodeId write(Body& body, const Node& load) const {
    NodeId flat;
    for (size_t d = 0; d < access_.index.size(); ++d) {
      NodeId size = body.size(derivation_.extent(access_.tensor, d), DType::i64);
      NodeId at = bounded(body, boundary(d), place(body, load, d), size);
      if (flat.valid()) at = operation(body, Op::add, operation(body, Op::mul, flat, size), at);
      flat = at;
    }
    return flat;
  }
  // Whether every index with a constant boundary is inside; -1: always.
  NodeId inside(Body& body, const Node& load) const {
    NodeId all;
    for (size_t d = 0; d < access_.index.size(); ++d) {
      if (boundary(d) != Boundary::constant) continue;
      NodeId at = place(body, load, d), zero = body.integer(0, DType::i64);
      NodeId size = body.size(derivation_.extent(access_.tensor, d), DType::i64);
      for (NodeId test : {body.operation(Op::ge, {at, zero}, DType::bool_),
                          body.operation(Op::lt, {at, size}, DType::bool_)}) {
        all = all.valid() ? body.operation(Op::logical_and, {all, test}, DType::bool_) : test;
      }
    }
    return all;
  }

 private:
  static NodeId operation(Body& body, Op op, NodeId a, NodeId b) {
    return body.operation(op, {a, b}, DType::i64);
  }
  Boundary boundary(size_t d) const {
    return d < access_.boundary.size() ? access_.boundary[d] : Boundary::in_range;
  }

  NodeId place(Body& body, const Node& load, size_t d) const {
    bool value = d < access_.values.size() && access_.values[d] >= 0;
    if (value) return body.cast(load.args[static_cast<size_t>(access_.values[d])], DType::i64);
    return add_index_value(body, access_.index[d], forward_.indices, ranges_, access_.span);
  }

  // Integer division truncates.
  static NodeId floored_remainder(Body& body, NodeId a, NodeId n) {
    NodeId r = operation(body, Op::add, operation(body, Op::mod, a, n), n);
    return operation(body, Op::mod, r, n);
  }
  static NodeId bounded(Body& body, Boundary rule, NodeId at, NodeId size) {
    NodeId zero = body.integer(0, DType::i64), one = body.integer(1, DType::i64);
    NodeId last = operation(body, Op::sub, size, one);
    switch (rule) {
      case Boundary::in_range:
        return at;
      case Boundary::clamp:
      case Boundary::constant:
        return operation(body, Op::max, operation(body, Op::min, at, last), zero);
      case Boundary::wrap:
        return floored_remainder(body, at, size);
      case Boundary::mirror: {
        NodeId twice = operation(body, Op::add, size, size);
        NodeId turned = floored_remainder(body, at, twice);
        NodeId back = operation(body, Op::sub, operation(body, Op::sub, twice, one), turned);
        return operation(body, Op::min, turned, back);
      }
    }
    return at;
  }

  const Derivation& derivation_;
  const SymbolicContraction& forward_;
  const SymbolicAccess& access_;
  Ranges ranges_;
};

// The one load of an access by value.
const Node& load_of(const SymbolicContraction& forward, size_t slot) {
  auto found =
      std::find_if(forward.body.nodes.begin(), forward.body.nodes.end(),
                   [&](const Node& n) { return n.kind == NodeKind::load && n.slot == slot; });
  internal_check(found != forward.body.nodes.end(), "gradient: an access that nothing reads");
  return *found;
}

}  // namespace

NodeId add_inside_test(Body& body, const Derivation& derivation, const SymbolicContraction& forward,
                       size_t slot) {
  const Node load = load_of(forward, slot);
  return PlaceWriter(derivation, forward, slot).inside(body, load);
}

TensorId scattered(Derivation& derivation, const Statement& statement,
                   const SymbolicContraction& forward, size_t slot,
                   SymbolicContraction contributions) {
  TensorId target = forward.accesses[slot].tensor;
  const std::string name = derivation.adjoint_name(target);
  std::vector<Coordinate> cells = coordinates_of(derivation, forward);
  if (cells.size() < forward.indices.size()) {
    fail(Stage::bind, "derivative", statement.span,
         "the derivative of " + derivation.tensor(target).name +
             " through an index that depends on data needs every index to be bounded");
  }
  PlaceWriter writer(derivation, forward, slot);
  SymbolicContraction places = over_cells(forward, cells, statement.span);
  places.body = forward.body;
  places.body.results = {writer.write(places.body, load_of(forward, slot))};
  places.body = tidied(places.body);
  drop_unread_values(places);
  TensorId where = derivation.add(suffixed(name, "_places"), statement.span, std::move(places));

  contributions.aggregation = Aggregation::assign;
  for (const Coordinate& cell : cells) {
    contributions.out_index.push_back(cell.form);
    contributions.out_size.push_back(cell.size);
  }
  TensorId parts =
      derivation.add(suffixed(name, "_parts"), statement.span, std::move(contributions));
  Expr count(1);
  for (size_t d = 0; d < forward.accesses[slot].index.size(); ++d)
    count = count * derivation.extent(target, d);
  TensorId sums = derivation.call(suffixed(name, "_flat"), statement.span, Function::scatter,
                                  {parts, where}, {count});
  return derivation.call(name, statement.span, Function::reshape_like, {sums, target});
}

}  // namespace tile
