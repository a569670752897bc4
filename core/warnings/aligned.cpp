// Broadcasting aligns dimensions at the last one (rule 6.1). Of A[N, M] and sums S[N] over its rows
// that is M, which is refused for other sizes than these: where N and M are equal by chance, the
// program computes something else than it does in words.
#include <algorithm>

#include "core/passes/bind/symbolic_shapes.h"
#include "core/warnings/checks.h"

namespace tile::warnings {
namespace {

// Where an operand's last dimension stands in another that has more of them.
struct Alignment {
  const SymbolicShape& shorter;
  const SymbolicShape& longer;

  // It is the size of a dimension, but not of the one that it is aligned with.
  bool is_elsewhere() const {
    if (shorter.empty() || shorter.size() >= longer.size()) return false;
    const Expr &last = shorter.back(), &with = longer.back();
    if (last.is_constant() || with.is_constant() || last == with) return false;
    return std::find(longer.begin(), longer.end() - 1, last) != longer.end() - 1;
  }
};

Span span_of_load(const Elementwise& what, size_t slot, Span otherwise) {
  for (const Node& node : what.body.nodes) {
    bool found = node.kind == NodeKind::load && static_cast<size_t>(node.slot) == slot;
    if (found) return node.span;
  }
  return otherwise;
}

std::string shown(const std::string& name, const SymbolicShape& shape) {
  std::string text = name + "[";
  for (size_t d = 0; d < shape.size(); ++d) text += (d > 0 ? ", " : "") + to_string(shape[d]);
  return text + "]";
}

}  // namespace

void check_aligned(const Program& program, const BoundProgram& bound, Warnings& list) {
  auto elementwise = [](const Statement& s) {
    return std::get_if<Elementwise>(&s.what) != nullptr;
  };
  if (std::none_of(program.statements.begin(), program.statements.end(), elementwise)) return;
  const auto shapes = symbolic_shapes(program);
  auto last_size = [&](TensorId id) -> int64_t {
    for (const BoundTensor& t : bound.tensors) {
      if (t.name == program.tensors[id].name) return t.shape.empty() ? 1 : t.shape.back();
    }
    return 1;
  };
  for (const Statement& s : program.statements) {
    const auto* what = std::get_if<Elementwise>(&s.what);
    for (size_t slot = 0; what != nullptr && slot < what->operands.size(); ++slot) {
      const TensorId a = what->operands[slot];
      for (TensorId b : what->operands) {
        if (!shapes[a] || !shapes[b] || !Alignment{*shapes[a], *shapes[b]}.is_elsewhere()) continue;
        if (last_size(a) == 1) continue;
        warn(list, Stage::bind, "aligned", span_of_load(*what, slot, s.span),
             shown(program.tensors[a].name, *shapes[a]) +
                 " is aligned with the last dimension of " +
                 shown(program.tensors[b].name, *shapes[b]) + ", whose size is the same by chance",
             "shapes are aligned at their last dimensions: a sum over the last one that keeps its "
             "place is S[i, 0: M, 1] = +(A[i, j])");
        break;
      }
    }
  }
}

void check_sizes_of_outputs(const Program& program, const BoundProgram& bound, Warnings& list) {
  auto is_empty = [&](const std::string& name) {
    return std::any_of(bound.tensors.begin(), bound.tensors.end(), [&](const BoundTensor& t) {
      return t.name == name && element_count(t.shape) == 0;
    });
  };
  auto is_given_empty = [&](TensorId id) { return is_empty(program.tensors[id].name); };
  if (std::any_of(program.inputs.begin(), program.inputs.end(), is_given_empty)) return;
  for (const Statement& s : program.statements) {
    const std::string& name = program.tensors[s.result].name;
    bool output = std::find(program.outputs.begin(), program.outputs.end(), s.result) !=
                  program.outputs.end();
    if (!output || !is_empty(name)) continue;
    warn(list, Stage::bind, "empty", s.span, name + " has no elements for these shapes",
         "a size is 0: see what it is made of, such as windows that are longer than the array");
  }
}

}  // namespace tile::warnings
