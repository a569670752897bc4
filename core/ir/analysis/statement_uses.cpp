#include "core/ir/analysis/statement_uses.h"

#include "core/ir/analysis/uses.h"

namespace tile {

std::set<TensorId> seen_outside(const BoundProgram& program) {
  std::set<TensorId> seen(program.outputs.begin(), program.outputs.end());
  for (const BoundTensor& t : program.tensors) {
    if (t.view_of) seen.insert(*t.view_of);
  }
  return seen;
}

std::optional<size_t> Uses::maker(TensorId id) const {
  auto found = makers_.find(id);
  return found == makers_.end() ? std::nullopt : std::optional(found->second);
}
const std::vector<size_t>& Uses::readers(TensorId id) const {
  static const std::vector<size_t> none;
  auto found = readers_.find(id);
  return found == readers_.end() ? none : found->second;
}

void Uses::add(size_t number, const std::vector<TensorId>& reads,
               const std::vector<TensorId>& makes) {
  for (TensorId id : reads) readers_[id].push_back(number);
  for (TensorId id : makes) makers_[id] = number;
}

StatementUses::StatementUses(const BoundProgram& program) : Uses(program) {
  for (size_t i = 0; i < program.statements.size(); ++i) {
    add(i, read_by(program.statements[i]), written_by(program.statements[i]));
  }
}

}  // namespace tile
