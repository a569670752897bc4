#include "core/schedule/space/piece/tiling_parts.h"

#include <algorithm>
#include <utility>

#include "core/kernel/forms/prepacking.h"

namespace tile {

void TilingParts::consider(const RegisterTile& t, const PieceSchedule& s) const {
  found.consider(s);
  const PieceFacts& f = context.facts;
  bool any_kept =
      std::any_of(f.accesses.begin(), f.accesses.end(), [](const auto& a) { return a.kept; });
  if (!any_kept) return;
  auto kept = [&](const Packing& p) { return f.load(p.load).kept; };
  PieceSchedule copies = s, packed = s;
  copies.packings.clear();
  packing.pack(t, copies, s.outer.size());
  std::erase_if(packed.packings, kept);
  bool any = false;
  for (const Packing& p : copies.packings) {
    if (!kept(p)) continue;
    std::optional<Packing> whole = packed_once(p, s, f.piece, f.kernel, f.target);
    if (!whole || packing.in_place(*whole, f.load(p.load))) continue;
    packed.packings.push_back(std::move(*whole));
    any = true;
  }
  if (any) found.consider(std::move(packed));
}

}  // namespace tile
