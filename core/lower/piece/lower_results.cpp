// Results of a register tile: the finished accumulators, rounded to their type, and the stages
// attached to it.
#include <algorithm>

#include "core/lower/piece/lowering.h"

namespace tile::lowering {

using nest::Block;

NodeId PieceLowering::main_value(Value& into, size_t output, const State& s) {
  DType type = frame_.tensor(contraction_.outputs[output]).type;
  NodeId root = -1;
  if (reduces_) {
    State first = s;
    first.copy = 0;
    into.loads.push_back(accumulator(output, first));
    root = into.body.load(static_cast<int>(into.loads.size()) - 1, contraction_.accumulator);
  } else {
    root = translate(into, piece_, piece_.body.results[output], s, {});
    root = into.body.cast(root, contraction_.accumulator);
  }
  return into.body.cast(root, type);
}

void PieceLowering::find_attached(bool keep_values) {
  const std::vector<KernelStage>& stages = frame_.kernel.stages;
  for (size_t t = 0; t < stages.size(); ++t) {
    int root = static_cast<int>(t);
    while (root >= 0 && stages[static_cast<size_t>(root)].attach >= 0) {
      root = stages[static_cast<size_t>(root)].attach;
    }
    if (root == static_cast<int>(stage_) && t != stage_) attached_.push_back(t);
  }
  auto keep = [&](TensorId tensor, bool cheap) {
    if (uses_of(tensor) > 1 && !cheap) {
      register_values_[tensor] = register_buffer("value", frame_.tensor(tensor).type, tile_shape_);
    }
  };
  if (attached_.empty() || !keep_values) return;
  for (TensorId tensor : contraction_.outputs) keep(tensor, reduces_);
  for (size_t t : attached_) {
    for (TensorId tensor : stages[t].contraction.outputs) keep(tensor, false);
  }
}

// Statements of the tile that need the tensor's element: its store and the attached stages' loads.
int PieceLowering::uses_of(TensorId tensor) const {
  int uses = frame_.buffer_of.contains(tensor) ? 1 : 0;
  if (frame_.stored_too.contains(tensor)) ++uses;
  for (size_t t : attached_) {
    const Piece& piece = frame_.kernel.stages[t].contraction.pieces[0];
    uses += static_cast<int>(std::count_if(piece.loads.begin(), piece.loads.end(),
                                           [&](const auto& a) { return a.tensor == tensor; }));
  }
  return uses;
}

// An attached stage's iterators, from the cells at which it reads what the tile has made.
State PieceLowering::attached_state(const Piece& piece) const {
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
void PieceLowering::store_made(Block& out, TensorId tensor, const State& s, Made made) {
  DType type = frame_.tensor(tensor).type;
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
      return into.body.load(static_cast<int>(into.loads.size()) - 1, type);
    };
  }
  if (auto buffer = frame_.buffer_of.find(tensor); buffer != frame_.buffer_of.end()) {
    nest::Access target;
    target.buffer = buffer->second;
    target.index = frame_.buffer_index(tensor, made.cell);
    put(target);
  }
  if (auto more = frame_.stored_too.find(tensor); more != frame_.stored_too.end()) {
    nest::Access target{more->second.buffer, frame_.argument_index(tensor, made.cell), {}};
    bool all = more->second.number.is_constant(0);
    append(out, only_if(all ? std::vector<Expr>{} : std::vector<Expr>{-more->second.number},
                        {stored(target)}));
  }
  made_[tensor] = std::move(made);
}

Block PieceLowering::results(const State& s) {
  Block out;
  made_.clear();
  for (size_t o = 0; o < contraction_.outputs.size(); ++o) {
    Made made;
    for (const Index& index : piece_.stores[o].index) {
      made.cell.push_back(value_of(index.affine, s));
    }
    made.value = [this, o, s](Value& into) { return main_value(into, o, s); };
    store_made(out, contraction_.outputs[o], s, std::move(made));
  }
  for (size_t t : attached_) {
    const Contraction& c = frame_.kernel.stages[t].contraction;
    const Piece& piece = c.pieces[0];
    State at = attached_state(piece);
    for (size_t o = 0; o < c.outputs.size(); ++o) {
      Made made;
      for (const Index& index : piece.stores[o].index) {
        made.cell.push_back(value_of(index.affine, at));
      }
      DType type = frame_.tensor(c.outputs[o]).type, wide = c.accumulator;
      made.value = [this, &piece, o, at, type, wide](Value& into) {
        NodeId root = translate(into, piece, piece.body.results[o], at,
                                [this](Value& inner, TensorId tensor) {
                                  auto known = made_.find(tensor);
                                  return known == made_.end() ? -1 : known->second.value(inner);
                                });
        return into.body.cast(into.body.cast(root, wide), type);
      };
      store_made(out, c.outputs[o], s, std::move(made));
    }
  }
  out = guarded(std::move(out), s, reduces_);
  if (!may_be_empty_ || !reduces_) return out;
  nest::If some;
  some.loads = {present(s)};
  NodeId seen = some.predicate.load(0, DType::i32);
  NodeId zero = some.predicate.integer(0, DType::i32);
  some.predicate.results = {some.predicate.operation(Op::ne, {seen, zero}, DType::bool_)};
  some.then = std::move(out);
  return {statement(std::move(some))};
}

}  // namespace tile::lowering
