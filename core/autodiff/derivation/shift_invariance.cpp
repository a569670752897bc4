// Proof. T stands for a tensor as an input of the statements after it. If d of / dT = 0 as a
// function, then by the chain rule the terms of every gradient that pass through T add up to
// d of / dT times dT / dx = 0, and T's adjoint may be taken as zero. Of several such tensors all
// may be: if T2 is made of T1, d of / dT1 with T2 held fixed is d of / dT1 - d of / dT2 dT2 / dT1 =
// 0.
//
// d of / dT is followed from statement to statement as a degree (degree.h): an additive one starts
// with dT/dT = 1; a multiplicative one follows T d/dT, and starts with T d/dT T = T. A sum over
// points of one cell of T keeps a multiplicative degree, since the derivative of a sum of multiples
// of c is c times the sum; an extremum keeps both kinds, since all its points are moved alike.
#include "core/autodiff/derivation/shift_invariance.h"

#include <algorithm>
#include <map>

#include "core/autodiff/derivation/cells.h"
#include "core/autodiff/derivation/degree.h"
#include "core/autodiff/derivation/derivation.h"
#include "core/support/control.h"

namespace tile {
namespace {

using Kind = Degree::Kind;

// Statements that one tensor's degree is followed through. A norm or a softmax takes a dozen, and
// degrees of all tensors of a long chain would take the square of its length.
constexpr int kMostFollowed = 128;

class Walk {
 public:
  Walk(const Program& program, const SymbolicShapes& shapes, const IdVector<TensorId, bool>& needed)
      : program_(program), shapes_(shapes), needed_(needed) {}

  bool is_fixed(TensorId of, TensorId tensor, Kind kind) {
    degrees_.clear();
    if (!start(tensor, kind)) return false;
    int followed = 0;
    for (const Statement& s : program_.statements) {
      bool reads = s.result > tensor && needed_[s.result] && reads_moved(s);
      if (!reads) continue;
      if (++followed > kMostFollowed) return false;
      checkpoint();
      Degree degree = std::visit([&](const auto& what) { return result(s, what); }, s.what);
      if (degree.is_unknown()) return false;
      if (!degree.is_fixed()) degrees_[s.result] = std::move(degree);
    }
    return !degrees_.contains(of);
  }

 private:
  const SymbolicShape& shape(TensorId id) const { return shapes_[id]; }

  bool start(TensorId tensor, Kind kind) {
    if (!shape(tensor).ranked) return false;
    Degree degree{kind, Coefficient(1), {}};
    for (size_t d = 0; d < shape(tensor).dims.size(); ++d) {
      const std::optional<Expr>& extent = shape(tensor).dims[d];
      degree.cell.push_back(extent && extent->is_constant(1) ? Expr(0) : cell_name(d));
    }
    degrees_[tensor] = std::move(degree);
    return true;
  }

  Degree of(TensorId id) const {
    auto found = degrees_.find(id);
    return found == degrees_.end() ? Degree{} : found->second;
  }

  bool reads_moved(const Statement& s) const {
    auto any = [&](const std::vector<TensorId>& ids) {
      return std::any_of(ids.begin(), ids.end(),
                         [&](TensorId id) { return degrees_.contains(id); });
    };
    if (const auto* e = std::get_if<Elementwise>(&s.what)) return any(e->operands);
    if (const auto* call = std::get_if<Call>(&s.what)) return any(call->tensors);
    const auto* c = std::get_if<SymbolicContraction>(&s.what);
    if (c == nullptr) return false;
    return (c->default_tensor && degrees_.contains(*c->default_tensor)) ||
           std::any_of(c->accesses.begin(), c->accesses.end(),
                       [&](const SymbolicAccess& a) { return degrees_.contains(a.tensor); });
  }

  // --- elementwise -------------------------------------------------------------------------------

  // The place that an operand is read at for the result's cell; nullopt: the text does not say.
  std::optional<Expr> broadcast(TensorId operand, TensorId result, size_t d) const {
    const SymbolicShape &from = shape(operand), &to = shape(result);
    if (!from.ranked || !to.ranked || from.dims.size() > to.dims.size()) return std::nullopt;
    size_t at = to.dims.size() - from.dims.size() + d;
    const std::optional<Expr>&a = from.dims[d], &b = to.dims[at];
    if (a && b && *a == *b) return cell_name(at);
    if (a && a->is_constant(1)) return Expr(0);
    return std::nullopt;
  }
  // An expression over cell_name of `operand` as one over those of `result`.
  std::optional<Expr> broadcast(TensorId operand, TensorId result, const Expr& e) const {
    std::map<std::string, Expr> places;
    for (size_t d = 0; d < shape(operand).dims.size(); ++d) {
      if (!uses_variable(e, cell_name(d).name())) continue;
      std::optional<Expr> place = broadcast(operand, result, d);
      if (!place) return std::nullopt;
      places[cell_name(d).name()] = *place;
    }
    return substitute(e, places);
  }

