#include <set>

#include "core/ir/analysis/uses.h"
#include "core/passes/optimize/optimize.h"

namespace tile {

void eliminate_dead_code(BoundProgram& program, const Target&) {
  std::set<TensorId> needed;
  auto need = [&](TensorId id) { needed.insert(storage_of(program, id)); };
  for (TensorId id : program.outputs) need(id);
  std::vector<BoundStatement> kept;
  for (auto it = program.statements.rbegin(); it != program.statements.rend(); ++it) {
    bool live = false;
    for (TensorId id : written_by(*it)) live = live || needed.contains(storage_of(program, id));
    if (!live) continue;
    for (TensorId id : read_by(*it)) need(id);
    kept.push_back(std::move(*it));
  }
  program.statements.assign(std::make_move_iterator(kept.rbegin()),
                            std::make_move_iterator(kept.rend()));
}

}  // namespace tile
