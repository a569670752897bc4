#include "core/autodiff/derivation/boundary_cases.h"

#include <algorithm>

#include "core/simplify/simplify.h"

namespace tile {
Ranges known_ranges(const Program& program, const SymbolicContraction& contraction) {
  Ranges ranges;
  for (const SizeCheck& check : program.checks) {
    bool least = check.relation == SizeCheck::Relation::at_least &&
                 check.left.kind() == ExprKind::variable && check.right.is_constant();
    if (least) ranges.of[check.left.name()] = {check.right, std::nullopt};
  }
  auto bound = [&](const Expr& form, const Expr& size) {
    if (form.kind() == ExprKind::variable) ranges.set(form.name(), 0, size - 1);
  };
  for (size_t d = 0; d < contraction.out_index.size(); ++d) {
    bound(contraction.out_index[d], contraction.out_size[d]);
  }
  for (const SymbolicConstraint& k : contraction.constraints) bound(k.form, k.bound);
  return ranges;
}

namespace {

// More cases, or more quotients with their remainders, than these are refused.
constexpr size_t kMaxCases = 256;
constexpr size_t kMaxDigits = 4;

class Enumeration {
 public:
  Enumeration(const Derivation& derivation, const SymbolicContraction& contraction,
              const SymbolicAccess& access)
      : derivation_(derivation),
        contraction_(contraction),
        access_(access),
        ranges_(known_ranges(derivation.program, contraction)) {}

  std::optional<std::vector<BoundaryCase>> run() {
    try {
      return cases();
    } catch (const Refused&) {
      return std::nullopt;
    }
  }

 private:
  using Cases = std::vector<BoundaryCase>;

  Cases cases() {
    Cases all = {BoundaryCase{}};
    for (size_t d = 0; d < access_.index.size(); ++d) {
      if (d < access_.values.size() && access_.values[d] >= 0) throw Refused();
      Boundary boundary = d < access_.boundary.size() ? access_.boundary[d] : Boundary::in_range;
      all = product(all, dimension(boundary, d));
    }
    for (BoundaryCase& one : all) append(one, digits_);
    return all;
  }

  struct Refused {};  // thrown inside an enumeration

  static void append(BoundaryCase& to, const BoundaryCase& more) {
    to.index.insert(to.index.end(), more.index.begin(), more.index.end());
    to.constraints.insert(to.constraints.end(), more.constraints.begin(), more.constraints.end());
    to.indices.insert(to.indices.end(), more.indices.begin(), more.indices.end());
  }
  Cases product(const Cases& a, const Cases& b) const {
    if (a.size() * b.size() > kMaxCases) throw Refused();
    Cases all;
    for (const BoundaryCase& one : a) {
      for (const BoundaryCase& other : b) {
        all.push_back(one);
        append(all.back(), other);
      }
    }
    return all;
  }

  // What does not use an index is a number.
  bool is_affine(const Expr& e) const {
    switch (e.kind()) {
      case ExprKind::constant:
      case ExprKind::variable:
        return true;
      case ExprKind::add:
      case ExprKind::sub:
      case ExprKind::mul:
      case ExprKind::neg:
      case ExprKind::exact_div:
        return std::all_of(e.args().begin(), e.args().end(),
                           [this](const Expr& arg) { return is_affine(arg); });
      default:
        return is_index_free(e);
    }
  }
  bool is_index_free(const Expr& e) const {
    auto used = [&](const std::string& name) { return uses_variable(e, name); };
    return std::none_of(contraction_.indices.begin(), contraction_.indices.end(), used) &&
           std::none_of(digits_.indices.begin(), digits_.indices.end(), used);
  }

  BoundaryCase read(Expr index) const { return {{std::move(index)}, {}, {}}; }
  // `index` where `slack` >= 0, as far as the case `of` goes; nothing where the ranges exclude it.
  void add_where(Cases& cases, const BoundaryCase& of, Expr index, const Expr& slack) const {
    if (prove_less(slack, 0, ranges_) == true) return;
    BoundaryCase one = of;
    one.index = {std::move(index)};
    if (prove_less(-1, slack, ranges_) != true) {
      one.constraints.push_back({slack, Expr(kFar), access_.span});
    }
    cases.push_back(std::move(one));
  }

  Cases dimension(Boundary boundary, size_t d) {
    Expr n = derivation_.extent(access_.tensor, d);
    Cases out;
    for (const BoundaryCase& raw : pieces(access_.index[d])) {
      Expr i = raw.index[0];
      if (boundary == Boundary::in_range || boundary == Boundary::constant) {
        out.push_back(raw);
      } else if (boundary == Boundary::clamp) {
        out.push_back(raw);
        add_where(out, raw, 0, -1 - i);
        add_where(out, raw, n - 1, i - n);
      } else {
        std::string turn = fresh();
        BoundaryCase periodic = raw;
        periodic.indices.push_back(turn);
        Expr turns = n * Expr::variable(turn);
        bool wraps = boundary == Boundary::wrap;
        periodic.index = {wraps ? i + turns : i + 2 * turns};
        out.push_back(periodic);
        periodic.index = {2 * turns - 1 - i};
        if (!wraps) out.push_back(periodic);
      }
    }
    return out;
  }

