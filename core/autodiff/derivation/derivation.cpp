#include "core/autodiff/derivation/derivation.h"

#include <algorithm>

#include "core/autodiff/derivation/shift_invariance.h"
#include "core/ir/same_body.h"

namespace tile {
namespace {

// New ids for a program's tensors.
class Renumbering {
 public:
  explicit Renumbering(IdVector<TensorId, TensorId> to) : to_(std::move(to)) {}
  void apply(TensorId& id) const { id = to_[id]; }
  void apply(std::vector<TensorId>& ids) const {
    for (TensorId& id : ids) apply(id);
  }
  void apply(Statement& s) const {
    apply(s.result);
    if (auto* c = std::get_if<SymbolicContraction>(&s.what)) {
      for (SymbolicAccess& a : c->accesses) apply(a.tensor);
      if (c->default_tensor) apply(*c->default_tensor);
    } else if (auto* e = std::get_if<Elementwise>(&s.what)) {
      apply(e->operands);
    } else if (auto* k = std::get_if<Call>(&s.what)) {
      apply(k->tensors);
    }
  }
  void apply(Program& program) const {
    for (Tensor& t : program.tensors) {
      if (t.seed_of) apply(*t.seed_of);
    }
    for (Statement& s : program.statements) apply(s);
    apply(program.inputs);
    apply(program.outputs);
  }

