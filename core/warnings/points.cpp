// Which points a contraction has: none, or fewer than its output has cells. The points are the
// integers that satisfy a system of conditions (rule 4.1), whose emptiness the lattice decides.
#include <algorithm>
#include <optional>

#include "core/lattice/lattice.h"
#include "core/support/checked.h"
#include "core/warnings/checks.h"

namespace tile::warnings {
namespace {

using lattice::Condition;
using lattice::Emptiness;
using lattice::System;

constexpr int64_t kWork = 1 << 12;       // search nodes for each question
constexpr size_t kMostConditions = 256;  // each is asked about beside all others

// A condition and what it comes from.
struct Source {
  Condition condition;
  const Access* access = nullptr;  // its dimension d is read or written
  size_t dimension = 0;
  const SymbolicConstraint* constraint = nullptr;
};

class Points {
 public:
  explicit Points(const Checked& checked) : c_(checked), piece_(checked.contraction.pieces[0]) {
    for (const Access& access : piece_.stores) add(access);
    for (const Access& access : piece_.loads) add(access);
    for (size_t k = 0; k < piece_.constraints.size(); ++k) {
      const Constraint& bound = piece_.constraints[k];
      Source source{{bound.form, bound.lo, bound.hi, bound.integral}};
      source.constraint = &c_.symbolic.constraints.at(k);
      sources_.push_back(source);
    }
  }

  void check(Warnings& list) const {
    if (sources_.size() > kMostConditions) return;
    if (emptiness(conditions(nullptr)) == Emptiness::empty) return empty(list);
    for (const Source& source : sources_) {
      if (source.constraint != nullptr) check_always(source, list);
    }
    if (!c_.contraction.fill) check_reach(list);
  }

 private:
  static Emptiness emptiness(const System& system) { return lattice::emptiness(system, kWork); }

  void add(const Access& access) {
    const Shape& shape = c_.tensor(access.tensor).shape;
    for (size_t d = 0; d < access.index.size(); ++d) {
      const Index& index = access.index[d];
      if (index.value >= 0 || index.boundary != Boundary::in_range) continue;
      sources_.push_back({{index.affine, 0, shape[d], true}, &access, d, nullptr});
    }
  }

  // Without one of the conditions, unless null.
  System conditions(const Source* without) const {
    System s{piece_.iterators.size(), {}};
    for (const Source& source : sources_) {
      if (&source != without) s.conditions.push_back(source.condition);
    }
    return s;
  }

  // Conditions are asked one by one whether the others have a point: what was written last first,
  // since it was added to what came before.
  void empty(Warnings& list) const {
    const Source* culprit = nullptr;
    for (size_t i = sources_.size(); i-- > 0 && culprit == nullptr;) {
      if (emptiness(conditions(&sources_[i])) == Emptiness::inhabited) culprit = &sources_[i];
    }
    std::string cells =
        "every cell of " + c_.name + " is " + (c_.contraction.fill ? "its default's" : "0");
    if (culprit != nullptr && culprit->constraint != nullptr) {
      const SymbolicConstraint& k = *culprit->constraint;
      return warn(list, Stage::bind, "empty", k.span,
                  "no point meets this condition and all others: " + cells,
                  "0 <= " + to_string(k.form) + " < " + to_string(k.bound) +
                      " is required; see what bounds its indices");
    }
    warn(list, Stage::bind, "empty",
         culprit != nullptr ? culprit->access->span : c_.symbolic.out_span,
         "no point is inside of all that this contraction reads and writes: " + cells,
         "a point takes part only where every access is inside its tensor, also in an arm of a "
         "choice that is not taken; divide the cases with slice and concat, or with two statements "
         "and a default");
  }

  // A single index below a number is a bound that documents itself; short ranges make conditions
  // hold by chance.
  void check_always(const Source& source, Warnings& list) const {
    const SymbolicConstraint& k = *source.constraint;
    const Affine& form = source.condition.form;
    size_t moving = 0;
    lattice::Bounds box = lattice::bounds(conditions(nullptr));
    if (box.empty || box.unbounded) return;
    for (size_t i = 0; i < piece_.iterators.size(); ++i) {
      if (form.coefficient(i).is_zero()) continue;
      ++moving;
      if (box.box[i].hi - box.box[i].lo < 1) return;
    }
    if (moving < 2) return;
    System below = conditions(&source), above = below;
    below.conditions.push_back({form, kLeast, source.condition.lo, false});
    above.conditions.push_back({form, source.condition.hi, kMost, false});
    if (emptiness(below) != Emptiness::empty || emptiness(above) != Emptiness::empty) return;
    warn(list, Stage::bind, "always", k.span, "this condition holds at every point",
         "0 <= " + to_string(k.form) + " < " + to_string(k.bound) +
             " follows from the bounds of its indices for these shapes");
  }

