#include "core/lower/gpu/stream_values.h"

#include <algorithm>
#include <set>

#include "core/kernel/stream.h"
#include "core/lower/launch/nest_builders.h"

namespace tile::lowering {

StreamValues::StreamValues(const Frame& frame, const gpu::StreamForm& form,
                           const PieceValues& values)
    : frame_(frame),
      form_(form),
      values_(values),
      map_(row_map(frame.kernel)),
      rows_(row_loops(frame.kernel)) {
  for (size_t s = 0; s < frame.kernel.stages.size(); ++s) {
    makers_[frame.kernel.stages[s].contraction.outputs[0]] = s;
  }
}

size_t StreamValues::tile_of(size_t stage) const {
  const auto& stages = frame_.kernel.stages;
  while (stages[stage].attach.valid()) stage = stages[stage].attach.index();
  return stage;
}

State StreamValues::state(size_t stage, const Expr& row, const Expr& column,
                          const Expr& more) const {
  const Piece& piece = frame_.kernel.stages[stage].contraction.pieces[0];
  State s;
  s.at.resize(piece.box.size());
  for (size_t u = 0; u < piece.box.size(); ++u) {
    RowId of = map_.iterators[stage][u];
    Expr value = more;
    if (of == RowId(rows_.size())) {
      value = column;
    } else if (of.valid()) {
      value = of == form_.row ? row : rows_[of];
    } else if (piece.box[u] == 1) {
      value = Expr(0);
    }
    s.at[u] = {{{1, value}}, 1, 1};
  }
  return s;
}

State StreamValues::exact_state(size_t stage, const Expr& row, const Expr& column) const {
  return state(stage, tidy(row_begin() + row), tidy(column_begin_ + column), Expr(0));
}

// Cells behind the last row or column are computed as if they were there, of what that one reads.
State StreamValues::cell_state(size_t stage, const Expr& row, const Expr& column) const {
  auto inside = [](const Expr& at, int64_t extent) { return min(at, Expr(extent - 1)); };
  Expr at = inside(tidy(row_begin() + row), form_.rows);
  size_t tile = tile_of(stage);
  if (!is_sum(tile)) {
    return state(stage, at, inside(tidy(column_begin_ + column), form_.columns), Expr(0));
  }
  for (const gpu::StreamForm::Sum& sum : form_.sums) {
    if (sum.stage != tile || !sum.column.valid()) continue;
    return state(stage, at, Expr(0), inside(column, sum.value.extent));
  }
  return state(stage, at, Expr(0), Expr(0));
}

NodeId StreamValues::fragment(Value& into, nest::BufferId buffer, const Expr& row,
                              const Expr& column, DType type) const {
  nest::Access access{buffer, {row, column}, {}};
  auto same = std::find_if(into.loads.begin(), into.loads.end(), [&](const nest::Access& a) {
    return a.buffer == buffer && a.index == access.index && a.values.empty();
  });
  auto slot = static_cast<size_t>(same - into.loads.begin());
  if (same == into.loads.end()) into.loads.push_back(std::move(access));
  return into.body.cast(into.body.load(slot, DType::f32), type);
}

NodeId StreamValues::translated(Value& into, size_t stage, NodeId root, const Expr& row,
                                const Expr& column) const {
  const Piece& piece = frame_.kernel.stages[stage].contraction.pieces[0];
  State s = cell_state(stage, row, column);
  return values_.translate(into, piece, root, s, [&](Value& inner, TensorId tensor) {
    return makers_.contains(tensor) ? made(inner, tensor, row, column) : NodeId();
  });
}

// The element of a tensor that the kernel makes, rounded to the tensor's type.
NodeId StreamValues::made(Value& into, TensorId tensor, const Expr& row, const Expr& column) const {
  size_t stage = makers_.at(tensor);
  const KernelStage& how = frame_.kernel.stages[stage];
  DType type = frame_.tensor(tensor).type;
  auto known = known_.find(tensor);
  if (known != known_.end()) return fragment(into, known->second, row, column, type);
  if (!how.attach.valid()) {
    auto product = products.find(stage);
    if (product != products.end()) return fragment(into, product->second, row, column, type);
    bool running = form_.running > 0 && stage == form_.running;
    if (running) return fragment(into, maximum, row, Expr(0), type);
    bool by_columns = std::any_of(form_.sums.begin(), form_.sums.end(), [&](const auto& sum) {
      return sum.stage == stage && sum.column.valid();
    });
    if (is_sum(stage)) {
      return fragment(into, sums.at(stage), row, by_columns ? column : Expr(0), type);
    }
  }
  NodeId root = translated(into, stage, how.contraction.pieces[0].body.results[0], row, column);
  return into.body.cast(into.body.cast(root, how.contraction.accumulator), type);
}

std::optional<TensorId> StreamValues::only_score() const {
  std::set<TensorId> read;
  for (size_t s = 1; s < frame_.kernel.stages.size(); ++s) {
    if (tile_of(s) == 0) continue;
    for (const Access& a : frame_.kernel.stages[s].contraction.pieces[0].loads) {
      auto maker = makers_.find(a.tensor);
      if (maker != makers_.end() && tile_of(maker->second) == 0) read.insert(a.tensor);
    }
  }
  if (read.size() != 1) return std::nullopt;
  TensorId only = *read.begin();
  bool as_is = makers_.at(only) == 0 && frame_.tensor(only).type == DType::f32;
  return as_is ? std::nullopt : std::optional(only);
}

std::optional<TensorId> StreamValues::shared_score(size_t product) const {
  const auto& stages = frame_.kernel.stages;
  auto readers = [&](TensorId id) {
    std::vector<size_t> list;
    for (size_t s = 0; s < stages.size(); ++s) {
      const std::vector<Access>& loads = stages[s].contraction.pieces[0].loads;
      bool reads =
          std::any_of(loads.begin(), loads.end(), [&](const Access& a) { return a.tensor == id; });
      if (reads) list.push_back(s);
    }
    return list;
  };
  TensorId at = stages[product].contraction.outputs[0];
  std::vector<size_t> read = readers(at);
  while (read.size() == 1 && !reduces_stream(stages[tile_of(read[0])])) {
    at = stages[read[0]].contraction.outputs[0];
    read = readers(at);
  }
  bool own = makers_.at(at) != product;
  return own && read.size() > 1 ? std::optional(at) : std::nullopt;
}

Value StreamValues::result(size_t stage, const Expr& row, const Expr& column) const {
  const Contraction& c = frame_.kernel.stages[stage].contraction;
  const Piece& piece = c.pieces[0];
  Value v;
  // The columns here are the axis's, whatever the stage's tile is.
  auto inside = [](const Expr& at, int64_t extent) { return min(at, Expr(extent - 1)); };
  State s = state(stage, inside(tidy(row_begin() + row), form_.rows),
                  inside(tidy(column_begin_ + column), form_.columns), Expr(0));
  NodeId root =
      values_.translate(v, piece, piece.body.results[0], s, [&](Value& inner, TensorId tensor) {
        return makers_.contains(tensor) ? made(inner, tensor, row, column) : NodeId();
      });
  v.body.results = {v.body.cast(root, c.accumulator)};
  return without_roundings(std::move(v));
}

Value StreamValues::widened(TensorId tensor, const Expr& row, const Expr& column) const {
  Value v;
  NodeId root = made(v, tensor, row, column);
  v.body.results = {v.body.cast(root, DType::f32)};
  return without_roundings(std::move(v));
}

Value StreamValues::weight(const gpu::StreamForm::Sum& sum, const Expr& row, const Expr& column,
                           const std::vector<Expr>& conditions) const {
  const Piece& piece = frame_.kernel.stages[sum.stage].contraction.pieces[0];
  auto inside = [](const Expr& at, int64_t extent) { return min(at, Expr(extent - 1)); };
  Value v;
  State s = state(sum.stage, inside(tidy(row_begin() + row), form_.rows),
                  inside(tidy(column_begin_ + column), form_.columns), Expr(0));
  NodeId root = values_.translate(v, piece, sum.weight, s, [&](Value& inner, TensorId tensor) {
    return makers_.contains(tensor) ? made(inner, tensor, row, column) : NodeId();
  });
  v.body.results = {v.body.cast(root, form_.type)};
  v = without_roundings(std::move(v));
  if (!conditions.empty()) choose(v, conditions);
  return v;
}

// Zero instead of the value where a condition is negative; chosen in f32, rounded then.
void StreamValues::choose(Value& v, const std::vector<Expr>& conditions) const {
  Body& b = v.body;
  NodeId root = b.results[0], holds;
  const Node& last = b[root];
  bool rounds =
      last.kind == NodeKind::operation && last.op == Op::cast && b[last.args[0]].type == DType::f32;
  NodeId wide = rounds ? last.args[0] : b.cast(root, DType::f32);
  for (const Expr& e : conditions) {
    NodeId at = b.size(e, DType::i64), zero = b.integer(0, DType::i64);
    NodeId test = b.operation(Op::ge, {at, zero}, DType::bool_);
    holds = holds.valid() ? b.operation(Op::logical_and, {holds, test}, DType::bool_) : test;
  }
  NodeId value = b.operation(Op::select, {holds, wide, b.real(0, DType::f32)}, DType::f32);
  b.results = {b.cast(value, form_.type)};
}

// Fragments hold elements that are rounded already, but for the sums and the scores as they come
// from the tensor cores.
Value StreamValues::without_roundings(Value value) const {
  auto rounded = [&](const Node& n) {
    if (n.kind != NodeKind::load) return false;
    nest::BufferId buffer = value.loads[n.slot].buffer;
    return std::any_of(known_.begin(), known_.end(),
                       [&](const auto& known) { return known.second == buffer; });
  };
  value.body = rewritten(value.body, [&](Body& body, const Node& n) -> NodeId {
    bool widens = n.kind == NodeKind::operation && n.op == Op::cast && n.type == DType::f32;
    if (!widens) return NodeId();
    const Node& narrow = body[n.args[0]];
    bool narrows = narrow.kind == NodeKind::operation && narrow.op == Op::cast;
    return narrows && rounded(body[narrow.args[0]]) ? narrow.args[0] : NodeId();
  });
  return value;
}

std::vector<size_t> StreamValues::stored_in(size_t tile) const {
  const std::vector<TensorId>& writes = frame_.kernel.writes;
  std::vector<size_t> list;
  for (size_t s = 0; s < frame_.kernel.stages.size(); ++s) {
    TensorId out = frame_.kernel.stages[s].contraction.outputs[0];
    bool leaves = std::find(writes.begin(), writes.end(), out) != writes.end();
    if (tile_of(s) == tile && leaves) list.push_back(s);
  }
  return list;
}

nest::Statement StreamValues::stored(size_t stage, const Expr& row, const Expr& column) const {
  const Contraction& c = frame_.kernel.stages[stage].contraction;
  TensorId out = c.outputs[0];
  Value v;
  v.body.results = {made(v, out, row, column)};
  State s = state(stage, tidy(row_begin() + row), Expr(0), column);
  nest::Store store;
  store.target.buffer = frame_.buffer_of.at(out);
  std::vector<Expr> index;
  for (const Index& i : c.pieces[0].stores[0].index) index.push_back(values_.value_of(i.affine, s));
  store.target.index = frame_.buffer_index(out, std::move(index));
  settle(store, without_roundings(std::move(v)));
  return statement(std::move(store));
}

}  // namespace tile::lowering
