// Hoists values that a loop does not change, and that cost a division or more, out of it: into
// registers, one for each iteration of the unrolled loops inside that they depend on. Loops are
// serial ones, and on a GPU unrolled ones: a thread's walk along its part
// of a row, for each element of which the compiler would divide by the row's number anew.
#include <algorithm>
#include <map>
#include <set>

#include "core/ir/operation_cost.h"
#include "core/nest/nest.h"
#include "core/nest/source_lines.h"
#include "core/nest/unused_loads.h"

namespace tile::nest {
namespace {

constexpr int64_t kMostKept = 32;  // copies of one value

struct Unrolled {
  std::string variable;
  int64_t begin = 0;
  int64_t extent = 1;
};

bool is_expensive(const Node& node) { return node.kind == NodeKind::operation && is_dear(node.op); }

void collect_stored(const Block& block, std::set<BufferId>& stored) {
  for (const Statement& s : block) {
    if (const For* f = std::get_if<For>(&s.what)) {
      collect_stored(f->body, stored);
    } else if (const If* i = std::get_if<If>(&s.what)) {
      collect_stored(i->then, stored);
      collect_stored(i->otherwise, stored);
    } else if (const Store* store = std::get_if<Store>(&s.what)) {
      stored.insert(store->target.buffer);
    } else if (const Alloc* alloc = std::get_if<Alloc>(&s.what)) {
      stored.insert(alloc->buffer);
    } else if (const MatrixMove* move = std::get_if<MatrixMove>(&s.what)) {
      if (move->kind == MatrixMove::Kind::store) stored.insert(move->buffer);
    }
  }
}

bool runs(const For& loop) { return loop.extent.is_constant() && loop.extent.value() > 0; }

// The statements inside one loop that run in each of its iterations.
class LoopHoist {
 public:
  LoopHoist(Nest& nest, For& loop) : nest_(nest) {
    collect_stored(loop.body, stored_);
    varying_.insert(loop.variable);
    inside(loop.body);
  }
  // What has to run before the loop.
  Block before() { return std::move(before_); }

 private:
  void inside(Block& block) {
    for (Statement& s : block) {
      if (Store* store = std::get_if<Store>(&s.what)) hoist_from(*store, s.span);
      For* f = std::get_if<For>(&s.what);
      if (f == nullptr || !runs(*f)) continue;
      bool unrolled = f->kind == LoopKind::unrolled && f->begin.is_constant();
      if (unrolled) {
        unrolled_.push_back({f->variable, f->begin.value(), f->extent.value()});
      } else {
        varying_.insert(f->variable);
      }
      inside(f->body);
      if (unrolled) {
        unrolled_.pop_back();
      } else {
        varying_.erase(f->variable);
      }
    }
  }

  struct Known {
    bool fixed = false;      // the same in every iteration of the loop
    bool expensive = false;  // with its operands
    std::set<size_t> unrolled;
  };
  void use(const Expr& e, Known& known) const {
    std::vector<std::string> names;
    collect_variables(e, names);
    for (const std::string& name : names) {
      if (varying_.contains(name)) known.fixed = false;
      for (size_t i = 0; i < unrolled_.size(); ++i) {
        if (unrolled_[i].variable == name) known.unrolled.insert(i);
      }
    }
  }
  Known known_of(const Node& node, const Store& store,
                 const IdVector<NodeId, Known>& before) const {
    Known known;
    known.fixed = node.kind == NodeKind::integer || node.kind == NodeKind::real ||
                  node.kind == NodeKind::size || node.kind == NodeKind::load ||
                  node.kind == NodeKind::operation;
    known.expensive = is_expensive(node);
    if (node.kind == NodeKind::size) use(node.expr, known);
    if (node.kind == NodeKind::load) {
      const Access& a = store.loads[node.slot];
      if (stored_.contains(a.buffer) || !node.args.empty()) known.fixed = false;
      for (const Expr& e : a.index) use(e, known);
    }
    for (NodeId arg : node.args) {
      const Known& operand = before[arg];
      known.fixed = known.fixed && operand.fixed;
      known.expensive = known.expensive || operand.expensive;
      known.unrolled.insert(operand.unrolled.begin(), operand.unrolled.end());
    }
    return known;
  }

  // Fragments lie in the registers of many threads: a value of one of their rows is no register of
  // each.
  bool is_of_fragments(const Store& store) const {
    auto fragment = [&](const Access& a) {
      return nest_.buffers[a.buffer].scope == Scope::fragment;
    };
    return fragment(store.target) || std::any_of(store.loads.begin(), store.loads.end(), fragment);
  }

