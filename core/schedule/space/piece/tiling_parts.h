// What families of schedules are built of. A family (blocks for the caches, panels, kept sums …) is
// a class of its own; it sees these parts, and no other family.
#pragma once

#include <optional>

#include "core/schedule/space/piece/candidate_list.h"
#include "core/schedule/space/piece/inner_loops.h"
#include "core/schedule/space/piece/loop_orders.h"
#include "core/schedule/space/piece/operand_packing.h"

namespace tile {

struct TilingParts {
  TilingParts(CandidateList& list, const std::optional<DotForm>& dot, bool amx)
      : context(list.model().facts(), dot, amx), found(list) {}
  TilingParts(const TilingParts&) = delete;  // the parts name each other
  TilingParts& operator=(const TilingParts&) = delete;

  TilingContext context;
  LoopOrders orders{context};
  InnerLoops inner{context};
  OperandPacking packing{context};
  CandidateList& found;

  // Considers the schedule as it is and, where there are operands that are packed once, before all
  // runs, with copies of those in the order of its loops, whatever else it packs.
  void consider(const RegisterTile& t, const PieceSchedule& s) const;
};

// The base of the families.
class TilingFamily {
 protected:
  explicit TilingFamily(const TilingParts& parts) : p_(parts), c_(parts.context) {}

  const TilingParts& p_;
  const TilingContext& c_;
};

}  // namespace tile
