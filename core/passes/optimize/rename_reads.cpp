#include "core/passes/optimize/rename_reads.h"

namespace tile {

void rename_reads(BoundStatement& statement, const Renaming& to) {
  auto renamed = [&](TensorId& id) {
    auto it = to.find(id);
    if (it != to.end()) id = it->second;
  };
  if (Contraction* c = std::get_if<Contraction>(&statement)) {
    if (c->fill) renamed(*c->fill);
    for (Piece& piece : c->pieces) {
      for (Access& a : piece.loads) renamed(a.tensor);
    }
  } else if (Sort* s = std::get_if<Sort>(&statement)) {
    renamed(s->source);
  } else if (Scatter* s2 = std::get_if<Scatter>(&statement)) {
    renamed(s2->updates);
    renamed(s2->indices);
  } else if (BoundRepeat* r = std::get_if<BoundRepeat>(&statement)) {
    for (TensorId& id : r->operands) renamed(id);
  }
}

void rename_views(BoundProgram& program, const Renaming& to) {
  // What stands in may be a view itself, and views are of tensors that are none.
  auto renamed = [&](TensorId id) {
    for (;;) {
      auto it = to.find(id);
      const std::optional<TensorId>& source = program.tensors[id].view_of;
      if (it == to.end() && !source) return id;
      id = it != to.end() ? it->second : *source;
    }
  };
  for (TensorId id : program.tensors.ids()) {
    const std::optional<TensorId>& source = program.tensors[id].view_of;
    if (source) program.tensors.edit(id).view_of = renamed(*source);
  }
}

}  // namespace tile
