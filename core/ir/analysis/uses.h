// Who reads and writes which tensor.
#pragma once

#include <vector>

#include "core/ir/bound.h"

namespace tile {

std::vector<TensorId> read_by(const BoundStatement& statement);  // each once, first use first
std::vector<TensorId> written_by(const BoundStatement& statement);
// The same of a contraction that stands in no statement.
std::vector<TensorId> read_by(const Contraction& contraction);
inline const std::vector<TensorId>& written_by(const Contraction& contraction) {
  return contraction.outputs;
}
bool contains(const std::vector<TensorId>& list, TensorId id);
// The tensor whose memory holds `id`'s elements: itself, or what it is a view of.
TensorId storage_of(const BoundProgram& program, TensorId id);
// A product of extents as a double, for costs.
double point_count(const Piece& piece);

}  // namespace tile