 private:
  IdVector<TensorId, TensorId> to_;
};

// The tensors that "T.axis" names in expressions.
void add_measured(const std::vector<Expr>& list, const Program& program,
                  std::vector<TensorId>& ids) {
  std::vector<std::string> variables;
  for (const Expr& e : list) collect_variables(e, variables);
  for (const std::string& variable : variables) {
    size_t dot = variable.find('.');
    if (dot == std::string::npos) continue;
    if (std::optional<TensorId> id = program.find(variable.substr(0, dot))) ids.push_back(*id);
  }
}

// The tensors whose elements or sizes a statement uses.
std::vector<TensorId> uses(const Statement& s, const Program& program) {
  std::vector<TensorId> ids;
  auto measure_sizes = [&](const Body& body) {
    visit_nodes(body, [&](const Node& n) {
      if (n.kind == NodeKind::size) add_measured({n.expr}, program, ids);
    });
  };
  if (const auto* c = std::get_if<SymbolicContraction>(&s.what)) {
    for (const SymbolicAccess& a : c->accesses) {
      ids.push_back(a.tensor);
      add_measured(a.index, program, ids);
    }
    if (c->default_tensor) ids.push_back(*c->default_tensor);
    add_measured(c->out_size, program, ids);
    add_measured(c->out_index, program, ids);
    for (const SymbolicConstraint& k : c->constraints)
      add_measured({k.form, k.bound}, program, ids);
    measure_sizes(c->body);
  } else if (const auto* e = std::get_if<Elementwise>(&s.what)) {
    ids = e->operands;
    measure_sizes(e->body);
  } else if (const auto* call = std::get_if<Call>(&s.what)) {
    ids = call->tensors;
    add_measured(call->sizes, program, ids);
  }
  return ids;
}

void add_names(const Tensor& t, std::set<std::string>& names) {
  names.insert(t.name);
  for (const Expr& dim : t.dims) {
    if (dim.kind() == ExprKind::variable) names.insert(dim.name());
  }
}

bool converts_floats(const Program& program) {
  bool found = false;
  auto visit = [&](const Body& body) {
    visit_nodes(body, [&](const Node& n) {
      found = found || (n.kind == NodeKind::operation && n.op == Op::cast && is_float(n.type));
    });
  };
  for (const Statement& s : program.statements) {
    if (const auto* c = std::get_if<SymbolicContraction>(&s.what)) visit(c->body);
    if (const auto* e = std::get_if<Elementwise>(&s.what)) visit(e->body);
  }
  return found;
}

}  // namespace

std::string suffixed(const std::string& name, const std::string& suffix) {
  size_t end = name.find_last_not_of('\'') + 1;
  return name.substr(0, end) + suffix + name.substr(end);
}

Derivation::Derivation(const Program& forward, TensorId of, const std::vector<TensorId>& wrt,
                       const GradientOptions& options)
    : program(forward),
      forward_inputs_(forward.inputs.size()),
      forward_statements_(forward.statements.size()),
      keeps_conditions_(!options.skips("conditions")),
      drops_zero_sums_(!options.skips("means")),
      converts_floats_(converts_floats(forward)) {
  for (const Tensor& t : forward.tensors) add_names(t, names_);
  for (TensorId id : wrt) program.tensors[id].differentiated = true;
  IdVector<TensorId, TensorId> to;
  for (TensorId id : program.tensors.ids()) to.push_back(moved(id));
  Renumbering(std::move(to)).apply(program);
  add_seed(of);
  find_shapes(moved(of));
  find_active(moved(of), wrt, !options.skips("shifts"));
}

void Derivation::add_seed(TensorId of) {
  // `of` is an id of the forward program, as the tensors still are.
  const Tensor& output = program.tensors[of];
  Tensor seed;
  seed.name = fresh("D" + output.name);
  seed.span = output.span;
  seed.seed_of = moved(of);
  seed_ = TensorId(forward_inputs_);
  program.tensors.insert(program.tensors.begin() + seed_.number(), seed);
  program.inputs.push_back(seed_);
  contributions_.resize(program.tensors.size());
}

// The seed has the output's shape, declared where a declaration can say it.
void Derivation::find_shapes(TensorId of) {
  shapes_.resize(program.tensors.size());
  std::set<std::string> dimensions;
  for (TensorId id : program.inputs) {
    shapes_[id] = shape_of_input(tensor(id), id);
    for (const Expr& e : tensor(id).dims) {
      if (e.kind() == ExprKind::variable) dimensions.insert(e.name());
    }
  }
  for (const Statement& s : program.statements) {
    shapes_[s.result] = shape_of_result(s, shapes_);
  }
  const SymbolicShape& shape = shapes_[of];
  shapes_[seed_] = shape;
  auto declarable = [&](const std::optional<Expr>& e) {
    return e && (e->is_constant() ||
                 (e->kind() == ExprKind::variable && dimensions.contains(e->name())));
  };
  if (!shape.ranked || !std::all_of(shape.dims.begin(), shape.dims.end(), declarable)) return;
  Tensor& seed = program.tensors[seed_];
  seed.ranked = true;
  for (const std::optional<Expr>& e : shape.dims) seed.dims.push_back(*e);
  seed.dim_spans.assign(seed.dims.size(), seed.span);
}

// The seed stands behind the forward program's inputs.
TensorId Derivation::moved(TensorId forward) const {
  return forward < TensorId(forward_inputs_) ? forward : TensorId(forward.number() + 1);
}

void Derivation::find_active(TensorId of, const std::vector<TensorId>& wrt, bool drops_shifts) {
  ShiftInvariance invariance(program, of, shapes_);
  active_.insert(wrt.begin(), wrt.end());
  for (const Statement& s : program.statements) {
    std::vector<TensorId> reads = differentiable_reads(s);
    bool any = std::any_of(reads.begin(), reads.end(), [&](TensorId id) { return active(id); });
    if (any && !(drops_shifts && invariance.holds(s.result))) active_.insert(s.result);
  }
}

std::string Derivation::fresh(const std::string& name) {
  std::string candidate = name;
  int& last = last_number_[name];
  while (!names_.insert(candidate).second) {
    candidate = suffixed(name, "_" + std::to_string(++last));
  }
  return candidate;
}

bool Derivation::affords(size_t cases) {
  // Of one derivation: each case is a statement, which is differentiated in its turn. Filters have
  // up to some hundred; patterns of pads over pads, differentiated twice, would have 100,000.
  constexpr size_t kMostCases = 256;
  // So few cost no more than what stands for them otherwise.
  constexpr size_t kFewCases = 3;
  if (cases > kFewCases && cases_ + cases > kMostCases) return false;
  cases_ += cases;
  return true;
}

TensorId Derivation::add(const std::string& name, Span span, StatementKind what) {
  Tensor t;
  t.name = fresh(name);
  t.span = span;
  TensorId id = program.tensors.add(t);
  asked_names_[id] = name;
  contributions_.emplace_back();
  Statement s;
  s.result = id;
  s.span = span;
  s.what = std::move(what);
  shapes_.push_back(shape_of_result(s, shapes_));
  program.statements.push_back(std::move(s));
  return id;
}

TensorId Derivation::add_value(const std::string& name, Span span, StatementKind what) {
  TensorId id = add(name, span, std::move(what));
  std::vector<TensorId> reads = differentiable_reads(program.statements.back());
  bool any = std::any_of(reads.begin(), reads.end(), [&](TensorId read) { return active(read); });
  if (any) active_.insert(id);
  return id;
}

Expr Derivation::extent(TensorId id, size_t axis) const {
  const SymbolicShape& shape = shapes_[id];
  if (axis < shape.dims.size() && shape.dims[axis]) return *shape.dims[axis];
  return Expr::variable(tensor(id).name + "." + std::to_string(axis));
}

TensorId Derivation::elementwise(const std::string& name, Span span, std::vector<TensorId> operands,
                                 Body body) {
  // Operands that the body does not read would still broadcast.
  std::vector<int> slot(operands.size(), -1);
  Elementwise e;
  for (Node& n : body.nodes) {
    if (n.kind != NodeKind::load) continue;
    int& to = slot[n.slot];
    if (to < 0) {
      to = static_cast<int>(e.operands.size());
      e.operands.push_back(operands[n.slot]);
    }
    n.slot = to;
  }
  e.body = std::move(body);
  for (size_t i = forward_statements_; i < program.statements.size(); ++i) {
    const auto* made = std::get_if<Elementwise>(&program.statements[i].what);
    bool same = made != nullptr && made->operands == e.operands && same_body(made->body, e.body);
    if (same) return program.statements[i].result;
  }
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

TensorId Derivation::named_result(TensorId adjoint, TensorId input) {
  const std::vector<TensorId>& outputs = program.outputs;
  bool taken =
      adjoint == seed_ || std::find(outputs.begin(), outputs.end(), adjoint) != outputs.end();
  if (taken) {
    Body body;
    body.results = {body.load(0)};
    Elementwise copy;
    copy.operands = {adjoint};
    copy.body = std::move(body);
    return add(adjoint_name(input), tensor(input).span, std::move(copy));
  }
  if (asked_names_[adjoint] != adjoint_name(input)) {
    // The old name may be that of another input's gradient, which is still to come.
    names_.erase(tensor(adjoint).name);
    program.tensors[adjoint].name = fresh(adjoint_name(input));
  }
  return adjoint;
}

void Derivation::drop_unused() {
  size_t count = program.tensors.size();
  IdVector<TensorId, bool> needed(count, false);
  for (TensorId id : program.outputs) needed[id] = true;
  for (size_t i = program.statements.size(); i-- > 0;) {
    const Statement& s = program.statements[i];
    // The user's own statements stay, also those that no output needs.
    if (i >= forward_statements_ && !needed[s.result]) continue;
    needed[s.result] = true;
    for (TensorId id : uses(s, program)) needed[id] = true;
  }
  for (TensorId id : program.inputs) needed[id] = true;
  IdVector<TensorId, TensorId> to(count);
  IdVector<TensorId, Tensor> tensors;
  for (TensorId id : to.ids()) {
    if (needed[id]) to[id] = tensors.add(program.tensors[id]);
  }
  std::erase_if(program.statements, [&](const Statement& s) { return !needed[s.result]; });
  program.tensors = std::move(tensors);
  Renumbering(std::move(to)).apply(program);
}

}  // namespace tile
