// A written-out loop around a vector loop reads blocks. Where memory has the written-out loop's
// elements side by side and the lanes' apart, whole rows are read and turned in registers.
#include <algorithm>

#include "backends/cpu/emit/emitter.h"

namespace tile::cpu {

// Whether a vector loop is all of the written-out loop's body, the same in each of its iterations,
// and only stores.
bool FunctionEmitter::turns(const nest::For& f, const WrittenOut& loop) {
  if (f.body.size() != 1) return false;
  const auto* lanes = std::get_if<nest::For>(&f.body[0].what);
  bool vector = lanes != nullptr && lanes->kind == nest::LoopKind::vector && !lanes->ordered &&
                lanes_of(*lanes) > 1;
  if (!vector) return false;
  bool stores = std::all_of(lanes->body.begin(), lanes->body.end(), [](const nest::Statement& s) {
    return std::holds_alternative<nest::Store>(s.what);
  });
  if (!stores) return false;
  auto stays = [&](const Expr& e) { return advances(loop, 0, [&] { return indices_.form(e); }); };
  bool same = stays(lanes->begin) && stays(lanes->extent);
  indices_.unbind(loop.variable);
  return same;
}

// Whether each iteration of the written-out loop adds `step` to the form. All of them are asked: a
// clamped index bends after any. Leaves the variable at its first value.
bool FunctionEmitter::advances(const WrittenOut& loop, int64_t step,
                               const std::function<Form()>& form) {
  indices_.bind(loop.variable, loop.begin);
  const Form first = form();
  bool each = true;
  for (int64_t i = 1; each && i < loop.extent; ++i) {
    indices_.bind(loop.variable, loop.begin + Form{{}, i});
    each = form() == first + Form{{}, i * step};
  }
  indices_.bind(loop.variable, loop.begin);
  return each;
}

void FunctionEmitter::read_transposed(const WrittenOut& loop, const nest::Block& stores) {
  std::set<int> stored = stored_buffers(stores);
  for (const nest::Statement& statement : stores) {
    const nest::Store& s = std::get<nest::Store>(statement.what);
    for (const Node& node : s.body.nodes) {
      if (node.kind != NodeKind::load || !node.args.empty()) continue;
      const nest::Access& access = s.loads[static_cast<size_t>(node.slot)];
      if (stored.contains(access.buffer)) continue;
      if (!advances(loop, 1, [&] { return offset_of(access); })) continue;
      Reference first = memory_.resolve(access, {}, lanes_);
      memory_.read_transposed(first, static_cast<unsigned>(loop.extent), lanes_);
    }
  }
}

}  // namespace tile::cpu
