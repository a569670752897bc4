#include "core/schedule/cost.h"

#include <algorithm>

namespace tile {

double piece_nanoseconds(const Piece& piece, const Contraction& c, const Kernel& kernel,
                         const PieceSchedule& schedule, const Target& target) {
  (void)kernel;
  (void)schedule;
  double points = 1;
  for (int64_t extent : piece.box) points *= static_cast<double>(extent);
  double lanes = static_cast<double>(target.vector_bits) / bit_width(c.accumulator);
  double operations = static_cast<double>(std::max<size_t>(piece.body.nodes.size(), 1));
  return points * operations / (2 * lanes);
}

}  // namespace tile
