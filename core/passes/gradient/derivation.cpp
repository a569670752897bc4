#include "core/passes/gradient/derivation.h"

#include <algorithm>

namespace tile {
namespace {

// The forward program's ids after an input was put behind its inputs.
class Renumbering {
 public:
  explicit Renumbering(size_t inputs) : inputs_(static_cast<TensorId>(inputs)) {}
  TensorId operator()(TensorId id) const { return id < inputs_ ? id : id + 1; }
  void apply(std::vector<TensorId>& ids) const {
    for (TensorId& id : ids) id = (*this)(id);
  }
  void apply(Statement& s) const {
    s.result = (*this)(s.result);
    if (auto* c = std::get_if<SymbolicContraction>(&s.what)) {
      for (SymbolicAccess& a : c->accesses) a.tensor = (*this)(a.tensor);
      if (c->default_tensor) c->default_tensor = (*this)(*c->default_tensor);
    } else if (auto* e = std::get_if<Elementwise>(&s.what)) {
      apply(e->operands);
    } else if (auto* k = std::get_if<Call>(&s.what)) {
      apply(k->tensors);
    }
  }

 private:
  TensorId inputs_;
};

void add_names(const Tensor& t, std::set<std::string>& names) {
  names.insert(t.name);
  for (const Expr& dim : t.dims) {
    if (dim.kind() == ExprKind::variable) names.insert(dim.name());
  }
}

}  // namespace

Derivation::Derivation(const Program& forward, TensorId of, const std::vector<TensorId>& wrt)
    : program(forward), forward_inputs_(forward.inputs.size()) {
  for (const Tensor& t : forward.tensors) add_names(t, names_);
  Renumbering renumber(forward_inputs_);
  for (Statement& s : program.statements) renumber.apply(s);
  renumber.apply(program.outputs);
  Tensor seed;
  seed.name = fresh("D" + forward.tensors[static_cast<size_t>(of)].name);
  seed.span = forward.tensors[static_cast<size_t>(of)].span;
  seed_ = static_cast<TensorId>(forward_inputs_);
  program.tensors.insert(program.tensors.begin() + seed_, seed);
  program.inputs.push_back(seed_);
  contributions_.resize(program.tensors.size());
  find_active(wrt);
}

TensorId Derivation::moved(TensorId forward) const { return Renumbering(forward_inputs_)(forward); }

void Derivation::find_active(const std::vector<TensorId>& wrt) {
  active_.insert(wrt.begin(), wrt.end());
  for (const Statement& s : program.statements) {
    for (TensorId id : differentiable_reads(s)) {
      if (active_.contains(id)) active_.insert(s.result);
    }
  }
}

std::string Derivation::fresh(const std::string& name) {
  std::string candidate = name;
  for (int n = 1; !names_.insert(candidate).second; ++n) {
    candidate = name + "_" + std::to_string(n);
  }
  return candidate;
}

TensorId Derivation::add(const std::string& name, Span span,
                         std::variant<SymbolicContraction, Elementwise, Call> what) {
  Tensor t;
  t.name = fresh(name);
  t.span = span;
  auto id = static_cast<TensorId>(program.tensors.size());
  program.tensors.push_back(t);
  contributions_.emplace_back();
  Statement s;
  s.result = id;
  s.span = span;
  s.what = std::move(what);
  program.statements.push_back(std::move(s));
  return id;
}

Expr Derivation::extent(TensorId id, size_t axis) const {
  const Tensor& t = tensor(id);
  if (t.ranked && axis < t.dims.size()) return t.dims[axis];
  for (const Statement& s : program.statements) {
    if (s.result != id) continue;
    const auto* c = std::get_if<SymbolicContraction>(&s.what);
    if (c != nullptr && axis < c->out_size.size()) return c->out_size[axis];
  }
  return Expr::variable(t.name + "." + std::to_string(axis));
}

TensorId Derivation::elementwise(const std::string& name, Span span, std::vector<TensorId> operands,
                                 Body body) {
  // Operands that the body does not read would still broadcast.
  std::vector<int> slot(operands.size(), -1);
  Elementwise e;
  for (Node& n : body.nodes) {
    if (n.kind != NodeKind::load) continue;
    int& to = slot[static_cast<size_t>(n.slot)];
    if (to < 0) {
      to = static_cast<int>(e.operands.size());
      e.operands.push_back(operands[static_cast<size_t>(n.slot)]);
    }
    n.slot = to;
  }
  e.body = std::move(body);
  return add(name, span, std::move(e));
}

TensorId Derivation::call(const std::string& name, Span span, Function function,
                          std::vector<TensorId> tensors, std::vector<Expr> sizes) {
  Call c;
  c.function = function;
  c.spans.assign(tensors.size() + sizes.size(), span);
  c.tensors = std::move(tensors);
  c.sizes = std::move(sizes);
  return add(name, span, std::move(c));
}

void Derivation::contribute(TensorId id, TensorId adjoint) {
  contributions_[static_cast<size_t>(id)].push_back(adjoint);
}

TensorId Derivation::adjoint(TensorId id, Span span) {
  std::vector<TensorId>& parts = contributions_[static_cast<size_t>(id)];
  if (parts.empty()) return -1;
  if (parts.size() > 1) {
    // The sum takes the plain name; nothing but the sum refers to the parts.
    for (TensorId part : parts) {
      Tensor& t = program.tensors[static_cast<size_t>(part)];
      if (t.name == adjoint_name(id)) {
        t.name = fresh(t.name);
        names_.erase(adjoint_name(id));
      }
    }
    Body body;
    NodeId sum = body.load(0);
    for (size_t i = 1; i < parts.size(); ++i) {
      NodeId part = body.load(static_cast<int>(i));
      sum = body.operation(Op::add, {sum, part});
    }
    body.results = {sum};
    parts = {elementwise(adjoint_name(id), span, std::vector<TensorId>(parts), std::move(body))};
  }
  return parts[0];
}

}  // namespace tile
