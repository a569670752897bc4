#include "core/passes/gradient/adjoint_body.h"
#include "core/passes/gradient/derivation.h"

namespace tile {

void differentiate_elementwise(Derivation& derivation, const Statement& statement,
                               const Elementwise& what, TensorId d) {
  for (size_t i = 0; i < what.operands.size(); ++i) {
    TensorId operand = what.operands[i];
    if (!derivation.active(operand)) continue;
    AdjointBody adjoint(what.body);
    std::vector<TensorId> operands = what.operands;
    operands.push_back(d);
    NodeId seed = adjoint.body.load(static_cast<int>(what.operands.size()));
    NodeId value = adjoint.derivative(static_cast<int>(i), seed);
    if (value < 0) continue;
    std::string name = derivation.adjoint_name(operand);
    // A statement with one operand has that operand's shape: nothing to undo.
    bool broadcasts = what.operands.size() > 1;
    bool bare = value == seed;
    TensorId whole = d;
    if (!bare) {
      whole = derivation.elementwise(broadcasts ? name + "_b" : name, statement.span, operands,
                                     finished(std::move(adjoint.body), value));
    }
    if (broadcasts) {
      whole = derivation.call(name, statement.span, Function::sum_to, {whole, operand});
    }
    derivation.contribute(operand, whole);
  }
}

}  // namespace tile
