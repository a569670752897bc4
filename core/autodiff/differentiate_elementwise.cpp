#include "core/autodiff/derivation/adjoint_body.h"
#include "core/autodiff/derivation/derivation.h"
#include "core/autodiff/derivation/zero_sums.h"

namespace tile {
namespace {

// The adjoint of the result as far as it moves an operand that is broadcast: see
// without_zero_sums. `value` is what is summed, `seed` its load of the adjoint.
TensorId moving(Derivation& derivation, const Statement& statement, const Body& body, NodeId value,
                int seed, const std::vector<TensorId>& operands, TensorId operand) {
  TensorId d = operands[static_cast<size_t>(seed)];
  const SymbolicShape& shape = derivation.shape(statement.result);
  bool known =
      derivation.drops_zero_sums() && shape.ranked && provably_equal(shape, derivation.shape(d));
  if (!known) return d;
  Element cell{statement.result, {}};
  SummedSpace space;
  for (size_t k = 0; k < shape.dims.size(); ++k) {
    cell.place.push_back(cell_name(k));
    if (shape.dims[k]) space.summed[cell_name(k).name()] = *shape.dims[k];
  }
  std::optional<Element> kept = operand_at(derivation, operand, cell);
  if (!kept || space.summed.size() < shape.dims.size()) return d;
  for (const Expr& e : kept->place) {
    if (!e.is_constant()) space.summed.erase(e.name());
  }
  space.read = [&](size_t slot) {
    TensorId id = operands[slot];
    return id == d || id == statement.result ? std::optional(Element{id, cell.place})
                                             : operand_at(derivation, id, cell);
  };
  return without_zero_sums(derivation, body, value, seed, space);
}

}  // namespace

void differentiate_elementwise(Derivation& derivation, const Statement& statement,
                               const Elementwise& what, TensorId d) {
  for (size_t i = 0; i < what.operands.size(); ++i) {
    TensorId operand = what.operands[i];
    if (!derivation.active(operand)) continue;
    std::vector<TensorId> operands = what.operands;
    operands.push_back(d);
    operands.push_back(statement.result);
    auto count = static_cast<int>(what.operands.size());
    AdjointBody adjoint(what.body, count + 1);
    NodeId seed = adjoint.body.load(count);
    NodeId value = adjoint.derivative(static_cast<int>(i), seed);
    if (!value.valid()) continue;
    std::string name = derivation.adjoint_name(operand);
    bool broadcasts = !derivation.same_shape(operand, statement.result);
    bool bare = value == seed;
    if (broadcasts) {
      operands[what.operands.size()] =
          moving(derivation, statement, adjoint.body, value, count, operands, operand);
    }
    TensorId seeded = operands[what.operands.size()], whole = seeded;
    if (!seeded.valid()) continue;
    if (!bare) {
      whole = derivation.elementwise(broadcasts ? suffixed(name, "_b") : name, statement.span,
                                     operands, finished(std::move(adjoint.body), value));
      // It is a multiple of the adjoint.
      derivation.set_conditions(whole, derivation.conditions(seeded));
    }
    if (broadcasts) whole = derivation.unbroadcast(name, statement.span, whole, operand);
    derivation.contribute(operand, whole);
  }
}

}  // namespace tile
