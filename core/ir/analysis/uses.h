// Who reads and writes which tensor.
#pragma once

#include <vector>

#include "core/ir/bound.h"

namespace tile {

std::vector<TensorId> read_by(const BoundStatement& statement);  // each once, first use first
std::vector<TensorId> written_by(const BoundStatement& statement);
bool contains(const std::vector<TensorId>& list, TensorId id);
// The tensor whose memory holds `id`'s elements: itself, or what it is a view of.
TensorId storage_of(const BoundProgram& program, TensorId id);
// A product of extents as a double, for costs.
double point_count(const Piece& piece);

}  // namespace tile