  // Cells beyond what a plain index or number reaches: `O[i: 10] = +(A[i])` with 5 elements of A,
  // and cells between, where a quotient is no whole number: `O[i: 10] = +(A[i / 2])`. Other forms
  // leave cells out on purpose, as `O[2*i: N]` and `O[i + 1: N + 2]` do.
  void check_reach(Warnings& list) const {
    const Access& store = piece_.stores[0];
    for (size_t d = 0; d < c_.symbolic.out_index.size(); ++d) {
      const Expr& e = c_.symbolic.out_index[d];
      int64_t size = c_.result().shape[d];
      bool plain = e.kind() == ExprKind::variable || e.is_constant();
      if (!plain) continue;
      const Affine& form = store.index[d].affine;
      std::optional<lattice::Interval> reach = range(form);
      if (!reach || reach->empty()) continue;
      std::string cells;
      bool divided = is_divided(form);
      if (divided && size > 2 && leaves_out(form, reach->lo + 1)) {
        cells = indices(reach->lo + 1, reach->lo + 2) + " (and others between)";
      }
      if (reach->lo > 0) cells = indices(0, reach->lo) + (cells.empty() ? "" : " and " + cells);
      if (reach->hi < size - 1) {
        cells += (cells.empty() ? "" : " and ") + indices(reach->hi + 1, size);
      }
      if (cells.empty()) continue;
      warn(list, Stage::bind, "unreached", c_.symbolic.out_span,
           "no point reaches the cells of " + c_.name + " with " + cells + " in dimension " +
               std::to_string(d) + ", which are 0",
           divided
               ? "a quotient of indices is exact, and a point counts where it is a whole number; "
                 "elements are repeated by O[2 * i + k: 2 * N] = +(A[i]), k < 2"
               : "the extent there is " + std::to_string(size) +
                     "; give the cells another value with `default`, or the output another size");
    }
  }

  // Whether an index of what is read divides one of the form's.
  bool is_divided(const Affine& form) const {
    return std::any_of(sources_.begin(), sources_.end(), [&](const Source& source) {
      for (size_t i = 0; i < piece_.iterators.size(); ++i) {
        bool fraction = !source.condition.form.coefficient(i).is_integer();
        if (fraction && !form.coefficient(i).is_zero()) return true;
      }
      return false;
    });
  }
  bool leaves_out(const Affine& form, int64_t at) const {
    System s = conditions(nullptr);
    s.conditions.push_back({form, at, at + 1, true});
    return emptiness(s) == Emptiness::empty;
  }

  static std::string indices(int64_t from, int64_t to) {
    if (to - from == 1) return "index " + std::to_string(from);
    return "indices " + std::to_string(from) + " to " + std::to_string(to - 1);
  }

  // What the form takes, at most.
  std::optional<lattice::Interval> range(const Affine& form) const {
    System s = conditions(nullptr);
    Affine difference = iterator_affine(s.iterators) - form;
    ++s.iterators;
    s.conditions.push_back({difference, 0, 1, true});
    lattice::Bounds bounds = lattice::bounds(s);
    if (bounds.unbounded) return std::nullopt;
    return bounds.empty ? lattice::Interval{} : bounds.box.back();
  }

  static constexpr int64_t kLeast = -(int64_t{1} << 40), kMost = int64_t{1} << 40;

  const Checked& c_;
  const Piece& piece_;
  std::vector<Source> sources_;
};

}  // namespace

void check_points(const Checked& checked, Warnings& list) {
  const Piece& piece = checked.contraction.pieces[0];
  auto has_elements = [&](const Access& a) {
    return element_count(checked.tensor(a.tensor).shape) > 0;
  };
  // Over an empty tensor nothing is a surprise.
  bool all = std::all_of(piece.stores.begin(), piece.stores.end(), has_elements) &&
             std::all_of(piece.loads.begin(), piece.loads.end(), has_elements);
  if (!all) return;
  try {
    Points(checked).check(list);
  } catch (const Overflow&) {  // numbers that the lattice cannot hold: nothing is known
  }
}

}  // namespace tile::warnings
