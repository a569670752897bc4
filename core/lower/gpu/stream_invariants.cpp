#include "core/lower/gpu/stream_invariants.h"

#include <algorithm>
#include <map>

#include "core/ir/operation_cost.h"
#include "core/ir/same_body.h"
#include "core/nest/unused_loads.h"

namespace tile::lowering {

using nest::Access;
using nest::Scope;

namespace {

// Variables of the loops over the cells of a block.
constexpr const char* kRow = "row";
constexpr const char* kColumn = "column";
// Bytes of a column's value at most: as it is, and as two pairs that a backend makes of it; and of
// what a stage has beside its values.
constexpr int64_t kValueBytes = 20, kStageBytes = 16;

bool uses(const Access& a, std::string_view variable) {
  return std::any_of(a.index.begin(), a.index.end(),
                     [&](const Expr& e) { return uses_variable(e, variable); });
}

// The expression without the bounds that keep columns behind the last one inside.
Expr unbounded(const Expr& e) {
  if (!uses_variable(e, kColumn)) return e;
  if (e.kind() == ExprKind::min) {
    for (size_t i : {size_t{0}, size_t{1}}) {
      if (e.args().size() == 2 && e.args()[1 - i].is_constant()) return unbounded(e.args()[i]);
    }
  }
  std::vector<Expr> args;
  for (const Expr& a : e.args()) args.push_back(unbounded(a));
  return args.empty() ? e : Expr::make(e.kind(), std::move(args));
}

}  // namespace

void StreamInvariants::take_out(nest::For& steps) {
  step_ = steps.variable;
  visit(steps.body);
  steps.body.insert(steps.body.begin(), copies_.begin(), copies_.end());
}

void StreamInvariants::visit(nest::Block& block) {
  for (nest::Statement& s : block) {
    if (auto* loop = std::get_if<nest::For>(&s.what)) {
      visit(loop->body);
    } else if (auto* test = std::get_if<nest::If>(&s.what)) {
      visit(test->then);
      visit(test->otherwise);
    } else if (auto* store = std::get_if<nest::Store>(&s.what)) {
      for (Access& load : store->loads) replace(load);
      replace_values(*store);
    }
  }
}

bool StreamInvariants::is_of_row(const Access& a) const {
  return std::any_of(taken_.begin(), taken_.end(), [&](const Taken& t) {
    return t.to.buffer == a.buffer && frame_.nest.buffers[a.buffer].scope == Scope::fragment;
  });
}

// The largest parts of the body that are made of held elements of rows and numbers.
void StreamInvariants::replace_values(nest::Store& store) {
  struct Known {
    bool fixed = false, dear = false;
  };
  IdVector<NodeId, Known> known;
  for (const Node& n : store.body.nodes) {
    Known k;
    bool operation = n.kind == NodeKind::operation;
    k.fixed = operation || n.kind == NodeKind::real || n.kind == NodeKind::integer ||
              (n.kind == NodeKind::load && is_of_row(store.loads[n.slot]));
    k.dear = operation && is_dear(n.op);
    for (NodeId arg : n.args) {
      k.fixed = k.fixed && known[arg].fixed;
      k.dear = k.dear || known[arg].dear;
    }
    known.push_back(k);
  }
  auto wanted = [&](NodeId id) {
    return known[id].fixed && known[id].dear && store.body[id].type == DType::f32;
  };
  std::map<NodeId, Access> held;
  auto used = [&](NodeId id) {
    if (wanted(id) && !held.contains(id)) held[id] = value_of_row(store, id);
  };
  for (NodeId id : store.body.nodes.ids()) {
    if (wanted(id)) continue;
    for (NodeId arg : store.body[id].args) used(arg);
  }
  for (NodeId result : store.body.results) used(result);
  if (held.empty()) return;
  Value value{store.body, store.loads};
  for (const auto& [id, access] : held) {
    Node load;
    load.kind = NodeKind::load;
    load.type = DType::f32;
    load.slot = value.loads.size();
    value.body.nodes[id] = std::move(load);
    value.loads.push_back(access);
  }
  settle(store, std::move(value));
  nest::drop_unused(store);
}

Access StreamInvariants::value_of_row(const nest::Store& store, NodeId value) {
  Value part{store.body, store.loads};
  part.body.results = {value};
  nest::Store alone;
  settle(alone, std::move(part));
  nest::drop_unused(alone);
  auto same_load = [](const Access& a, const Access& b) {
    return a.buffer == b.buffer && a.index == b.index && a.values == b.values;
  };
  auto same = std::find_if(made_.begin(), made_.end(), [&](const Made& m) {
    return same_body(m.body, alone.body) &&
           std::equal(m.loads.begin(), m.loads.end(), alone.loads.begin(), alone.loads.end(),
                      same_load);
  });
  if (same != made_.end()) return same->to;
  nest::BufferId held = add("of_row", Scope::fragment, {g_.rows, 1});
  made_.push_back({alone.body, alone.loads, at(held, Expr::variable(kRow))});
  alone.target = made_.back().to;
  nest::Block loop = looped(kRow, 0, g_.rows, nest::LoopKind::thread, [&](const Expr&) {
    return nest::Block{statement(nest::Store(alone))};
  });
  before_.insert(before_.end(), loop.begin(), loop.end());
  return made_.back().to;
}

void StreamInvariants::replace(Access& load) {
  const nest::Buffer& b = frame_.nest.buffers[load.buffer];
  bool outside = b.scope == Scope::argument || b.scope == Scope::workspace;
  bool by_value = std::any_of(load.values.begin(), load.values.end(), [](int v) { return v >= 0; });
  if (!outside || by_value || b.type != DType::f32) return;
  auto same = std::find_if(taken_.begin(), taken_.end(), [&](const Taken& t) {
    return t.from.buffer == load.buffer && t.from.index == load.index;
  });
  if (same == taken_.end()) {
    bool by_column = uses(load, kColumn);
    std::optional<Access> to;
    if (!by_column && !uses(load, step_)) to = of_row(load);
    if (by_column && !uses(load, kRow)) to = of_column(load);
    if (!to) return;
    taken_.push_back({load, *to});
    same = taken_.end() - 1;
  }
  load = same->to;
}

nest::BufferId StreamInvariants::add(const char* name, Scope scope, Shape shape) {
  buffers_.push_back(frame_.add_buffer(name, DType::f32, scope, std::move(shape)));
  return buffers_.back();
}

std::optional<Access> StreamInvariants::of_row(const Access& load) {
  nest::BufferId held = add("of_row", Scope::fragment, {g_.rows, 1});
  nest::Block loop = looped(kRow, 0, g_.rows, nest::LoopKind::thread, [&](const Expr& row) {
    return nest::Block{store(at(held, row), element(load))};
  });
  before_.insert(before_.end(), loop.begin(), loop.end());
  return at(held, Expr::variable(kRow));
}

// Elements behind the last column are zeros, or what follows in the tensor.
std::optional<Access> StreamInvariants::of_column(const Access& load) {
  int64_t bytes = g_.stages * (g_.columns * kValueBytes + kStageBytes);
  if (bytes > room_) return std::nullopt;
  const Shape& shape = frame_.nest.buffers[load.buffer].shape;
  nest::Copy c;
  c.from = load.buffer;
  c.limit = shape;
  c.extent.assign(shape.size(), 1);
  c.stride.assign(shape.size(), 1);
  std::optional<size_t> moves;
  for (size_t d = 0; d < shape.size(); ++d) {
    const Expr& index = load.index[d];
    if (!uses_variable(index, kColumn)) {
      c.origin.push_back(index);
      c.order.push_back(d);
      continue;
    }
    std::optional<LinearForm> form = linear_form(unbounded(index));
    if (moves || !form || form->terms[kColumn] != 1) return std::nullopt;
    form->terms.erase(kColumn);
    c.origin.push_back(from_linear(*form));
    c.extent[d] = g_.columns;
    moves = d;
  }
  c.order.push_back(*moves);
  room_ -= bytes;
  c.to = add("of_column", Scope::shared, {g_.columns});
  copies_.push_back({c});
  return Access{c.to, {Expr::variable(kColumn)}, {}};
}

}  // namespace tile::lowering