  // An index as affine forms, each with the points where it is the value.
  Cases pieces(const Expr& e) {
    if (is_affine(e)) return {read(e)};
    switch (e.kind()) {
      case ExprKind::add:
      case ExprKind::sub:
      case ExprKind::mul:
      case ExprKind::neg:
        return arithmetic(e);
      case ExprKind::min:
      case ExprKind::max:
        return extremum(e);
      case ExprKind::trunc_div:
      case ExprKind::floor_div:
      case ExprKind::trunc_mod:
      case ExprKind::floor_mod:
        return digit(e);
      case ExprKind::select:
        if (e.args()[0].kind() == ExprKind::less) return choice(e);
        break;
      default:
        break;
    }
    throw Refused();
  }

  Cases arithmetic(const Expr& e) {
    Cases all = {BoundaryCase{}};
    for (const Expr& arg : e.args()) all = product(all, pieces(arg));
    for (BoundaryCase& one : all) one.index = {build(e.kind(), one.index)};
    return all;
  }

  Cases extremum(const Expr& e) {
    bool least = e.kind() == ExprKind::min;
    Cases all = pieces(e.args()[0]);
    for (size_t i = 1; i < e.args().size(); ++i) {
      Cases next;
      for (const BoundaryCase& pair : product(all, pieces(e.args()[i]))) {
        Expr a = pair.index[0], b = pair.index[1], above = least ? b - a : a - b;
        add_where(next, pair, a, above);
        add_where(next, pair, b, -1 - above);
      }
      all = std::move(next);
    }
    return all;
  }

  Cases choice(const Expr& e) {
    Cases out;
    Cases sides = product(pieces(e.args()[0].args()[0]), pieces(e.args()[0].args()[1]));
    for (const BoundaryCase& one : sides) {
      Expr gap = one.index[1] - one.index[0];
      for (size_t arm : {size_t{1}, size_t{2}}) {
        BoundaryCase condition = one;
        condition.index.clear();
        for (const BoundaryCase& value : product({condition}, pieces(e.args()[arm]))) {
          add_where(out, value, value.index[0], arm == 1 ? gap - 1 : -gap);
        }
      }
    }
    return out;
  }

  // Quotients and remainders become indices of their own: a = q * n + r with 0 <= r < n. Rounding
  // toward zero is rounding down of what is not negative.
  Cases digit(const Expr& e) {
    bool quotient = e.kind() == ExprKind::trunc_div || e.kind() == ExprKind::floor_div;
    bool down = e.kind() == ExprKind::floor_div || e.kind() == ExprKind::floor_mod;
    const Expr by = e.args()[1];
    if (!is_affine(by)) throw Refused();
    Cases out;
    for (const BoundaryCase& one : pieces(e.args()[0])) {
      Expr a = one.index[0];
      auto value = [&](const Expr& of) {
        const Digits pair = digits_of(of, by);
        return quotient ? pair.quotient : pair.remainder;
      };
      BoundaryCase plain = one;
      if (down || prove_less(-1, a, ranges_) == true) {
        plain.index = {value(a)};
        out.push_back(std::move(plain));
        continue;
      }
      add_where(out, one, value(a), a);
      add_where(out, one, -value(-a), -1 - a);
    }
    return out;
  }

  struct Digits {
    Expr of, by, quotient, remainder;
  };
  Digits digits_of(const Expr& of, const Expr& by) {
    for (const Digits& known : pairs_) {
      if (known.of == of && known.by == by) return known;
    }
    if (pairs_.size() == kMaxDigits) throw Refused();
    std::string q = fresh(), r = fresh();
    digits_.indices.insert(digits_.indices.end(), {q, r});
    Digits pair{of, by, Expr::variable(q), Expr::variable(r)};
    digits_.constraints.push_back({pair.remainder, by, access_.span});
    digits_.constraints.push_back({of - pair.quotient * by - pair.remainder, 1, access_.span});
    if (prove_less(-1, of, ranges_) == true) ranges_.of[q] = {Expr(0), std::nullopt};
    ranges_.set(r, 0, by - 1);
    pairs_.push_back(pair);
    return pair;
  }

  std::string fresh() {
    auto taken = [&](const std::string& name) {
      return std::find(contraction_.indices.begin(), contraction_.indices.end(), name) !=
                 contraction_.indices.end() ||
             ranges_.of.contains(name);
    };
    std::string name = "turn";
    do {
      name += std::to_string(turns_++);
    } while (taken(name));
    return name;
  }

  const Derivation& derivation_;
  const SymbolicContraction& contraction_;
  const SymbolicAccess& access_;
  Ranges ranges_;
  std::vector<Digits> pairs_;
  BoundaryCase digits_;  // without index: what the pairs add to every case
  int turns_ = 0;
};

}  // namespace

std::optional<std::vector<BoundaryCase>> boundary_cases(const Derivation& derivation,
                                                        const SymbolicContraction& contraction,
                                                        const SymbolicAccess& access) {
  return Enumeration(derivation, contraction, access).run();
}

}  // namespace tile
