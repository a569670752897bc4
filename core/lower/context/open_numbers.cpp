#include "core/lower/context/open_numbers.h"

#include <algorithm>

#include "core/kernel/coverage.h"
#include "core/lower/launch/nest_builders.h"

namespace tile::lowering {
namespace {

Growth constant(int64_t value) { return {0, value}; }

Expr expression(const Growth& g) {
  if (g.factor == 0) return g.offset;
  return tidy(Expr(g.factor) * Expr::variable(kExtentName) + Expr(g.offset));
}

template <class Map, class Key>
Growth find_or(const Map& map, const Key& key, int64_t otherwise) {
  auto at = map.find(key);
  return at == map.end() ? constant(otherwise) : at->second;
}

}  // namespace

OpenNumbers::OpenNumbers(const Kernel& kernel, const DynamicExtent& extent) : most_(extent.most) {
  auto piece_of = [&](const DynamicExtent::PieceAt& at) -> const Piece& {
    return kernel.stages[at.stage].contraction.pieces[at.piece];
  };
  for (const auto& w : extent.walks) walks_[{&piece_of(w.of), w.iterator}] = w.size;
  for (const auto& d : extent.dimensions) {
    sizes_[{d.tensor, d.dimension}] = d.size;
    size_t& last = dimensions_.try_emplace(d.tensor, d.dimension).first->second;
    last = std::max(last, d.dimension);
  }
  for (const auto& b : extent.bounds) {
    const Constraint& c = piece_of(b.of).constraints[b.constraint];
    auto& [lo, hi] = bounds_.try_emplace(&c, constant(c.lo), constant(c.hi)).first->second;
    (b.upper ? hi : lo) = b.value;
  }
  for (const auto& l : extent.literals) literals_[&piece_of(l.of).body.nodes[l.node]] = l.value;
}

bool OpenNumbers::is_open(const Piece& piece, IteratorId u) const {
  return walks_.contains({&piece, u});
}
Expr OpenNumbers::extent(const Piece& piece, IteratorId u) const {
  return expression(find_or(walks_, std::pair(&piece, u), piece.box[u]));
}
int64_t OpenNumbers::most(const Piece& piece, IteratorId u) const {
  return find_or(walks_, std::pair(&piece, u), piece.box[u]).at(most_);
}

Expr OpenNumbers::extent(const BoundTensor& t, TensorId tensor, size_t d) const {
  return expression(find_or(sizes_, std::pair(tensor, d), t.shape[d]));
}
int64_t OpenNumbers::most(const BoundTensor& t, TensorId tensor, size_t d) const {
  return find_or(sizes_, std::pair(tensor, d), t.shape[d]).at(most_);
}

Condition OpenNumbers::condition(const Constraint& c, const Piece& piece) const {
  auto open = bounds_.find(&c);
  if (open != bounds_.end()) {
    return condition(c.form, open->second.first, open->second.second, piece);
  }
  Constraint k = integral(c);
  return condition(k.form, constant(k.lo), constant(k.hi), piece);
}

Condition OpenNumbers::inside(const Affine& index, const BoundTensor& t, TensorId tensor, size_t d,
                              const Piece& piece) const {
  auto open = sizes_.find({tensor, d});
  if (open != sizes_.end() && index.is_integral()) {
    return condition(index, constant(0), open->second, piece);
  }
  internal_check(open == sizes_.end(), "lower: a fraction of an open extent");
  return condition(Constraint{index, 0, t.shape[d], true}, piece);
}

// The range of a form grows evenly with the extent, so that what holds at both ends of the extents
// holds between them.
Condition OpenNumbers::condition(const Affine& form, const Growth& lo, const Growth& hi,
                                 const Piece& piece) const {
  Condition made{form, expression(lo), expression(hi), true, true};
  for (int64_t extent : {int64_t{1}, most_}) {
    FormRange e = range_over_box(form, any() ? box_at(piece, extent) : piece.box);
    made.never_below = made.never_below && e.lo >= Rational(lo.at(extent));
    made.never_above = made.never_above && e.hi < Rational(hi.at(extent));
    if (!any()) break;
  }
  return made;
}

IterationBox OpenNumbers::box_at(const Piece& piece, int64_t extent) const {
  IterationBox box = piece.box;
  for (IteratorId u : box.ids()) {
    auto at = walks_.find({&piece, u});
    if (at != walks_.end()) box[u] = at->second.at(extent);
  }
  return box;
}

std::optional<Growth> OpenNumbers::literal(const Node& node) const {
  auto at = literals_.find(&node);
  return at == literals_.end() ? std::nullopt : std::optional(at->second);
}

}  // namespace tile::lowering
