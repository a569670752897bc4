#include "core/distribute/needs.h"

#include <algorithm>
#include <optional>

#include "core/lattice/lattice.h"
#include "core/support/checked.h"

namespace tile {
namespace {

using lattice::Interval;

lattice::System domain_of(const BoundProgram& program, const Piece& piece) {
  lattice::System system;
  system.iterators = piece.iterators.size();
  auto add = [&](const Access& access) {
    const Shape& shape = program.tensors[access.tensor].shape;
    for (size_t d = 0; d < access.index.size(); ++d) {
      const Index& index = access.index[d];
      if (index.value >= 0 || index.boundary != Boundary::in_range) continue;
      system.conditions.push_back({index.affine, 0, shape[d], true});
    }
  };
  for (const Access& access : piece.stores) add(access);
  for (const Access& access : piece.loads) add(access);
  for (const Constraint& c : piece.constraints) {
    system.conditions.push_back({c.form, c.lo, c.hi, c.integral});
  }
  for (size_t i = 0; i < piece.box.size(); ++i) {
    system.conditions.push_back({iterator_affine(i), 0, piece.box[i], true});
  }
  return system;
}

size_t position_of(const Piece& piece, const std::string& iterator) {
  auto found = std::find(piece.iterators.begin(), piece.iterators.end(), iterator);
  internal_check(found != piece.iterators.end(), "needs: no such iterator");
  return static_cast<size_t>(found - piece.iterators.begin());
}

size_t used_iterators(const Affine& form) {
  return static_cast<size_t>(std::count_if(form.coefficients.begin(), form.coefficients.end(),
                                           [](const Rational& c) { return !c.is_zero(); }));
}

// Search nodes of one question whether some point has a value; what they leave open counts as yes,
// and a rank then gets a cell more than it reads.
constexpr int64_t kSearchNodes = 1 << 12;

// The values of each load's indices. A form of several iterators is one more iterator of the
// system, equal to it. What the relaxation bounds is exact where each condition is on one iterator;
// elsewhere the ends are moved to values that integer points have.
class IndexValues {
 public:
  IndexValues(const Piece& piece, lattice::System system)
      : domain_(std::move(system)), system_(domain_) {
    for (const lattice::Condition& c : domain_.conditions) {
      coupled_ = coupled_ || used_iterators(c.form) > 1 || !c.form.is_integral();
    }
    for (const Access& access : piece.loads) {
      for (const Index& index : access.index) {
        if (index.value < 0 && used_iterators(index.affine) > 1) add(index.affine);
      }
    }
    bounds_ = lattice::bounds(system_);
    if (bounds_.empty) return;
    for (const Interval& interval : bounds_.box) {
      if (interval.empty()) bounds_.empty = true;
    }
    internal_check(bounds_.empty || !bounds_.unbounded, "needs: an unbounded index passed bind");
  }

  bool empty() const { return bounds_.empty; }
  // Of the domain's iterators, at most.
  double points() const {
    double points = 1;
    for (size_t i = 0; i < domain_.iterators; ++i) {
      points *= static_cast<double>(bounds_.box[i].hi - bounds_.box[i].lo + 1);
    }
    return points;
  }

  Interval of(const Affine& form) const {
    Interval relaxed = relaxation(form);
    return coupled_ && !form.is_constant() ? tightened(form, relaxed) : relaxed;
  }

 private:
  Interval relaxation(const Affine& form) const {
    for (const auto& [known, iterator] : added_) {
      if (known == form) return bounds_.box[iterator];
    }
    return lattice::sum_of(form, bounds_.box);
  }

  bool has_none(const Affine& form, int64_t lo, int64_t hi) const {
    lattice::System asked = domain_;
    asked.conditions.push_back({form, lo, checked_add(hi, 1), true});
    return lattice::emptiness(asked, kSearchNodes) == lattice::Emptiness::empty;
  }

  // By bisection: the longest beginning and the longest end without a value.
  Interval tightened(const Affine& form, Interval values) const {
    if (has_none(form, values.lo, values.lo)) {
      int64_t none = values.lo, some = values.hi;
      while (none + 1 < some) {
        int64_t middle = none + (some - none) / 2;
        (has_none(form, values.lo, middle) ? none : some) = middle;
      }
      values.lo = some;
    }
    if (values.lo < values.hi && has_none(form, values.hi, values.hi)) {
      int64_t none = values.hi, some = values.lo;
      while (some + 1 < none) {
        int64_t middle = some + (none - some) / 2;
        (has_none(form, middle, values.hi) ? none : some) = middle;
      }
      values.hi = some;
    }
    return values;
  }

