#include "backends/cpu/emit/transpose_emitter.h"

#include <algorithm>

namespace tile::cpu {

void TransposeEmitter::begin_iteration(const nest::For& f, const WrittenOut& loop, int64_t i) {
  block_.reset();
  if (i == 0 && loop.extent > 1 && turns(f, loop)) block_ = loop;
}

// Whether a vector loop is all of the written-out loop's body, the same in each of its iterations,
// and only stores.
bool TransposeEmitter::turns(const nest::For& f, const WrittenOut& loop) {
  if (f.body.size() != 1) return false;
  const auto* lanes = std::get_if<nest::For>(&f.body[0].what);
  bool vector = lanes != nullptr && lanes->kind == nest::LoopKind::vector && !lanes->ordered &&
                lanes_of(*lanes) > 1;
  if (!vector) return false;
  bool stores = std::all_of(lanes->body.begin(), lanes->body.end(), [](const nest::Statement& s) {
    return std::holds_alternative<nest::Store>(s.what);
  });
  if (!stores) return false;
  auto stays = [&](const Expr& e) { return advances(loop, 0, [&] { return c_.indices.form(e); }); };
  bool same = stays(lanes->begin) && stays(lanes->extent);
  c_.indices.unbind(loop.variable);
  return same;
}

// Whether each iteration of the written-out loop adds `step` to the form. All of them are asked: a
// clamped index bends after any. Leaves the variable at its first value.
bool TransposeEmitter::advances(const WrittenOut& loop, int64_t step,
                                const std::function<Form()>& form) {
  c_.indices.bind(loop.variable, loop.begin);
  const Form first = form();
  bool each = true;
  for (int64_t i = 1; each && i < loop.extent; ++i) {
    c_.indices.bind(loop.variable, loop.begin + Form{{}, i});
    each = form() == first + Form{{}, i * step};
  }
  c_.indices.bind(loop.variable, loop.begin);
  return each;
}

void TransposeEmitter::read_transposed(const nest::Block& stores) {
  const WrittenOut& loop = *block_;
  std::set<nest::BufferId> stored = stored_buffers(stores);
  for (const nest::Statement& statement : stores) {
    const nest::Store& s = std::get<nest::Store>(statement.what);
    for (const Node& node : s.body.nodes) {
      if (node.kind != NodeKind::load || !node.args.empty()) continue;
      const nest::Access& access = s.loads[node.slot];
      if (stored.contains(access.buffer)) continue;
      if (!advances(loop, 1, [&] { return c_.offset_of(access); })) continue;
      Reference first = c_.memory.resolve(access, {}, c_.lanes);
      c_.memory.read_transposed(first, static_cast<unsigned>(loop.extent), c_.lanes);
    }
  }
}

}  // namespace tile::cpu
