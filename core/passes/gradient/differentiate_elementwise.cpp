#include "core/passes/gradient/adjoint_body.h"
#include "core/passes/gradient/derivation.h"

namespace tile {

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
    if (value < 0) continue;
    std::string name = derivation.adjoint_name(operand);
    bool broadcasts = !derivation.same_shape(operand, statement.result);
    bool bare = value == seed;
    TensorId whole = d;
    if (!bare) {
      whole = derivation.elementwise(broadcasts ? suffixed(name, "_b") : name, statement.span,
                                     operands, finished(std::move(adjoint.body), value));
    }
    if (broadcasts) {
      whole = derivation.call(name, statement.span, Function::sum_to, {whole, operand});
    }
    derivation.contribute(operand, whole);
  }
}

}  // namespace tile
