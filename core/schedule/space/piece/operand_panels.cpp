// Copies of operands for a given order of loops.
#include <algorithm>
#include <utility>

#include "core/schedule/space/piece/tiling_families.h"

namespace tile {
namespace {

constexpr double kReuses = 4;  // of an element that are worth a copy of its operand

class OperandPanels : TilingFamily {
 public:
  explicit OperandPanels(const TilingParts& parts) : TilingFamily(parts) {}
  void run(const RegisterTile& t, const PieceSchedule& s) const;

 private:
  // Whether each element of the load is read so often that copying all of it pays.
  bool reused(size_t load) const;
};

void OperandPanels::run(const RegisterTile& t, const PieceSchedule& s) const {
  if (!t.vector.valid()) return;
  PieceSchedule whole = s;
  p_.packing.pack(t, whole, 0);
  std::erase_if(whole.packings, [&](const Packing& p) { return !reused(p.load); });
  if (!whole.packings.empty()) p_.found.consider(whole);
  if (!c_.is_parallel_dim(t.vector)) return;
  std::erase_if(whole.packings,
                [&](const Packing& p) { return !OperandPacking::along(t, p, whole); });
  if (!whole.packings.empty()) p_.found.consider(std::move(whole));
  for (size_t level : {0, 1}) {
    if (level == 1 && s.outer[0].iterator != t.vector) continue;
    PieceSchedule packed = s;
    p_.packing.pack(t, packed, level);
    std::erase_if(packed.packings, [&](const Packing& p) {
      return std::any_of(p.order.begin(), p.order.end(),
                         [&](const Loop& l) {
                           return c_.is_parallel_dim(l.iterator) && l.iterator != t.vector;
                         }) ||
             !OperandPacking::along(t, p, packed);
    });
    if (packed.packings.empty()) continue;
    p_.found.consider(std::move(packed));
  }
}

bool OperandPanels::reused(size_t load) const {
  const AccessFacts& a = c_.facts.load(load);
  return a.kept || a.uses >= kReuses;
}

}  // namespace

void consider_operand_panels(const TilingParts& parts, const RegisterTile& t,
                             const PieceSchedule& s) {
  OperandPanels(parts).run(t, s);
}

}  // namespace tile
