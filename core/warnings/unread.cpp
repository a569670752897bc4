#include <algorithm>
#include <set>
#include <string_view>

#include "core/warnings/checks.h"

namespace tile::warnings {
namespace {

// What the statements of a program use: tensors whose elements they read, and names in sizes and
// indices (dimensions, and "T.axis" for an extent of T).
struct Uses {
  std::set<TensorId> read;
  std::set<std::string> names;

  void add(const Expr& e) {
    std::vector<std::string> variables;
    collect_variables(e, variables);
    names.insert(variables.begin(), variables.end());
  }
  void add(const std::vector<Expr>& list) {
    for (const Expr& e : list) add(e);
  }
  void add(const Body& body) {
    visit_nodes(body, [&](const Node& n) {
      if (n.kind == NodeKind::size) add(n.expr);
    });
  }
  void operator()(const SymbolicContraction& c) {
    add(c.out_index);
    add(c.out_size);
    add(c.body);
    for (const SymbolicAccess& a : c.accesses) {
      read.insert(a.tensor);
      add(a.index);
    }
    for (const SymbolicConstraint& k : c.constraints) {
      add(k.form);
      add(k.bound);
    }
    if (c.default_tensor) read.insert(*c.default_tensor);
  }
  void operator()(const Elementwise& e) {
    read.insert(e.operands.begin(), e.operands.end());
    add(e.body);
  }
  void operator()(const Call& call) {
    read.insert(call.tensors.begin(), call.tensors.end());
    add(call.sizes);
  }
  void operator()(const Literal&) {}
  // Tensors of the step are others than those around it, sizes are the same.
  void operator()(const Repeat& repeat) {
    read.insert(repeat.operands.begin(), repeat.operands.end());
    Uses step;
    for (const Statement& s : repeat.step->statements) std::visit(step, s.what);
    names.merge(step.names);
  }
};

// What is used whatever the statements are.
Uses uses_of_outputs(const Program& program) {
  Uses uses;
  for (const SizeCheck& check : program.checks) {
    uses.add(check.left);
    uses.add(check.right);
  }
  for (const SizeDefinition& size : program.sizes) uses.add(size.value);
  uses.read.insert(program.outputs.begin(), program.outputs.end());
  return uses;
}

Uses uses_of(const Program& program) {
  Uses uses = uses_of_outputs(program);
  for (const Statement& s : program.statements) std::visit(uses, s.what);
  return uses;
}

// Dimensions that inputs which are read declare as well.
std::set<std::string> sizes_of_read_inputs(const Program& program, const Uses& uses) {
  std::set<std::string> names;
  for (TensorId id : program.inputs) {
    if (!uses.read.contains(id)) continue;
    for (const Expr& dim : program.tensors[id].dims) {
      if (dim.kind() == ExprKind::variable) names.insert(dim.name());
    }
  }
  return names;
}

}  // namespace

// An input may be there for its shape alone: then a size of it is used that no input that is read
// has.
void check_unread_inputs(const Program& program, Warnings& list) {
  Uses uses = uses_of(program);
  std::set<std::string> others = sizes_of_read_inputs(program, uses);
  for (TensorId id : program.inputs) {
    const Tensor& t = program.tensors[id];
    if (uses.read.contains(id) || uses.names.contains(t.name)) continue;
    bool gives_size = std::any_of(uses.names.begin(), uses.names.end(), [&](const std::string& n) {
      return n.starts_with(t.name + ".");
    });
    for (const Expr& dim : t.dims) {
      gives_size = gives_size || (dim.kind() == ExprKind::variable &&
                                  uses.names.contains(dim.name()) && !others.contains(dim.name()));
    }
    if (gives_size) continue;
    warn(list, Stage::parse, "unread", t.span, "nothing reads the input " + t.name,
         "take it out of the inputs, or use it");
  }
}

namespace {

// Whether the author of the text gave the statement its name: languages make statements of their
// own, for parts of what is written. A table's elements may have gone into what reads them.
bool is_written(const Program& program, const Statement& s) {
  if (std::holds_alternative<Literal>(s.what)) return false;
  if (!program.source || s.span.end > program.source->text.size()) return false;
  std::string_view text = program.source->text;
  text = text.substr(s.span.begin, s.span.end - s.span.begin);
  return text.find(program.tensors[s.result].name) != std::string_view::npos;
}

// Tensors that the outputs are computed from, and those whose extents sizes speak of.
class Needed {
 public:
  explicit Needed(const Program& program) : program_(program), uses_(uses_of_outputs(program)) {}
  bool operator()(const Statement& s) const {
    const std::string& name = program_.tensors[s.result].name;
    return uses_.read.contains(s.result) ||
           std::any_of(uses_.names.begin(), uses_.names.end(), [&](const std::string& n) {
             return n == name || n.starts_with(name + ".");
           });
  }
  void add(const Statement& s) { std::visit(uses_, s.what); }

 private:
  const Program& program_;
  Uses uses_;
};

}  // namespace

void check_unneeded_statements(const Program& program, Warnings& list) {
  Needed needed(program);
  for (size_t i = program.statements.size(); i-- > 0;) {
    const Statement& s = program.statements[i];
    if (needed(s)) {
      needed.add(s);
    } else if (is_written(program, s)) {
      const std::string& name = program.tensors[s.result].name;
      warn(list, Stage::parse, "unread", s.span, "no output needs " + name,
           "take the statement out, or make " + name + " an output");
    }
  }
}

}  // namespace tile::warnings