  void hoist_from(Store& store, Span span) {
    if (is_of_fragments(store)) return;
    IdVector<NodeId, Known> known;
    for (const Node& node : store.body.nodes) known.push_back(known_of(node, store, known));
    IdVector<NodeId, bool> wanted(known.size(), false);
    auto used = [&](NodeId id, bool by_fixed) {
      bool worth = known[id].fixed && known[id].expensive && !by_fixed;
      if (worth && store.body[id].type != DType::bool_) wanted[id] = true;
    };
    for (size_t i = 0; i < known.size(); ++i) {
      for (NodeId arg : store.body.nodes[i].args) used(arg, known[i].fixed);
    }
    for (NodeId result : store.body.results) used(result, false);
    std::map<NodeId, Access> kept;
    for (NodeId id : known.ids()) {
      if (wanted[id]) keep(store, id, known[id], kept);
    }
    give_span(before_, span);
    if (!kept.empty()) replace(store, kept);
  }

  // Computes the node before the loop.
  void keep(const Store& store, NodeId id, const Known& known, std::map<NodeId, Access>& kept) {
    Buffer buffer;
    buffer.name = "kept" + std::to_string(nest_.buffers.size());
    buffer.type = store.body[id].type;
    buffer.scope = Scope::registers;
    buffer.written = true;
    Access place;
    int64_t copies = 1;
    for (size_t u : known.unrolled) {
      buffer.shape.push_back(unrolled_[u].extent);
      copies = checked_mul(copies, unrolled_[u].extent);
      place.index.push_back(Expr::variable(unrolled_[u].variable) - Expr(unrolled_[u].begin));
    }
    if (copies > kMostKept) return;
    if (buffer.shape.empty()) {
      buffer.shape = {1};
      place.index.emplace_back(0);
    }
    buffer.strides.assign(buffer.shape.size(), 1);
    for (size_t d = buffer.shape.size(); d-- > 1;) {
      buffer.strides[d - 1] = buffer.strides[d] * buffer.shape[d];
    }
    place.buffer = nest_.buffers.add(std::move(buffer));
    Store early;
    early.target = place;
    early.loads = store.loads;
    early.body = store.body;
    early.body.results = {id};
    drop_unused(early);
    Statement statement{std::move(early)};
    for (auto u = known.unrolled.rbegin(); u != known.unrolled.rend(); ++u) {
      For loop;
      loop.variable = unrolled_[*u].variable;
      loop.begin = unrolled_[*u].begin;
      loop.extent = unrolled_[*u].extent;
      loop.kind = LoopKind::unrolled;
      loop.body.push_back(std::move(statement));
      statement = Statement{std::move(loop)};
    }
    before_.push_back({Alloc{place.buffer}});
    before_.push_back(std::move(statement));
    kept[id] = std::move(place);
  }

  static void replace(Store& store, const std::map<NodeId, Access>& kept) {
    for (const auto& [id, place] : kept) {
      Node load;
      load.kind = NodeKind::load;
      load.type = store.body[id].type;
      load.slot = store.loads.size();
      store.body.nodes[id] = std::move(load);
      store.loads.push_back(place);
    }
    drop_unused(store);
  }

  Nest& nest_;
  std::set<BufferId> stored_;
  std::set<std::string> varying_;
  std::vector<Unrolled> unrolled_;  // loops inside, outermost first
  Block before_;
};

// A loop around the threads of a block: what stands before it is the block's, whose threads have no
// registers together.
bool is_around_threads(const Block& block) {
  return std::any_of(block.begin(), block.end(), [](const Statement& s) {
    if (const If* i = std::get_if<If>(&s.what)) {
      return is_around_threads(i->then) || is_around_threads(i->otherwise);
    }
    const For* f = std::get_if<For>(&s.what);
    return f != nullptr && (f->kind == LoopKind::thread || is_around_threads(f->body));
  });
}

void hoist_in(Nest& nest, Block& block, bool in_thread) {
  Block out;
  for (Statement& s : block) {
    if (For* f = std::get_if<For>(&s.what)) {
      bool walks = in_thread && f->kind == LoopKind::unrolled;
      bool hoists = f->kind == LoopKind::serial || walks;
      if (hoists && runs(*f) && (in_thread || !is_around_threads(f->body))) {
        Block before = LoopHoist(nest, *f).before();
        std::move(before.begin(), before.end(), std::back_inserter(out));
      }
      hoist_in(nest, f->body, in_thread || f->kind == LoopKind::thread);
    } else if (If* i = std::get_if<If>(&s.what)) {
      hoist_in(nest, i->then, in_thread);
      hoist_in(nest, i->otherwise, in_thread);
    }
    out.push_back(std::move(s));
  }
  block = std::move(out);
}

}  // namespace

Nest hoist(Nest nest) {
  hoist_in(nest, nest.body, false);
  return nest;
}

}  // namespace tile::nest
