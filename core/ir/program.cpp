#include "core/ir/program.h"

#include <algorithm>
#include <array>
#include <set>

namespace tile {
namespace {

constexpr auto kFunctions = std::to_array<Function>(
    {Function::shape, Function::index, Function::reshape, Function::gather, Function::scatter,
     Function::transpose, Function::concat, Function::slice, Function::argmax, Function::argmin,
     Function::sort, Function::argsort, Function::cumsum, Function::prng_uniform, Function::sum_to,
     Function::reshape_like, Function::unslice, Function::permute_along});

}  // namespace

std::optional<Aggregation> aggregation_of(Op op) {
  switch (op) {
    case Op::add:
      return Aggregation::sum;
    case Op::mul:
      return Aggregation::product;
    case Op::max:
      return Aggregation::max;
    case Op::min:
      return Aggregation::min;
    default:
      return std::nullopt;
  }
}

std::string_view to_string(Aggregation aggregation) {
  switch (aggregation) {
    case Aggregation::sum:
      return "+";
    case Aggregation::product:
      return "*";
    case Aggregation::max:
      return ">";
    case Aggregation::min:
      return "<";
    case Aggregation::assign:
      return "=";
  }
  return "?";
}

std::string_view to_string(Function function) {
  switch (function) {
    case Function::shape:
      return "shape";
    case Function::index:
      return "index";
    case Function::reshape:
      return "reshape";
    case Function::gather:
      return "gather";
    case Function::scatter:
      return "scatter";
    case Function::transpose:
      return "transpose";
    case Function::concat:
      return "concat";
    case Function::slice:
      return "slice";
    case Function::argmax:
      return "argmax";
    case Function::argmin:
      return "argmin";
    case Function::sort:
      return "sort";
    case Function::argsort:
      return "argsort";
    case Function::cumsum:
      return "cumsum";
    case Function::prng_uniform:
      return "prng_uniform";
    case Function::sum_to:
      return "sum_to";
    case Function::reshape_like:
      return "reshape_like";
    case Function::unslice:
      return "unslice";
    case Function::permute_along:
      return "permute_along";
  }
  return "?";
}

std::span<const Function> whole_tensor_functions() { return kFunctions; }

std::optional<Function> find_whole_tensor_function(std::string_view name) {
  for (Function f : kFunctions) {
    if (to_string(f) == name) return f;
  }
  return std::nullopt;
}

std::optional<TensorId> Program::find(std::string_view name) const {
  for (TensorId i : tensors.ids()) {
    if (tensors[i].name == name) return i;
  }
  return std::nullopt;
}

namespace {

// Of sizes, indices and bounds.
void collect_size_names(const Program& program, std::vector<std::string>& names) {
  auto add = [&](const Expr& e) { collect_variables(e, names); };
  for (const Statement& s : program.statements) {
    if (const auto* repeat = std::get_if<Repeat>(&s.what)) collect_size_names(*repeat->step, names);
    if (const auto* call = std::get_if<Call>(&s.what)) {
      for (const Expr& size : call->sizes) add(size);
    }
    const auto* c = std::get_if<SymbolicContraction>(&s.what);
    if (c == nullptr) continue;
    for (const Expr& size : c->out_size) add(size);
    for (const Expr& index : c->out_index) add(index);
    for (const SymbolicConstraint& k : c->constraints) {
      add(k.form);
      add(k.bound);
    }
    for (const SymbolicAccess& access : c->accesses) {
      for (const Expr& index : access.index) add(index);
    }
    visit_nodes(c->body, [&](const Node& n) {
      if (n.kind == NodeKind::size) add(n.expr);
    });
  }
}

}  // namespace

std::vector<TensorId> sizing_parameters(const Program& program) {
  std::vector<std::string> names;
  collect_size_names(program, names);
  std::vector<TensorId> found;
  std::set<std::string_view> used(names.begin(), names.end());
  for (TensorId id : program.inputs) {
    const Tensor& input = program.tensors[id];
    if (input.parameter && used.contains(input.name)) found.push_back(id);
  }
  return found;
}

Program with_outputs(const Program& program, std::span<const std::string> names) {
  Program result = program;
  result.outputs.clear();
  result.output_spans.clear();
  for (const std::string& name : names) {
    std::optional<TensorId> id = program.find(name);
    bool assigned = id && std::any_of(program.statements.begin(), program.statements.end(),
                                      [&](const Statement& s) { return s.result == *id; });
    if (!assigned) fail(Stage::run, "argument", {}, "the program defines no tensor " + name);
    result.outputs.push_back(*id);
    result.output_spans.push_back(program.tensors[*id].span);
  }
  return result;
}

}  // namespace tile
