// Results of a register tile: the finished accumulators, rounded to their type, and the stages
// attached to it.
#include "core/lower/tile/tile_results.h"

#include <algorithm>

#include "core/lower/launch/nest_builders.h"
#include "core/nest/source_lines.h"

namespace tile::lowering {

using nest::Block;

NodeId TileResults::main_value(Value& into, size_t output, const State& s) const {
  DType type = c_.frame.tensor(c_.contraction.outputs[output]).type;
  NodeId root;
  if (c_.reduces) {
    State first = s;
    first.copy = 0;
    into.loads.push_back(accumulators_.accumulator(output, first));
    root = into.body.load(into.loads.size() - 1, c_.contraction.accumulator);
  } else {
    root = values_.translate(into, c_.piece, c_.piece.body.results[output], s, {});
    root = into.body.cast(root, c_.contraction.accumulator);
  }
  return into.body.cast(root, type);
}

void TileResults::find_attached(bool keep_values) {
  const IdVector<StageId, KernelStage>& stages = c_.frame.kernel.stages;
  for (size_t t = 0; t < stages.size(); ++t) {
    StageId root(t);
    while (stages[root].attach.valid()) root = stages[root].attach;
    if (root == StageId(c_.stage) && t != c_.stage) attached_.push_back(t);
  }
  auto keep = [&](TensorId tensor, bool cheap) {
    if (uses_of(tensor) > 1 && !cheap) {
      register_values_[tensor] =
          accumulators_.register_buffer("value", c_.frame.tensor(tensor).type, c_.tile_shape);
    }
  };
  if (attached_.empty() || !keep_values) return;
  for (TensorId tensor : c_.contraction.outputs) keep(tensor, c_.reduces);
  for (size_t t : attached_) {
    for (TensorId tensor : stages[t].contraction.outputs) keep(tensor, false);
  }
}

// Statements of the tile that need the tensor's element: its store and the attached stages' loads.
int TileResults::uses_of(TensorId tensor) const {
  int uses = c_.frame.buffer_of.contains(tensor) ? 1 : 0;
  if (c_.frame.stored_too.contains(tensor)) ++uses;
  for (size_t t : attached_) {
    const Piece& piece = c_.frame.kernel.stages[t].contraction.pieces[0];
    uses += static_cast<int>(std::count_if(piece.loads.begin(), piece.loads.end(),
                                           [&](const auto& a) { return a.tensor == tensor; }));
  }
  return uses;
}

// An attached stage's iterators, from the cells at which it reads what the tile has made.
State TileResults::attached_state(const Piece& piece) const {
  State s;
  s.at.resize(piece.iterators.size());
  for (const tile::Access& load : piece.loads) {
    auto made = made_.find(load.tensor);
    if (made == made_.end()) continue;
    for (size_t d = 0; d < load.index.size(); ++d) {
      const Affine& form = load.index[d].affine;
      for (size_t u = 0; u < form.coefficients.size(); ++u) {
        if (form.coefficients[u] != Rational(1) || !s.at[u].levels.empty()) continue;
        s.at[u].levels.push_back({1, tidy(made->second.cell[d] - Expr(form.constant.num()))});
      }
    }
  }
  return s;
}

// Makes an element known to the stages that follow, and stores it where it is wanted.
void TileResults::store_made(Block& out, TensorId tensor, const State& s, Made made) {
  DType type = c_.frame.tensor(tensor).type;
  auto stored = [&](nest::Access target) {
    Value value;
    value.body.results = {made.value(value)};
    nest::Store store;
    store.target = std::move(target);
    settle(store, std::move(value));
    return statement(std::move(store));
  };
  auto put = [&](nest::Access target) { out.push_back(stored(std::move(target))); };
  if (auto kept = register_values_.find(tensor); kept != register_values_.end()) {
    nest::Access place;
    place.buffer = kept->second;
    place.index = s.tile_index;
    if (place.index.empty()) place.index.emplace_back(0);
    put(place);
    made.value = [place, type](Value& into) {
      into.loads.push_back(place);
      return into.body.load(into.loads.size() - 1, type);
    };
  }
  if (auto buffer = c_.frame.buffer_of.find(tensor); buffer != c_.frame.buffer_of.end()) {
    nest::Access target;
    target.buffer = buffer->second;
    target.index = c_.frame.buffer_index(tensor, made.cell);
    put(target);
  }
  if (auto more = c_.frame.stored_too.find(tensor); more != c_.frame.stored_too.end()) {
    nest::Access target{more->second.buffer, c_.frame.argument_index(tensor, made.cell), {}};
    bool all = more->second.number.is_constant(0);
    append(out, only_if(all ? std::vector<Expr>{} : std::vector<Expr>{-more->second.number},
                        {stored(target)}));
  }
  made_[tensor] = std::move(made);
}

Block TileResults::results(const State& s) {
  Block out;
  made_.clear();
  for (size_t o = 0; o < c_.contraction.outputs.size(); ++o) {
    Made made;
    for (const Index& index : c_.piece.stores[o].index) {
      made.cell.push_back(values_.value_of(index.affine, s));
    }
    made.value = [this, o, s](Value& into) { return main_value(into, o, s); };
    store_made(out, c_.contraction.outputs[o], s, std::move(made));
  }
  for (size_t t : attached_) {
    attached_results(out, c_.frame.kernel.stages[t].contraction, s);
  }
  out = values_.guarded(std::move(out), s, Tested::cells);
  if (!c_.may_be_empty || !c_.reduces) return out;
  nest::If some;
  some.loads = {accumulators_.present(s)};
  NodeId seen = some.predicate.load(0, DType::i32);
  NodeId zero = some.predicate.integer(0, DType::i32);
  some.predicate.results = {some.predicate.operation(Op::ne, {seen, zero}, DType::bool_)};
  some.then = std::move(out);
  return {statement(std::move(some))};
}

void TileResults::attached_results(Block& out, const Contraction& c, const State& s) {
  const Piece& piece = c.pieces[0];
  State at = attached_state(piece);
  for (size_t o = 0; o < c.outputs.size(); ++o) {
    Made made;
    for (const Index& index : piece.stores[o].index) {
      made.cell.push_back(values_.value_of(index.affine, at));
    }
    DType type = c_.frame.tensor(c.outputs[o]).type, wide = c.accumulator;
    made.value = [this, &piece, o, at, type, wide](Value& into) {
      NodeId root = values_.translate(
          into, piece, piece.body.results[o], at, [this](Value& inner, TensorId tensor) {
            auto known = made_.find(tensor);
            return known == made_.end() ? NodeId() : known->second.value(inner);
          });
      return into.body.cast(into.body.cast(root, wide), type);
    };
    Block own;
    store_made(own, c.outputs[o], s, std::move(made));
    nest::give_span(own, c.span);
    append(out, std::move(own));
  }
}

// What the parallel dimensions' own conditions leave of the results.
Block TileResults::owned_results(const State& s) {
  std::vector<Expr> tests;
  for (const PlacedConstraint& p : c_.constraints) {
    if (!p.parallel_dims_only) continue;
    std::vector<Expr> more = values_.conditions_at(*p.constraint, s);
    tests.insert(tests.end(), more.begin(), more.end());
  }
  State at = s;
  at.guards = Guards::none;
  return only_if(std::move(tests), results(at));
}

void TileResults::forget_attached() {
  attached_.clear();
  register_values_.clear();
}

Block TileResults::allocations() const {
  Block out = accumulators_.allocations();
  for (const auto& [tensor, id] : register_values_) out.push_back({nest::Alloc{id}});
  return out;
}

}  // namespace tile::lowering
