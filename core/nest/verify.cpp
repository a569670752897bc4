#include <algorithm>
#include <set>
#include <utility>

#include "core/ir/analysis/matrix_types.h"
#include "core/ir/text.h"
#include "core/nest/nest.h"
#include "core/support/checked.h"

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
    for (const Parameter& p : nest_.parameters) {
      scope_.insert(p.name);
      if (!p.from.valid()) continue;
      const Buffer& b = buffer(p.from);
      internal_check(
          b.scope == Scope::argument && !b.written && b.shape.empty() && is_integer(b.type),
          "nest: a parameter from no integer argument");
    }
    for (const Buffer& b : nest_.buffers) {
      if (!b.extent) continue;
      std::vector<std::string> used;
      collect_variables(*b.extent, used);
      bool given = std::all_of(used.begin(), used.end(), [&](const std::string& name) {
        return std::any_of(
            nest_.parameters.begin(), nest_.parameters.end(),
            [&](const Parameter& p) { return p.name == name && !p.from.valid() && p.lo >= 0; });
      });
      internal_check(given && b.scope == Scope::argument && !b.shape.empty(),
                     "nest: an extent that is not of parameters of a launch");
    }
    block(nest_.body);
  }

 private:
  // What surrounds a statement.
  struct Around {
    bool top = true;
    bool grid = false, only_grids = true;
    bool threads = false;
    bool parallel = false, vector = false, ordered = false;
    bool uniform = true;  // all threads come here or none
  };

  const Buffer& buffer(BufferId id) const {
    internal_check(nest_.buffers.contains(id), "nest: no such buffer");
    return nest_.buffers[id];
  }
  void expression(const Expr& e) const {
    std::vector<std::string> used;
    collect_variables(e, used);
    for (const std::string& name : used) {
      internal_check(scope_.contains(name), "nest: a variable outside its loop");
    }
  }
  // `values`: of how many nodes or operands an index value is one.
  void access(const Access& a, size_t values) const {
    internal_check(a.index.size() == buffer(a.buffer).shape.size(), "nest: an access's rank");
    for (size_t d = 0; d < a.index.size(); ++d) {
      int value = d < a.values.size() ? a.values[d] : -1;
      if (value < 0) {
        expression(a.index[d]);
      } else {
        internal_check(static_cast<size_t>(value) < values, "nest: an index value that is none");
      }
    }
  }
  void body_of(const Body& body, const std::vector<Access>& loads) {
    verify_body(body, loads.size(), 0, true);
    nodes_of(body, loads);
  }
  // A load's access may name the counters of the folds around it.
  void nodes_of(const Body& body, const std::vector<Access>& loads) {
    for (const Node& node : body.nodes) {
      if (node.kind == NodeKind::size) expression(node.expr);
      if (node.kind == NodeKind::load) {
        const Access& a = loads[node.slot];
        internal_check(node.type == buffer(a.buffer).type, "nest: a load of another type");
        access(a, node.args.size());
      }
      if (node.kind == NodeKind::fold) fold(node, loads);
    }
  }
  void fold(const Node& node, const std::vector<Access>& loads) {
    bool named = node.expr.kind() == ExprKind::variable;
    internal_check(!named || scope_.insert(node.expr.name()).second,
                   "nest: a fold's counter hides another variable");
    nodes_of(*node.region, loads);
    if (named) scope_.erase(node.expr.name());
  }

  void block(const Block& statements) {
    for (const Statement& s : statements) {
      std::visit([&](const auto& what) { statement(what); }, s.what);
    }
  }
  void block(const Block& statements, Around inside) {
    inside.top = false;
    std::swap(around_, inside);
    block(statements);
    around_ = inside;
  }
  bool varies(const Expr& e) const {
    std::vector<std::string> used;
    collect_variables(e, used);
    return std::any_of(used.begin(), used.end(),
                       [&](const std::string& name) { return varying_.contains(name); });
  }

  void cluster_loop(const For& f) const {
    const For* inner = f.body.size() == 1 ? std::get_if<For>(&f.body[0].what) : nullptr;
    internal_check(f.kind == LoopKind::thread && !around_.threads && inner != nullptr &&
                       inner->kind == LoopKind::thread && f.begin.is_constant(0) &&
                       f.extent.value() <= 8,
                   "nest: a cluster that is not a kernel's outermost thread loop");
  }
  void gpu_loop(const For& f) const {
    if (f.kind == LoopKind::grid) {
      internal_check(around_.only_grids, "nest: a grid loop inside another statement");
      bool known = f.extent.is_constant() || f.extent.kind() == ExprKind::variable;
      internal_check(known && !around_.parallel, "nest: a grid loop's extent");
    }
    if (f.kind == LoopKind::thread) {
      internal_check(around_.grid && !around_.vector && around_.uniform,
                     "nest: a thread loop outside a grid, in a vector or where threads differ");
      internal_check(f.extent.is_constant(), "nest: a thread loop of unknown extent");
    }
    if (f.blocks) cluster_loop(f);
  }
  void statement(const For& f) {
    internal_check(!scope_.contains(f.variable), "nest: a loop variable hides another");
    expression(f.begin);
    expression(f.extent);
    internal_check(f.kind != LoopKind::parallel || around_.top, "nest: a parallel loop inside");
    internal_check(f.kind != LoopKind::unrolled || f.extent.is_constant(),
                   "nest: an unrolled loop of unknown extent");
    internal_check(f.kind != LoopKind::vector || (f.width >= 1 && !around_.vector),
                   "nest: a vector loop inside another or without width");
    internal_check(f.cluster == 1 || (f.cluster > 1 && f.pipeline > 0),
                   "nest: blocks that share a loop without a pipeline");
    internal_check(!f.ordered || f.kind == LoopKind::vector,
                   "nest: an ordered loop that is no vector loop");
    internal_check(!around_.ordered, "nest: a loop inside an ordered one");
    gpu_loop(f);
    Around inside = around_;
    inside.grid = inside.grid || f.kind == LoopKind::grid;
    inside.only_grids = inside.only_grids && f.kind == LoopKind::grid;
    inside.threads = inside.threads || f.kind == LoopKind::thread;
    inside.parallel = inside.parallel || f.kind == LoopKind::parallel;
    inside.vector = inside.vector || f.kind == LoopKind::vector;
    inside.ordered = f.ordered;
    inside.uniform = inside.uniform && !varies(f.extent);
    bool differs = f.kind == LoopKind::thread || varies(f.begin) || varies(f.extent);
    scope_.insert(f.variable);
    if (differs) varying_.insert(f.variable);
    block(f.body, inside);
    scope_.erase(f.variable);
    varying_.erase(f.variable);
  }
  void statement(const If& i) {
    for (const Expr& e : i.nonnegative) expression(e);
    bool decided = i.predicate.results.empty();
    if (!decided) body_of(i.predicate, i.loads);
    Around inside = around_;
    inside.only_grids = false;
    bool differs = std::any_of(i.nonnegative.begin(), i.nonnegative.end(),
                               [&](const Expr& e) { return varies(e); });
    inside.uniform = inside.uniform && decided && !differs;
    block(i.then, inside);
    block(i.otherwise, inside);
  }
  void statement(const Store& s) {
    body_of(s.body, s.loads);
    access(s.target, s.body.nodes.size());
    for (int value : s.target.values) {
      internal_check(value < 0 || is_integer(s.body[NodeId(value)].type),
                     "nest: an index value is no integer node");
    }
    const Buffer& b = buffer(s.target.buffer);
    internal_check(b.scope != Scope::argument || b.written,
                   "nest: a store to a read-only argument");
    internal_check(b.scope != Scope::registers || !around_.grid || around_.threads,
                   "nest: a store to registers that no thread has");
    internal_check(s.body.results.size() == (s.kind == StoreKind::fma ? 2U : 1U),
                   "nest: a store's results");
    for (NodeId r : s.body.results) {
      internal_check(s.body[r].type == b.type, "nest: a stored value of another type");
    }
    if (s.asynchronous) asynchronous(s);
  }
  void asynchronous(const Store& s) {
    bool element = s.kind == StoreKind::assign && s.loads.size() == 1 && s.body.nodes.size() == 1 &&
                   s.body.nodes[0].kind == NodeKind::load && s.body.nodes[0].args.empty();
    internal_check(element && around_.threads && buffer(s.target.buffer).scope == Scope::shared &&
                       buffer(s.loads[0].buffer).scope == Scope::argument &&
                       buffer(s.loads[0].buffer).type == buffer(s.target.buffer).type,
                   "nest: an asynchronous store that is no thread's copy into shared memory");
  }
  void statement(const Alloc& a) {
    Scope scope = buffer(a.buffer).scope;
    internal_check(scope != Scope::argument, "nest: an allocated argument");
    bool of_block = scope == Scope::shared || scope == Scope::fragment;
    internal_check(!of_block || ((around_.grid || scope == Scope::fragment) && !around_.threads),
                   "nest: a shared buffer begins inside a grid loop, outside its threads");
  }
  void statement(const Sync& s) {
    internal_check(s.pending >= 0, "nest: a barrier with fewer than no groups");
    internal_check(around_.threads && around_.uniform && !around_.vector,
                   "nest: a barrier that not all threads reach");
  }

  void statement(const Copy& c) {
    const Buffer& from = buffer(c.from);
    size_t rank = from.shape.size();
    internal_check(c.origin.size() == rank && c.extent.size() == rank && c.stride.size() == rank &&
                       c.limit.size() == rank && c.order.size() == rank,
                   "nest: a copy's rank");
    std::set<size_t> dimensions(c.order.begin(), c.order.end());
    internal_check(dimensions.size() == rank && (rank == 0 || *dimensions.rbegin() == rank - 1),
                   "nest: a copy's order");
    int64_t cells = 1;
    for (size_t d = 0; d < rank; ++d) {
      expression(c.origin[d]);
      internal_check(c.extent[d] >= 1 && c.stride[d] >= 1, "nest: a copy's box");
      internal_check(c.limit[d] >= 0 && c.limit[d] <= from.shape[d], "nest: a copy's limit");
      cells = checked_mul(cells, c.extent[d]);
    }
    internal_check(cells == element_count(buffer(c.to).shape) && buffer(c.to).type == from.type,
                   "nest: a copy into a buffer of another size or type");
    internal_check(!around_.threads, "nest: a block's copy inside threads");
  }
  void part(BufferId id, const MatrixPart& p) const {
    size_t rank = buffer(id).shape.size();
    internal_check(p.origin.size() == rank && p.row.size() == rank && p.column.size() == rank,
                   "nest: a part of another rank");
    for (const Expr& e : p.origin) expression(e);
  }
  void fragment(BufferId id) const {
    const Buffer& b = buffer(id);
    bool fits = b.scope == Scope::fragment && b.shape.size() == 2 && b.shape[0] > 0 &&
                b.shape[1] > 0 && (b.type == DType::f32 || b.type == DType::i32);
    internal_check(fits && !around_.vector && !around_.grid,
                   "nest: a tile register that is none or in a vector");
  }
  void statement(const MatrixMove& m) {
    fragment(m.fragment);
    if (m.kind == MatrixMove::Kind::zero) return;
    const Buffer& b = buffer(m.buffer);
    part(m.buffer, m.part);
    bool may = m.kind == MatrixMove::Kind::load || b.scope != Scope::argument || b.written;
    internal_check(may && b.type == buffer(m.fragment).type && b.scope != Scope::fragment,
                   "nest: a tile moved to or from another type, or into what is only read");
  }
  void parts(const MatrixTile& m) const {
    fragment(m.sum);
    part(m.a, m.a_part);
    part(m.b, m.b_part);
    auto byte = [](DType t) { return t == DType::i8 || t == DType::u8; };
    bool real =
        m.a_type == DType::bf16 && m.b_type == DType::bf16 && buffer(m.sum).type == DType::f32;
    bool whole = byte(m.a_type) && byte(m.b_type) && buffer(m.sum).type == DType::i32;
    internal_check(real || whole, "nest: a product of tiles of other types");
    DType a = buffer(m.a).type, b = buffer(m.b).type;
    internal_check((a == m.a_type || a == DType::u32) && b == DType::u32 &&
                       m.terms % packed_factors(m.a_type) == 0,
                   "nest: factors that are not packed");
    bool other = m.a_transposed || m.b_transposed || m.split || m.unrounded || m.a_rest.valid();
    internal_check(!other, "nest: a product of tiles in another form");
  }
  void statement(const MatrixTile& m) {
    if (m.terms > 0) return parts(m);
    const Buffer& sum = buffer(m.sum);
    const Buffer& a = buffer(m.a);
    const Buffer& b = buffer(m.b);
    internal_check(sum.shape.size() == 2 && a.shape.size() == 2 && b.shape.size() == 2,
                   "nest: a matrix of another rank");
    bool fits = a.shape[m.a_transposed ? 1 : 0] == sum.shape[0] &&
                b.shape[m.b_transposed ? 0 : 1] == sum.shape[1] &&
                a.shape[m.a_transposed ? 0 : 1] == b.shape[m.b_transposed ? 1 : 0];
    internal_check(fits, "nest: matrices that do not fit");
    internal_check(sum.scope == Scope::fragment && tensor_cores_multiply(a.type, b.type, sum.type),
                   "nest: a matrix product of other types");
    internal_check(
        (!m.split && !m.unrounded) || (a.type == DType::f32 && !(m.split && m.unrounded)),
        "nest: a product with or without rounded factors that are not f32");
    internal_check(m.a_rest.valid() == m.b_rest.valid() && (m.split || !m.a_rest.valid()),
                   "nest: half of what rounding leaves");
    if (m.a_rest.valid()) {
      const Buffer& a_rest = buffer(m.a_rest);
      const Buffer& b_rest = buffer(m.b_rest);
      internal_check(a_rest.shape == a.shape && b_rest.shape == b.shape && a_rest.type == a.type &&
                         b_rest.type == b.type,
                     "nest: what rounding leaves has another form");
    }
    internal_check(!around_.threads, "nest: a block's product inside threads");
  }

  const Nest& nest_;
  std::set<std::string, std::less<>> scope_;
  std::set<std::string, std::less<>> varying_;  // variables that differ between threads
  Around around_;
};

}  // namespace

void verify(const Nest& nest) { Verifier(nest).run(); }

}  // namespace tile::nest
