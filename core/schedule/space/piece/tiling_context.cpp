#include "core/schedule/space/piece/tiling_context.h"

#include <algorithm>
#include <cstdlib>

namespace tile {
namespace {

int64_t reach_of(const PieceFacts& facts, size_t u) {
  int64_t most = 0;
  for (const AccessFacts& a : facts.accesses) most = std::max(most, std::abs(a.strides[u]));
  return most;
}

IteratorId dot_iterator_of(const PieceFacts& facts, const std::optional<DotForm>& dot) {
  const Piece& piece = facts.piece;
  IteratorId best;
  int64_t least = 0;
  for (size_t u = piece.parallel_dims; u < piece.box.size() && dot; ++u) {
    bool longer = piece.box[u] > 1 && packs_along(*dot, piece, IteratorId(u));
    int64_t reach = longer ? reach_of(facts, u) : 0;
    if (!longer || (best.valid() && reach > least)) continue;
    best = IteratorId(u);
    least = reach;
  }
  return best;
}

double bytes_of(const PieceFacts& facts) {
  double whole = 0;
  for (const AccessFacts& a : facts.accesses) whole += a.footprint(facts.piece.box);
  return whole;
}

}  // namespace

TilingContext::TilingContext(const PieceFacts& of_piece, const std::optional<DotForm>& with_dot,
                             bool with_amx)
    : facts(of_piece),
      piece(of_piece.piece),
      target(of_piece.target),
      dot(with_dot),
      amx(with_amx),
      bytes(bytes_of(of_piece)),
      dot_iterator(dot_iterator_of(of_piece, with_dot)) {}

int64_t TilingContext::reach(IteratorId u) const { return reach_of(facts, u.index()); }

IteratorId TilingContext::longest_reduction() const {
  IteratorId longest(piece.parallel_dims);
  for (size_t u = piece.parallel_dims; u < piece.box.size(); ++u) {
    if (piece.box[u] > extent(longest)) longest = IteratorId(u);
  }
  return longest;
}

int64_t TilingContext::tile_step(const RegisterTile& t, IteratorId u) const {
  if (u == t.vector && is_parallel_dim(u)) {
    return t.vectors * (amx ? target.tiles.columns() : facts.lanes);
  }
  int64_t values = u == t.joined ? t.rows : 1;
  for (auto [m, rows] : t.unrolled) {
    if (m == u) return values * rows;
  }
  return values;
}

}  // namespace tile
