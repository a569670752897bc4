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
    if (auto* r = std::get_if<Repeat>(&s.what)) {
      r->step = std::make_shared<const Program>(in_double(*r->step));
    }
  }
  return program;
}

namespace {

// 1 + `by` times a number of [-1, 1] that differs from point to point: terms that cancel in a sum
// are moved apart.
NodeId factor_of_point(Body& body, NodeId moved, int indices, double by, RandomSource& random) {
  NodeId phase = body.integer(random.in(0, 1000));
  for (int i = 0; i < indices; ++i) {
    NodeId scaled = body.operation(Op::mul, {body.index(i), body.integer(random.in(1, 1000))});
    phase = body.operation(Op::add, {phase, scaled});
  }
  NodeId noise = body.operation(Op::mul, {body.operation(Op::cos, {phase}), body.real(by)});
  NodeId factor = body.operation(Op::add, {noise, body.real(1)});
  return body.operation(Op::cast_like, {factor, moved});
}

void move_results(SymbolicContraction& c, double by, RandomSource& random) {
  for (NodeId& result : c.body.results) {
    DType type = c.body[result].type;
    NodeId factor =
        c.typed ? c.body.real(1 + by * (2 * random.unit() - 1), type)
                : factor_of_point(c.body, result, static_cast<int>(c.indices.size()), by, random);
    result = c.body.operation(Op::mul, {result, factor}, type);
  }
}

}  // namespace

Program with_moved_results(Program program, const std::set<std::string>& real_results, double by,
                           uint64_t seed) {
  RandomSource random(seed);
  for (Statement& s : program.statements) {
    if (!real_results.contains(program.tensors[s.result].name)) continue;
    if (auto* c = std::get_if<SymbolicContraction>(&s.what)) move_results(*c, by, random);
    if (auto* r = std::get_if<Repeat>(&s.what)) {
      std::set<std::string> all;  // of a step with a real state
      for (const Statement& inner : r->step->statements) {
        all.insert(r->step->tensors[inner.result].name);
      }
      r->step = std::make_shared<const Program>(with_moved_results(*r->step, all, by, seed + 1));
    }
    auto* e = std::get_if<Elementwise>(&s.what);
    if (e == nullptr) continue;
    double factor = 1 + by * (2 * random.unit() - 1);
    for (NodeId& result : e->body.results) {
      DType type = e->body[result].type;  // none before types are inferred
      result = e->body.operation(Op::mul, {result, e->body.real(factor, type)}, type);
    }
  }
  return program;
}

}  // namespace tile::test
