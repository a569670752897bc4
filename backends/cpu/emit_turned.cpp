// A written-out loop around a vector loop reads blocks. Where memory has the written-out loop's
// elements side by side and the lanes' apart, whole rows are read and turned in registers.
#include <algorithm>

#include "backends/cpu/emitter.h"

namespace tile::cpu {

// Whether a vector loop is all of the written-out loop's body, the same in each of its iterations,
// and only stores.
bool FunctionEmitter::turns(const nest::For& f, const Form& begin) {
  if (f.body.size() != 1) return false;
  const auto* lanes = std::get_if<nest::For>(&f.body[0].what);
  bool vector = lanes != nullptr && lanes->kind == nest::LoopKind::vector && !lanes->ordered &&
                lanes_of(*lanes) > 1;
  if (!vector) return false;
  bool stores = std::all_of(lanes->body.begin(), lanes->body.end(), [](const nest::Statement& s) {
    return std::holds_alternative<nest::Store>(s.what);
  });
  auto moves = [&](const Expr& e) { return !(moved_by(f.variable, begin, e) == Form{}); };
  return stores && !moves(lanes->begin) && !moves(lanes->extent);
}

// What the next iteration of a written-out loop adds to the expression.
Form FunctionEmitter::moved_by(const std::string& variable, const Form& begin, const Expr& e) {
  indices_.bind(variable, begin + Form{{}, 1});
  Form next = indices_.form(e);
  indices_.bind(variable, begin);
  Form move = next - indices_.form(e);
  indices_.unbind(variable);
  return move;
}

void FunctionEmitter::read_turned(const WrittenOut& loop, const nest::Block& stores) {
  std::set<int> stored = stored_buffers(stores);
  for (const nest::Statement& statement : stores) {
    const nest::Store& s = std::get<nest::Store>(statement.what);
    for (const Node& node : s.body.nodes) {
      if (node.kind != NodeKind::load || !node.args.empty()) continue;
      const nest::Access& access = s.loads[static_cast<size_t>(node.slot)];
      if (stored.contains(access.buffer)) continue;
      indices_.bind(loop.variable, loop.begin + Form{{}, 1});
      Reference next = memory_.resolve(access, {}, lanes_);
      indices_.bind(loop.variable, loop.begin);
      Reference first = memory_.resolve(access, {}, lanes_);
      bool neighbours = next.offsets == nullptr && next.stride == first.stride &&
                        next.uniform - first.uniform == Form{{}, 1};
      if (neighbours) memory_.read_turned(first, static_cast<unsigned>(loop.extent), lanes_);
    }
  }
}

}  // namespace tile::cpu
