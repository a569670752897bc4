#include "tests/random/agreement/double_precision.h"

namespace tile::test {

Program in_double(Program program) {
  auto widen = [](DType& type) {
    if (type == DType::f32) type = DType::f64;
  };
  for (Tensor& t : program.tensors) {
    if (t.type) widen(*t.type);
    if (t.parameter) widen(t.parameter->type);
  }
  for (Statement& s : program.statements) {
    if (auto* c = std::get_if<SymbolicContraction>(&s.what))
      change_nodes(c->body, [&](Node& n) { widen(n.type); });
    if (auto* e = std::get_if<Elementwise>(&s.what))
      change_nodes(e->body, [&](Node& n) { widen(n.type); });
    if (auto* l = std::get_if<Literal>(&s.what)) widen(l->type);
  }
  return program;
}

}  // namespace tile::test
