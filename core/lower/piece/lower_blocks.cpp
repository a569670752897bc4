// Blocked reductions: the sums of the blocks so far wait in the output, or in a workspace of the
// accumulator's type where the output's is another.
#include <algorithm>

#include "core/kernel/stream.h"
#include "core/lower/piece/lowering.h"

namespace tile::lowering {

void PieceLowering::make_partials(nest::Block& out) {
  if (!blocked_) return;
  if (has_stream(frame_.kernel)) return make_stream_partials();
  for (TensorId tensor : contraction_.outputs) {
    bool stored = frame_.buffer_of.contains(tensor);
    if (stored && frame_.tensor(tensor).type == contraction_.accumulator) {
      partials_.push_back(-1);
      continue;
    }
    Shape shape(piece_.box.begin(),
                piece_.box.begin() + static_cast<std::ptrdiff_t>(piece_.parallel_dims));
    if (shape.empty()) shape = {1};
    int id = frame_.add_buffer("partial", contraction_.accumulator, nest::Scope::workspace, shape);
    partials_.push_back(id);
    out.push_back({nest::Alloc{id}});
  }
}

nest::Access PieceLowering::partial(size_t output, const State& s) {
  if (partials_[output] < 0) return output_access(output, s);
  if (has_stream(frame_.kernel)) return of_block(partials_[output], s);
  nest::Access a;
  a.buffer = partials_[output];
  for (size_t u = 0; u < piece_.parallel_dims; ++u) a.index.push_back(tidy(s.at[u].begin()));
  if (a.index.empty()) a.index.emplace_back(0);
  return a;
}

namespace {

Body holds(const Expr& condition) {
  Body body;
  NodeId value = body.size(condition, DType::i64);
  NodeId zero = body.integer(0, DType::i64);
  body.results = {body.operation(Op::ne, {value, zero}, DType::bool_)};
  return body;
}

}  // namespace

Body PieceLowering::first_block(const State& s) const {
  Expr all = 1;
  for (size_t u = piece_.parallel_dims; u < piece_.box.size(); ++u) {
    if (!s.at[u].levels.empty()) all = all * equal(tidy(s.at[u].begin()), Expr(0));
  }
  return holds(all);
}

Body PieceLowering::last_block(const State& s) const {
  Expr all = 1;
  for (size_t u = piece_.parallel_dims; u < piece_.box.size(); ++u) {
    if (s.at[u].levels.empty()) continue;
    Expr next = tidy(s.at[u].begin() + Expr(s.at[u].levels.back().step));
    bool streamed = static_cast<int>(u) == frame_.kernel.stages[stage_].stream;
    Expr last = streamed ? tidy(frame_.stream_end - Expr(1)) : Expr(piece_.box[u] - 1);
    all = all * less(last, next);
  }
  return holds(all);
}

}  // namespace tile::lowering
