// Pointwise statements, whose elements can be computed where they are read. Private to this room.
#pragma once

#include <optional>
#include <vector>

#include "core/ir/bound.h"

namespace tile {

// A statement with the iterator that indexes each dimension of its result, or none for the
// constant 0 (pointwise_map()).
struct Producer {
  const Contraction* statement;
  std::vector<IteratorId> map;
};

// For each dimension of the result the iterator that indexes it, or none for the constant 0;
// nullopt: the statement is not a pointwise map onto every cell of its result. The dimension of a
// tuple's components is left out.
std::optional<std::vector<IteratorId>> pointwise_map(const BoundProgram& program,
                                                     const Contraction& c);
// The component of the producer's tuple that an access reads; nullopt: not one alone.
std::optional<size_t> component_read(const Producer& producer, const Access& access);
// Whether all indices are affine and inside the tensor.
bool inlinable_access(const Access& access);
// Whether a boundary rule of the consumer's access passes on to the producer's loads: they name the
// iterator alone, in a dimension as long as the producer's.
bool rules_pass(const BoundProgram& program, const Producer& producer, const Access& outer);
// Whether an index's value or a boundary rule needs an integral form.
bool names_indices(const Piece& piece);
bool is_integral(const Access& access);
// The same cell, up to the component of a tuple.
bool same_cell(const Producer& producer, const Access& a, const Access& b);
// The producer's load as seen from the consumer, which reads the producer's result by `outer`.
Access composed(const Access& inner, const Producer& producer, const Access& outer);
// Computes the component of the producer where the piece's body reads it by the load at `slot`.
void splice(Piece& piece, size_t slot, const Producer& producer, size_t component);

}  // namespace tile
