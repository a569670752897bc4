#include "core/passes/bind.h"

#include "core/passes/bind_context.h"
#include "core/support/checked.h"

namespace tile {
namespace {

void bind_statement(BindContext& context, const Statement& statement) {
  try {
    if (const auto* contraction = std::get_if<SymbolicContraction>(&statement.what)) {
      bind_contraction(context, statement, *contraction);
    } else if (const auto* elementwise = std::get_if<Elementwise>(&statement.what)) {
      bind_elementwise(context, statement, *elementwise);
    } else {
      bind_call(context, statement, std::get<Call>(statement.what));
    }
  } catch (const Overflow&) {
    fail(Stage::bind, "overflow", statement.span,
         "a size or an index of " + context.name(statement.result) + " does not fit in 64 bits");
  }
}

}  // namespace

BoundProgram bind(const Program& program, const std::vector<InputType>& inputs) {
  BindContext context(program);
  if (inputs.size() != program.inputs.size()) {
    fail(Stage::bind, "inputs", {},
         "the program has " + std::to_string(program.inputs.size()) + " inputs, but " +
             std::to_string(inputs.size()) + " tensors are given");
  }
  for (size_t i = 0; i < inputs.size(); ++i) context.bind_input(program.inputs[i], inputs[i]);
  for (const Statement& statement : program.statements) bind_statement(context, statement);
  return std::move(context.bound);
}

}  // namespace tile
