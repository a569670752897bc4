#include "core/autodiff/given_gradient.h"

#include <algorithm>
#include <map>

#include "core/autodiff/differentiate.h"
#include "core/ir/repeat.h"

namespace tile {
namespace {

// Copies statements of one program to the end of another. Positions in the one's text mean nothing
// in the other's, so that every copy stands at `span`.
class Splice {
 public:
  Splice(Derivation& derivation, const Program& from, Span span)
      : derivation_(derivation), from_(from), span_(span), to_(from.tensors.size()) {}

  void bind_input(TensorId input, TensorId target) {
    to_[input] = target;
    const Tensor& declared = from_.tensors[input];
    for (size_t d = 0; d < declared.dims.size(); ++d) {
      if (declared.dims[d].kind() != ExprKind::variable) continue;
      dimensions_.emplace(declared.dims[d].name(), derivation_.extent(target, d));
    }
  }
  void append(const Statement& s) {
    TensorId made = std::visit(
        [&](auto what) {
          translate(what);
          return derivation_.add(from_.tensors[s.result].name, span_, std::move(what));
        },
        s.what);
    to_[s.result] = made;
  }
  TensorId moved(TensorId id) const { return to_[id]; }

 private:
  void translate(TensorId& id) const { id = moved(id); }
  // Dimensions are the bound inputs' extents, "T.axis" follows T's new name.
  void translate(Expr& e) const {
    std::map<std::string, Expr> replacement = dimensions_;
    std::vector<std::string> variables;
    collect_variables(e, variables);
    for (const std::string& variable : variables) {
      size_t dot = variable.find('.');
      if (dot == std::string::npos) continue;
      std::optional<TensorId> id = from_.find(variable.substr(0, dot));
      if (!id) continue;
      size_t axis = std::stoul(variable.substr(dot + 1));
      replacement.insert_or_assign(variable, derivation_.extent(moved(*id), axis));
    }
    e = substitute(e, replacement);
  }
  void translate(Body& body) const {
    change_nodes(body, [&](Node& n) {
      n.span = span_;
      if (n.kind == NodeKind::size) translate(n.expr);
    });
  }
  void translate(SymbolicContraction& c) const {
    for (Expr& e : c.out_index) translate(e);
    for (Expr& e : c.out_size) translate(e);
    for (SymbolicAccess& a : c.accesses) {
      translate(a.tensor);
      for (Expr& e : a.index) translate(e);
      a.span = span_;
    }
    for (SymbolicConstraint& k : c.constraints) {
      translate(k.form);
      translate(k.bound);
      k.span = span_;
    }
    if (c.default_tensor) translate(*c.default_tensor);
    c.default_span = c.out_span = span_;
    translate(c.body);
  }
  void translate(Elementwise& e) const {
    for (TensorId& id : e.operands) translate(id);
    translate(e.body);
  }
  void translate(Literal&) const {}
  void translate(Repeat&) const { throw InternalError("a repeat that is not written out"); }
  void translate(Call& c) const {
    for (TensorId& id : c.tensors) translate(id);
    for (Expr& e : c.sizes) translate(e);
    c.spans.assign(c.spans.size(), span_);
  }

  Derivation& derivation_;
  const Program& from_;
  Span span_;
  IdVector<TensorId, TensorId> to_;
  std::map<std::string, Expr> dimensions_;
};

std::optional<TensorId> named(const Program& program, const std::vector<TensorId>& ids,
                              const std::string& name) {
  auto found = std::find_if(ids.begin(), ids.end(),
                            [&](TensorId id) { return program.tensors[id].name == name; });
  return found == ids.end() ? std::nullopt : std::optional<TensorId>(*found);
}

[[noreturn]] void unfit(const std::string& message, const std::string& of) {
  fail(Stage::bind, "gradient", {}, "the gradient given for " + of + " " + message);
}

}  // namespace

void check_given_gradient(const Program& program, const std::string& of, const Program& given) {
  if (!named(program, program.outputs, of)) {
    fail(Stage::bind, "name", {}, "\"" + of + "\" is not an output of this program");
  }
  for (TensorId id : given.inputs) {
    const std::string& name = given.tensors[id].name;
    if (name == "D" + of || named(program, program.inputs, name)) continue;
    if (named(program, program.outputs, name)) continue;
    unfit(
        "has the input " + name + ", which is neither an input or output of the program nor D" + of,
        of);
  }
  for (TensorId id : given.outputs) {
    const std::string& name = given.tensors[id].name;
    bool fits = name.starts_with("D") && named(program, program.inputs, name.substr(1));
    if (!fits) unfit("has the output " + name + ", which is not D and the name of an input", of);
  }
}

std::vector<TensorId> append_given_gradient(Derivation& derivation, const Program& original,
                                            const std::string& of,
                                            const std::vector<TensorId>& inputs, Span span) {
  const Program given = with_repeats_written_out(original);
  Splice splice(derivation, given, span);
  const Program& program = derivation.program;
  for (TensorId id : given.inputs) {
    const std::string& name = given.tensors[id].name;
    bool seed = name == "D" + of && !named(program, program.outputs, name);
    // Any tensor: the program may have been asked for other outputs since the gradient was given.
    splice.bind_input(id, seed ? derivation.seed() : program.find(name).value());
  }
  for (const Statement& s : given.statements) splice.append(s);
  std::vector<TensorId> gradients;
  for (TensorId input : inputs) {
    const std::string& name = derivation.tensor(input).name;
    std::optional<TensorId> made = named(given, given.outputs, "D" + name);
    if (!made) unfit("does not compute D" + name, of);
    gradients.push_back(splice.moved(*made));
  }
  return gradients;
}

}  // namespace tile
