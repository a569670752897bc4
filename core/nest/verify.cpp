#include <set>

#include "core/ir/text.h"
#include "core/nest/nest.h"

namespace tile::nest {
namespace {

class Verifier {
 public:
  explicit Verifier(const Nest& nest) : nest_(nest) {}

  void run() {
    for (const Buffer& b : nest_.buffers) {
      internal_check(b.shape.size() == b.strides.size(), "nest: strides of another rank");
      internal_check(b.type != DType::none, "nest: a buffer without a type");
    }
    for (size_t i = nest_.argument_count(); i < nest_.buffers.size(); ++i) {
      internal_check(nest_.buffers[i].scope != Scope::argument, "nest: arguments come first");
    }
    for (const Parameter& p : nest_.parameters) scope_.insert(p.name);
    block(nest_.body, 0);
  }

 private:
  const Buffer& buffer(int id) const {
    internal_check(id >= 0 && static_cast<size_t>(id) < nest_.buffers.size(),
                   "nest: no such buffer");
    return nest_.buffers[static_cast<size_t>(id)];
  }
  void expression(const Expr& e) const {
    std::vector<std::string> used;
    collect_variables(e, used);
    for (const std::string& name : used) {
      internal_check(scope_.contains(name), "nest: a variable outside its loop");
    }
  }
  void access(const Access& a, const Body& body) const {
    internal_check(a.index.size() == buffer(a.buffer).shape.size(), "nest: an access's rank");
    for (size_t d = 0; d < a.index.size(); ++d) {
      NodeId value = d < a.values.size() ? a.values[d] : -1;
      if (value < 0) {
        expression(a.index[d]);
      } else {
        internal_check(
            static_cast<size_t>(value) < body.nodes.size() && is_integer(body[value].type),
            "nest: an index value is no integer node");
      }
    }
  }
  void body_of(const Body& body, const std::vector<Access>& loads) const {
    verify_body(body, loads.size(), 0, true);
    for (const Access& a : loads) access(a, body);
    for (const Node& node : body.nodes) {
      if (node.kind == NodeKind::size) expression(node.expr);
      if (node.kind == NodeKind::load) {
        const Access& a = loads[static_cast<size_t>(node.slot)];
        internal_check(node.type == buffer(a.buffer).type, "nest: a load of another type");
      }
    }
  }

  void block(const Block& statements, int depth) {
    for (const Statement& s : statements) {
      std::visit([&](const auto& what) { statement(what, depth); }, s.what);
    }
  }
  void statement(const For& f, int depth) {
    internal_check(!scope_.contains(f.variable), "nest: a loop variable hides another");
    expression(f.begin);
    expression(f.extent);
    internal_check(f.kind != LoopKind::parallel || depth == 0, "nest: a parallel loop inside");
    internal_check(f.kind != LoopKind::unrolled || f.extent.is_constant(),
                   "nest: an unrolled loop of unknown extent");
    internal_check(f.kind != LoopKind::vector || (f.width >= 1 && !in_vector_),
                   "nest: a vector loop inside another or without width");
    bool outer = in_vector_;
    in_vector_ = in_vector_ || f.kind == LoopKind::vector;
    scope_.insert(f.variable);
    block(f.body, depth + 1);
    scope_.erase(f.variable);
    in_vector_ = outer;
  }
  void statement(const If& i, int depth) {
    for (const Expr& e : i.nonnegative) expression(e);
    if (!i.predicate.results.empty()) body_of(i.predicate, i.loads);
    block(i.then, depth + 1);
    block(i.otherwise, depth + 1);
  }
  void statement(const Store& s, int) {
    body_of(s.body, s.loads);
    access(s.target, s.body);
    const Buffer& b = buffer(s.target.buffer);
    internal_check(b.scope != Scope::argument || b.written,
                   "nest: a store to a read-only argument");
    internal_check(s.body.results.size() == (s.kind == StoreKind::fma ? 2U : 1U),
                   "nest: a store's results");
    for (NodeId r : s.body.results) {
      internal_check(s.body[r].type == b.type, "nest: a stored value of another type");
    }
  }
  void statement(const Alloc& a, int) {
    internal_check(buffer(a.buffer).scope != Scope::argument, "nest: an allocated argument");
  }

  const Nest& nest_;
  std::set<std::string, std::less<>> scope_;
  bool in_vector_ = false;
};

}  // namespace

void verify(const Nest& nest) { Verifier(nest).run(); }

}  // namespace tile::nest
