#include "core/passes/bind/bind.h"

#include <map>

#include "core/ir/analysis/has_gradient.h"
#include "core/passes/bind/bind_context.h"
#include "core/support/checked.h"
#include "core/support/control.h"

namespace tile {
namespace {

void bind_statement(BindContext& context, const Statement& statement) {
  try {
    if (const auto* contraction = std::get_if<SymbolicContraction>(&statement.what)) {
      bind_contraction(context, statement, *contraction);
    } else if (const auto* elementwise = std::get_if<Elementwise>(&statement.what)) {
      bind_elementwise(context, statement, *elementwise);
    } else if (const auto* call = std::get_if<Call>(&statement.what)) {
      bind_call(context, statement, *call);
    } else if (const auto* repeat = std::get_if<Repeat>(&statement.what)) {
      bind_repeat(context, statement, *repeat);
    } else {
      bind_literal(context, statement, std::get<Literal>(statement.what));
    }
  } catch (const Overflow&) {
    fail(Stage::bind, "overflow", statement.span,
         "a size or an index of " + context.name(statement.result) + " does not fit in 64 bits");
  }
}

// Inputs that are seeds of differentiation, by the tensor that they belong to.
using Seeds = std::multimap<TensorId, TensorId>;
Seeds seeds_of(const Program& program) {
  Seeds seeds;
  for (TensorId id : program.inputs) {
    const Tensor& input = program.tensors[id];
    if (input.seed_of) seeds.emplace(*input.seed_of, id);
  }
  return seeds;
}

// A seed of differentiation fits the output that it belongs to.
void check_seeds(BindContext& context, const Seeds& seeds, TensorId of) {
  auto [first, last] = seeds.equal_range(of);
  for (auto at = first; at != last; ++at) {
    TensorId id = at->second;
    const Tensor& seed = context.program.tensors[id];
    const BoundTensor &given = context.tensor(id), &output = context.tensor(of);
    for (const BoundTensor* t : {&output, &given}) {
      if (is_float(t->type)) continue;
      fail(Stage::bind, "gradient", seed.span,
           "the gradient of " + output.name + " needs floating-point elements, but " + t->name +
               " is " + std::string(to_string(t->type)));
    }
    if (given.shape == output.shape) continue;
    fail(Stage::bind, "gradient", seed.span,
         "the seed " + given.name + " has shape " + shape_text(given.shape) + ", but " +
             output.name + " has shape " + shape_text(output.shape));
  }
}

void check_differentiated(BindContext& context, TensorId id) {
  const Tensor& input = context.program.tensors[id];
  DType type = context.tensor(id).type;
  if (input.differentiated) require_gradient(input, type);
}

int64_t node_count(const BoundStatement& statement) {
  const auto* c = std::get_if<Contraction>(&statement);
  int64_t count = 1;
  if (const auto* repeat = std::get_if<BoundRepeat>(&statement)) {
    for (const BoundStatement& s : repeat->step->statements) count += node_count(s);
  }
  if (c == nullptr) return count;
  for (const Piece& piece : c->pieces) {
    visit_nodes(piece.body, [&](const Node&) { ++count; });
  }
  return count;
}

// The load as a number.
void replace_load(Piece& piece, size_t slot, int64_t value) {
  piece.body = rewritten(piece.body, [&](Body& into, const Node& node) -> NodeId {
    bool here = node.kind == NodeKind::load && node.slot == slot;
    return here ? into.integer(value, node.type, node.span) : NodeId();
  });
  piece.loads.erase(piece.loads.begin() + slot);
  change_nodes(piece.body, [&](Node& node) {
    if (node.kind == NodeKind::load && node.slot > slot) --node.slot;
  });
}

// Parameters that sizes are made of are numbers in bodies, too: another value is bound anew.
void fix_sizing_parameters(BindContext& context) {
  for (TensorId id : sizing_parameters(context.program)) {
    if (!context.shape(id).empty() || !is_integer(context.tensor(id).type)) continue;
    int64_t value = context.integer(Expr::variable(context.name(id)), id, {});
    for (BoundStatement& statement : context.bound.statements) {
      auto* c = std::get_if<Contraction>(&statement);
      if (c == nullptr) continue;
      for (Piece& piece : c->pieces) {
        for (size_t slot = piece.loads.size(); slot-- > 0;) {
          if (piece.loads[slot].tensor != id) continue;
          replace_load(piece, static_cast<int>(slot), value);
        }
      }
    }
  }
}

}  // namespace

void bind_repeat(BindContext& context, const Statement& statement, const Repeat& repeat) {
  std::vector<InputType> operands;
  for (TensorId id : repeat.operands)
    operands.push_back({context.tensor(id).type, context.shape(id)});
  BindContext step(*repeat.step);
  step.take_sizes(context);
  for (size_t i = 0; i < operands.size(); ++i) {
    step.bind_input(repeat.step->inputs[i], operands[i]);
  }
  for (const Statement& s : repeat.step->statements) {
    checkpoint_at(s.span);
    bind_statement(step, s);
  }
  BoundRepeat bound;
  bound.step = std::make_shared<const BoundProgram>(std::move(step.bound));
  bound.operands = repeat.operands;
  bound.result = statement.result;
  bound.trips = repeat.trips;
  bound.span = statement.span;
  context.declare(statement.result, operands[0].type, operands[0].shape, statement.span);
  context.add(std::move(bound));
}

BoundProgram bind(const Program& program, const std::vector<InputType>& inputs) {
  BindContext context(program);
  if (inputs.size() != program.inputs.size()) {
    fail(Stage::bind, "inputs", {},
         "the program has " + std::to_string(program.inputs.size()) + " inputs, but " +
             std::to_string(inputs.size()) + " tensors are given");
  }
  for (size_t i = 0; i < inputs.size(); ++i) context.bind_input(program.inputs[i], inputs[i]);
  context.check_sizes();
  const Seeds seeds = seeds_of(program);
  for (TensorId id : program.inputs) {
    check_differentiated(context, id);
    check_seeds(context, seeds, id);
  }
  size_t counted = 0;  // statements
  int64_t nodes = 0;
  for (const Statement& statement : program.statements) {
    checkpoint_at(statement.span);
    bind_statement(context, statement);
    for (; counted < context.bound.statements.size(); ++counted) {
      nodes += node_count(context.bound.statements[counted]);
    }
    if (nodes > limits().nodes) {
      fail_limit(Stage::bind, statement.span,
                 "the program has more than " + std::to_string(limits().nodes) + " operations",
                 "limit_nodes");
    }
    check_seeds(context, seeds, statement.result);
  }
  fix_sizing_parameters(context);
  return std::move(context.bound);
}

}  // namespace tile
