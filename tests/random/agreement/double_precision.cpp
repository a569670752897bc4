#include "tests/random/agreement/double_precision.h"

#include "tests/random/random_source.h"

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

Program with_moved_results(Program program, const std::set<std::string>& real_results, double by,
                           uint64_t seed) {
  RandomSource random(seed);
  for (Statement& s : program.statements) {
    double factor = 1 + by * (2 * random.unit() - 1);
    if (!real_results.contains(program.tensors[static_cast<size_t>(s.result)].name)) continue;
    auto* c = std::get_if<SymbolicContraction>(&s.what);
    auto* e = std::get_if<Elementwise>(&s.what);
    if (c == nullptr && e == nullptr) continue;
    Body& body = c != nullptr ? c->body : e->body;
    for (NodeId& result : body.results) {
      DType type = body[result].type;  // none before types are inferred
      result = body.operation(Op::mul, {result, body.real(factor, type)}, type);
    }
  }
  return program;
}

}  // namespace tile::test
