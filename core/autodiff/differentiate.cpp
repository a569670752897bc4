#include "core/autodiff/differentiate.h"

#include <algorithm>

#include "core/autodiff/derivation/derivation.h"
#include "core/autodiff/given_gradient.h"
#include "core/autodiff/loops/write_out_loops.h"
#include "core/ir/analysis/has_gradient.h"
#include "core/ir/repeat.h"
#include "core/support/control.h"

namespace tile {
namespace {

struct Reads {
  std::vector<TensorId> operator()(const SymbolicContraction& c) const {
    std::vector<TensorId> ids;
    for (const SymbolicAccess& a : c.accesses) ids.push_back(a.tensor);
    if (c.default_tensor) ids.push_back(*c.default_tensor);
    return ids;
  }
  std::vector<TensorId> operator()(const Elementwise& e) const { return e.operands; }
  std::vector<TensorId> operator()(const Literal&) const { return {}; }
  std::vector<TensorId> operator()(const Repeat&) const { return {}; }  // written out before
  std::vector<TensorId> operator()(const Call& c) const {
    switch (c.function) {
      case Function::concat:
        return c.tensors;
      case Function::shape:
      case Function::index:
      case Function::argmax:
      case Function::argmin:
      case Function::argsort:
      case Function::prng_uniform:
        return {};
      default:
        return {c.tensors[0]};
    }
  }
};

std::string names_of(const Program& program, const std::vector<TensorId>& ids) {
  std::string out;
  for (TensorId id : ids) {
    out += (out.empty() ? "" : ", ") + program.tensors[id].name;
  }
  return out.empty() ? "none" : out;
}

TensorId find_among(const Program& program, const std::vector<TensorId>& ids,
                    const std::string& name, const char* what) {
  for (TensorId id : ids) {
    if (program.tensors[id].name == name) return id;
  }
  std::optional<TensorId> other = program.find(name);
  Span span = other ? program.tensors[*other].span : Span{};
  fail(Stage::bind, "name", span, "\"" + name + "\" is not an " + what + " of this program",
       std::string("its ") + what + "s are " + names_of(program, ids));
}

// The gradient of an input that the output does not depend on: zeros of its shape and type.
TensorId zeros(Derivation& derivation, TensorId input) {
  Body body;
  NodeId zero = body.integer(0), like = body.load(0);
  body.results = {body.operation(Op::cast_like, {zero, like})};
  return derivation.elementwise(derivation.adjoint_name(input), derivation.tensor(input).span,
                                {input}, std::move(body));
}

void differentiate_statement(Derivation& derivation, const Statement& s, TensorId d) {
  if (const auto* c = std::get_if<SymbolicContraction>(&s.what)) {
    differentiate_contraction(derivation, s, *c, d);
  } else if (const auto* e = std::get_if<Elementwise>(&s.what)) {
    differentiate_elementwise(derivation, s, *e, d);
  } else if (const auto* call = std::get_if<Call>(&s.what)) {
    differentiate_call(derivation, s, *call, d);
  }
}

std::vector<TensorId> generated(Derivation& derivation, TensorId output,
                                const std::vector<TensorId>& inputs, size_t statements) {
  derivation.contribute(derivation.moved(output), derivation.seed());
  // Rules append statements; the forward ones are copied out while they run.
  for (size_t i = statements; i-- > 0;) {
    Statement s = derivation.program.statements[i];
    if (!derivation.active(s.result)) continue;
    TensorId d = derivation.adjoint(s.result, s.span);
    checkpoint_at(s.span);
    if (d.valid()) differentiate_statement(derivation, s, d);
  }
  std::vector<TensorId> gradients;
  for (TensorId input : inputs) {
    TensorId d = derivation.adjoint(input, derivation.tensor(input).span);
    gradients.push_back(d.valid() ? d : zeros(derivation, input));
  }
  return gradients;
}

}  // namespace

bool is_fractional(const Expr& e) {
  if (e.kind() == ExprKind::exact_div) return true;
  for (const Expr& arg : e.args()) {
    if (is_fractional(arg)) return true;
  }
  return false;
}

std::vector<TensorId> differentiable_reads(const Statement& statement) {
  return std::visit(Reads{}, statement.what);
}

bool GradientOptions::skips(std::string_view rule) const {
  return std::find(skip.begin(), skip.end(), rule) != skip.end();
}

Program differentiate(const Program& original, const std::string& of,
                      const std::vector<std::string>& wrt, const GivenGradients& given,
                      const GradientOptions& options) {
  const Program program = with_repeats_written_out(original);
  TensorId output = find_among(program, program.outputs, of, "output");
  std::vector<TensorId> inputs;
  for (const std::string& name : wrt) {
    TensorId input = find_among(program, program.inputs, name, "input");
    if (std::find(inputs.begin(), inputs.end(), input) != inputs.end()) {
      fail(Stage::bind, "name", program.tensors[input].span,
           "input " + name + " is asked for twice");
    }
    if (std::optional<DType> type = program.tensors[input].type) {
      require_gradient(program.tensors[input], *type);
    }
    inputs.push_back(input);
  }
  Program forward = program;
  for (Statement& s : forward.statements) {
    if (auto* c = std::get_if<SymbolicContraction>(&s.what)) write_out_loops(*c);
  }
  Derivation derivation(forward, output, inputs, options);
  auto own = given.find(of);
  std::vector<TensorId> gradients;
  if (own != given.end()) {
    Span span = program.tensors[output].span;
    gradients = append_given_gradient(derivation, *own->second, of, inputs, span);
  } else {
    gradients = generated(derivation, output, inputs, program.statements.size());
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    derivation.program.outputs.push_back(derivation.named_result(gradients[i], inputs[i]));
    derivation.program.output_spans.push_back(derivation.tensor(inputs[i]).span);
  }
  derivation.drop_unused();
  return std::move(derivation.program);
}

}  // namespace tile