  void add(const Affine& form) {
    for (const auto& [known, iterator] : added_) {
      if (known == form) return;
    }
    size_t iterator = system_.iterators++;
    system_.conditions.push_back({iterator_affine(iterator) - form, 0, 1, true});
    added_.emplace_back(form, iterator);
  }

  lattice::System domain_;
  lattice::System system_;  // with the forms
  bool coupled_ = false;
  std::vector<std::pair<Affine, size_t>> added_;
  lattice::Bounds bounds_;
};

// One dimension of a need.
struct Reached {
  int64_t lo = 0, hi = 0;  // half-open
  Reach reach = Reach::ruled;
  int64_t shift = 0;
};

Reached clamped(Interval values, int64_t extent) {
  return {std::clamp<int64_t>(values.lo, 0, extent - 1),
          std::clamp<int64_t>(values.hi, 0, extent - 1) + 1, Reach::ruled, 0};
}

Reached in_dimension(Interval values, int64_t extent) {
  int64_t lo = std::clamp<int64_t>(values.lo, 0, extent);
  int64_t end = std::clamp<int64_t>(values.hi, -1, extent - 1) + 1;
  return {lo, std::max(lo, end), Reach::ruled, 0};
}

// The local tensor's own end does the mirroring, so that it stands where the dimension's end is.
Reached mirrored(Interval values, int64_t extent) {
  bool below = values.lo < 0, above = values.hi >= extent;
  if (below && !above && values.lo >= -extent) {
    return {0, std::max(values.hi + 1, -values.lo), Reach::ruled, 0};
  }
  if (above && !below && values.hi < checked_mul(2, extent)) {
    return {std::min(values.lo, 2 * extent - 1 - values.hi), extent, Reach::ruled, 0};
  }
  return {0, extent, Reach::ruled, 0};
}

Reached wrapped(Interval values, int64_t extent) {
  int64_t cells = checked_add(checked_sub(values.hi, values.lo), 1);
  if (cells >= extent) return {0, extent, Reach::ruled, 0};
  // The turn in which most of the window lies, so that windows of neighbours can be merged.
  int64_t turn = floor_div(values.lo + (values.hi - values.lo) / 2, extent);
  int64_t shift = checked_mul(turn, extent);
  int64_t lo = values.lo - shift, hi = values.hi - shift + 1;
  return {lo, hi, lo >= 0 && hi <= extent ? Reach::inside : Reach::wrapped, shift};
}

Reached reached(Interval values, int64_t extent, Boundary boundary) {
  if (extent == 0) return {};
  if (values.lo >= 0 && values.hi < extent) return {values.lo, values.hi + 1, Reach::inside, 0};
  switch (boundary) {
    case Boundary::clamp:
      return clamped(values, extent);
    case Boundary::mirror:
      return mirrored(values, extent);
    case Boundary::wrap:
      return wrapped(values, extent);
    default:  // in range: what lies outside is no point
      return in_dimension(values, extent);
  }
}

// Takes the values away that lead a form of one iterator out of [lo, hi); whether a form of none is
// outside.
bool narrow(std::vector<Interval>& values, const Affine& form, int64_t lo, int64_t hi) {
  int64_t constant = form.constant.num();
  for (size_t i = 0; i < form.coefficients.size(); ++i) {
    if (form.coefficients[i].is_zero()) continue;
    int64_t factor = form.coefficients[i].num();
    int64_t first = checked_sub(lo, constant), last = checked_sub(checked_sub(hi, 1), constant);
    if (factor < 0) {
      factor = -factor;
      std::swap(first, last);
      first = -first;
      last = -last;
    }
    values[i].lo = std::max(values[i].lo, -floor_div(-first, factor));
    values[i].hi = std::min(values[i].hi, floor_div(last, factor));
    return false;
  }
  return constant < lo || constant >= hi;
}

template <class Values>
Need need_of(const BoundProgram& program, const Access& load, const Values& values) {
  const Shape& shape = program.tensors[load.tensor].shape;
  Need need;
  for (size_t d = 0; d < shape.size(); ++d) {
    const Index& index = load.index[d];
    Reached r{0, shape[d], Reach::ruled, 0};
    if (index.value < 0) r = reached(values(index.affine), shape[d], index.boundary);
    need.box.lo.push_back(r.lo);
    need.box.hi.push_back(r.hi);
    need.reach.push_back(r.reach);
    need.shift.push_back(r.shift);
  }
  return need;
}

}  // namespace

PieceImages::PieceImages(const BoundProgram& program, const Piece& piece)
    : program_(program), piece_(piece), domain_(domain_of(program, piece)) {
  bounds_ = lattice::bounds(domain_);
  simple_ = lattice::SimpleSystem::of(domain_, bounds_);
}

std::optional<PieceNeeds> PieceImages::without_search(const Box& stores,
                                                      const std::vector<IndexRange>& ranges) const {
  std::vector<Interval> values = bounds_.box;
  std::vector<lattice::Condition> tied;
  bool none = stores.empty();
  for (const Access& store : piece_.stores) {
    for (size_t d = 0; d < store.index.size(); ++d) {
      const Affine& form = store.index[d].affine;
      if (!form.is_integral()) return std::nullopt;
      if (used_iterators(form) > 1) {
        tied.push_back({form, stores.lo[d], stores.hi[d], true});
      } else {
        none = narrow(values, form, stores.lo[d], stores.hi[d]) || none;
      }
    }
  }
  for (const IndexRange& range : ranges) {
    size_t iterator = position_of(piece_, range.name);
    none = narrow(values, iterator_affine(iterator), range.lo, range.hi) || none;
  }
  std::optional<lattice::SimpleSystem::Part> part = simple_->part(std::move(values), tied);
  if (!part) return std::nullopt;
  PieceNeeds needs;
  needs.points = 1;
  for (const Interval& interval : part->values()) {
    none = none || interval.empty();
    needs.points *= static_cast<double>(interval.hi - interval.lo + 1);
  }
  if (none) return PieceNeeds{true, {}, 0};
  bool known = true;
  for (const Access& load : piece_.loads) {
    needs.loads.push_back(need_of(program_, load, [&](const Affine& form) {
      std::optional<Interval> image = part->of(form);
      known = known && image;
      return image.value_or(Interval{0, 0});
    }));
  }
  return known ? std::optional(std::move(needs)) : std::nullopt;
}

PieceNeeds PieceImages::of(const Box& stores, const std::vector<IndexRange>& ranges) const {
  if (simple_) {
    if (std::optional<PieceNeeds> needs = without_search(stores, ranges)) return *std::move(needs);
  }
  PieceNeeds needs;
  needs.empty = stores.empty() || bounds_.empty;
  lattice::System system = domain_;
  for (const Access& store : piece_.stores) {
    for (size_t d = 0; d < store.index.size(); ++d) {
      system.conditions.push_back({store.index[d].affine, stores.lo[d], stores.hi[d], true});
    }
  }
  for (const IndexRange& range : ranges) {
    needs.empty = needs.empty || range.lo >= range.hi;
    system.conditions.push_back(
        {iterator_affine(position_of(piece_, range.name)), range.lo, range.hi, true});
  }
  if (needs.empty) return needs;
  IndexValues values(piece_, std::move(system));
  needs.empty = values.empty();
  if (needs.empty) return needs;
  needs.points = values.points();
  for (const Access& load : piece_.loads) {
    needs.loads.push_back(
        need_of(program_, load, [&](const Affine& form) { return values.of(form); }));
  }
  return needs;
}

PieceNeeds needs_of(const BoundProgram& program, const Piece& piece, const Box& stores,
                    const std::vector<IndexRange>& ranges) {
  return PieceImages(program, piece).of(stores, ranges);
}

IndexRange range_of(const BoundProgram& program, const Piece& piece, const std::string& iterator) {
  lattice::Bounds bounds = lattice::bounds(domain_of(program, piece));
  size_t at = position_of(piece, iterator);
  if (bounds.empty || bounds.box[at].empty()) return {iterator, 0, 0};
  internal_check(!bounds.unbounded, "needs: an unbounded index passed bind");
  return {iterator, bounds.box[at].lo, checked_add(bounds.box[at].hi, 1)};
}

std::vector<NeedPart> unwrapped(const Box& box, const Shape& shape) {
  if (box.empty()) return {};
  std::vector<NeedPart> parts{{box, box.lo}};
  for (size_t d = 0; d < shape.size(); ++d) {
    if (box.lo[d] >= 0 && box.hi[d] <= shape[d]) continue;
    std::vector<NeedPart> cut;
    for (const NeedPart& part : parts) {
      for (int64_t lo = box.lo[d]; lo < box.hi[d];) {
        int64_t turn = checked_mul(floor_div(lo, shape[d]), shape[d]);
        int64_t hi = std::min(box.hi[d], turn + shape[d]);
        cut.push_back(part);
        cut.back().at[d] = lo;
        cut.back().cells.lo[d] = lo - turn;
        cut.back().cells.hi[d] = hi - turn;
        lo = hi;
      }
    }
    parts = std::move(cut);
  }
  return parts;
}

}  // namespace tile
