// Sums of products of narrow elements by operations on packed neighbours (Op::dot2_bf16 …): which
// pieces have such a form, and along which reduction.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "core/kernel/schedule.h"

namespace tile {

struct DotForm {
  Op dot = Op::dot2_bf16;
  Op pack = Op::pack2;
  int64_t group = 2;    // neighbours in 32 bits
  size_t x = 0, y = 1;  // the loads that are the dot's first and second operand
  DType element_x = DType::bf16, element_y = DType::bf16;  // types in which they are packed
  // Of bytes of equal sign, which no instruction multiplies: the load whose elements' top bits are
  // flipped. Read with the other sign they are then 128 more (signed before) or less, so that the
  // sums have 128 times the sum of the other load's elements too much or too little.
  std::optional<size_t> flipped;
  size_t other() const { return flipped == x ? y : x; }
};
// The form with two or four neighbours; nullopt: the piece is no such sum.
std::optional<DotForm> dot_form(const Piece& piece, const Contraction& c,
                                const BoundTensors& tensors, int64_t group);
// The two loads whose converted elements a piece multiplies and adds up; nullopt: it does not.
std::optional<std::pair<size_t, size_t>> product_of_loads(const Piece& piece, const Contraction& c);
// Whether neighbours along this iterator may be packed: a reduction that moves both loads and that
// no condition names.
bool packs_along(const DotForm& form, const Piece& piece, IteratorId iterator);
// Multiply-adds per nanosecond of the form's instruction; 0: the target has none.
double dot_per_ns(const DotForm& form, const Target& target);

// Of a schedule that ends in a dot: how many neighbours are packed; 1: it does not.
int64_t dot_group(const PieceSchedule& schedule);
// The packed loops of a packing without the neighbours of a dot, which share an element.
size_t packed_loops(const Packing& packing, const PieceSchedule& schedule);

}  // namespace tile