  Degree result(const Statement& s, const Elementwise& e) const {
    BodyReads reads;
    reads.degree = [&](const Node& load) {
      TensorId id = e.operands[load.slot];
      return moved(of(id), [&](const Expr& place) { return broadcast(id, s.result, place); });
    };
    reads.describe = [&](const Node& load, Factor& factor) {
      TensorId id = e.operands[load.slot];
      if (!shape(id).ranked) return false;
      factor.text += "t" + to_string(id);
      for (size_t d = 0; d < shape(id).dims.size(); ++d) {
        std::optional<Expr> place = broadcast(id, s.result, d);
        if (!place) return false;
        factor.at.push_back(*place);
      }
      return true;
    };
    reads.index = [](int) { return Expr(0); };
    return degrees_of(e.body, reads)[0];
  }

  // --- contractions ------------------------------------------------------------------------------

  Degree read(const SymbolicAccess& access) const {
    Degree degree = of(access.tensor);
    if (degree.is_fixed()) return degree;
    // Zero outside is a multiple of anything.
    if (degree.kind == Kind::additive && !reads_in_range(access)) return Degree::unknown();
    return moved(degree, [&](const Expr& place) -> std::optional<Expr> {
      std::map<std::string, Expr> places;
      for (size_t d = 0; d < access.index.size(); ++d) {
        const std::string name = cell_name(d).name();
        if (uses_variable(place, name) && !in_range(access, d)) return std::nullopt;
        places[name] = access.index[d];
      }
      return substitute(place, places);
    });
  }

  static bool describe(const SymbolicAccess& access, Factor& factor) {
    if (!reads_in_range(access)) return false;
    factor.text += "t" + to_string(access.tensor);
    factor.at.insert(factor.at.end(), access.index.begin(), access.index.end());
    return true;
  }

  Degree result(const Statement&, const SymbolicContraction& c) const {
    BodyReads reads;
    reads.degree = [&](const Node& n) { return read(c.accesses[n.slot]); };
    reads.describe = [&](const Node& n, Factor& f) { return describe(c.accesses[n.slot], f); };
    reads.index = [&](size_t slot) { return Expr::variable(c.indices[slot]); };
    std::vector<Degree> parts = degrees_of(c.body, reads);
    bool fixed =
        std::all_of(parts.begin(), parts.end(), [](const Degree& d) { return d.is_fixed(); });
    bool moves_default = c.default_tensor && degrees_.contains(*c.default_tensor);
    if (fixed && !moves_default) return {};
    if (c.components != 0 || c.default_tensor) return Degree::unknown();
    return aggregated(c, parts[0]);
  }
  Degree aggregated(const SymbolicContraction& c, const Degree& point) const {
    bool additive = point.kind == Kind::additive;
    switch (c.aggregation) {
      case Aggregation::sum:
        if (additive && !has_single_points(c)) return Degree::unknown();
        break;
      case Aggregation::product:
        if (!has_single_points(c)) return Degree::unknown();
        break;
      default:
        break;
    }
    // An empty cell holds zero.
    if (additive && !whole_ranges(c, shapes_)) return Degree::unknown();
    return moved(point, [&](const Expr& e) { return in_cell(c, e); });
  }

  // --- whole tensors -----------------------------------------------------------------------------

  Degree result(const Statement&, const Literal&) const { return {}; }
  Degree result(const Statement&, const Repeat&) const { return {}; }  // written out before

  // The degree with dimension d of the cell standing at to[d]; unknown where a place needs one that
  // stands nowhere.
  static Degree renumbered(const Degree& degree, const std::vector<std::optional<Expr>>& to) {
    return moved(degree, [&](const Expr& e) -> std::optional<Expr> {
      std::map<std::string, Expr> places;
      for (size_t d = 0; d < to.size(); ++d) {
        const std::string name = cell_name(d).name();
        if (uses_variable(e, name) && !to[d]) return std::nullopt;
        if (to[d]) places[name] = *to[d];
      }
      return substitute(e, places);
    });
  }
  std::vector<std::optional<Expr>> same_places(TensorId id) const {
    std::vector<std::optional<Expr>> places;
    for (size_t d = 0; d < shape(id).dims.size(); ++d) places.emplace_back(cell_name(d));
    return places;
  }

  Degree result(const Statement& s, const Call& call) const {
    switch (call.function) {
      case Function::shape:
      case Function::index:
      case Function::argmax:
      case Function::argmin:
      case Function::argsort:
        return {};
      default:
        break;
    }
    bool first_only = std::none_of(call.tensors.begin() + 1, call.tensors.end(),
                                   [&](TensorId id) { return degrees_.contains(id); });
    TensorId from = call.tensors[0];
    if (!shape(from).ranked) return Degree::unknown();
    switch (call.function) {
      case Function::sum_to:
        return sum_to(of(from), from, call.tensors[1]);
      case Function::reshape:
        return reshaped(of(from), from, s.result);
      case Function::reshape_like:
        return reshaped(of(from), from, call.tensors[1]);
      case Function::transpose:
        return transposed(of(from), call);
      case Function::sort:
      case Function::slice:
        return first_only ? along(of(from), from, call.sizes[0], true) : Degree::unknown();
      case Function::cumsum:
        return first_only ? along(of(from), from, call.sizes[0], false) : Degree::unknown();
      default:
        return Degree::unknown();
    }
  }

  // Places stay where only dimensions of size one come and go.
  Degree reshaped(const Degree& degree, TensorId from, TensorId like) const {
    if (!shape(like).ranked) return Degree::unknown();
    const std::vector<std::optional<Expr>>&a = shape(from).dims, &b = shape(like).dims;
    auto is_one = [](const std::optional<Expr>& e) { return e && e->is_constant(1); };
    std::vector<std::optional<Expr>> places(a.size());
    size_t at = 0;
    for (size_t d = 0; d < a.size(); ++d) {
      if (is_one(a[d])) {
        places[d] = Expr(0);
        continue;
      }
      while (at < b.size() && is_one(b[at])) ++at;
      if (at == b.size() || !a[d] || !b[at] || !(*a[d] == *b[at])) return Degree::unknown();
      places[d] = cell_name(at++);
    }
    while (at < b.size() && is_one(b[at])) ++at;
    return at == b.size() ? renumbered(degree, places) : Degree::unknown();
  }

  // A sum over what was broadcast: the places along other dimensions stay.
  Degree sum_to(const Degree& degree, TensorId from, TensorId to) const {
    if (degree.is_fixed() || degree.is_unknown()) return degree;
    if (degree.kind == Kind::additive || !shape(to).ranked) return Degree::unknown();
    size_t ranks = shape(from).dims.size(), kept = shape(to).dims.size();
    std::vector<std::optional<Expr>> places(ranks);
    for (size_t d = 0; d < ranks && kept <= ranks; ++d) {
      if (d < ranks - kept) continue;
      const std::optional<Expr>&a = shape(from).dims[d], &b = shape(to).dims[d - (ranks - kept)];
      if (a && b && *a == *b) places[d] = cell_name(d - (ranks - kept));
    }
    return renumbered(degree, places);
  }
  Degree transposed(const Degree& degree, const Call& call) const {
    std::vector<std::optional<Expr>> places(call.sizes.size());
    for (size_t d = 0; d < call.sizes.size(); ++d) {
      const Expr& axis = call.sizes[d];
      bool known = axis.is_constant() && axis.value() >= 0 &&
                   axis.value() < static_cast<int64_t>(places.size());
      if (!known) return Degree::unknown();
      places[static_cast<size_t>(axis.value())] = cell_name(d);
    }
    return renumbered(degree, places);
  }
  // Elements of one line along the axis stay on it; `moves`: and are no sums.
  Degree along(const Degree& degree, TensorId from, const Expr& axis, bool moves) const {
    bool known = axis.is_constant() && axis.value() >= 0 &&
                 axis.value() < static_cast<int64_t>(shape(from).dims.size());
    if (!known || (!moves && degree.kind == Kind::additive)) return Degree::unknown();
    std::vector<std::optional<Expr>> places = same_places(from);
    places[static_cast<size_t>(axis.value())].reset();
    return renumbered(degree, places);
  }

  const Program& program_;
  const SymbolicShapes& shapes_;
  const IdVector<TensorId, bool>& needed_;
  std::map<TensorId, Degree> degrees_;  // of the tensors that are not fixed
};

}  // namespace

ShiftInvariance::ShiftInvariance(const Program& program, TensorId of, const SymbolicShapes& shapes)
    : program_(program), of_(of), shapes_(shapes), needed_(program.tensors.size(), false) {
  needed_[of] = true;
  for (size_t i = program.statements.size(); i-- > 0;) {
    if (!needed_[program.statements[i].result]) continue;
    for (TensorId id : differentiable_reads(program.statements[i])) {
      needed_[id] = true;
    }
  }
}

bool ShiftInvariance::holds(TensorId tensor) const {
  if (of_ == tensor) return false;
  Walk walk(program_, shapes_, needed_);
  return walk.is_fixed(of_, tensor, Kind::additive) ||
         walk.is_fixed(of_, tensor, Kind::multiplicative);
}

}  // namespace tile
