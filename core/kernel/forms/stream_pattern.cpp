// Recognises the parts of a streamed kernel from the bodies and accesses alone.
#include "core/kernel/forms/stream_pattern.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/ir/analysis/accesses.h"
#include "core/ir/analysis/plain_contraction.h"
#include "core/kernel/coverage.h"
#include "core/kernel/stream.h"

namespace tile::stream {

namespace {

NodeId without_casts(const Body& body, NodeId id) {
  while (body[id].kind == NodeKind::operation && body[id].op == Op::cast) id = body[id].args[0];
  return id;
}

// Compares two expressions, finding which iterator of the second is which of the first.
class SameValue {
 public:
  SameValue(const Piece& a, const Piece& b) : a_(a), b_(b), of_(b.iterators.size(), IteratorId()) {}

  bool same(NodeId x, NodeId y) {
    x = without_casts(a_.body, x);
    y = without_casts(b_.body, y);
    const Node &n = a_.body[x], &m = b_.body[y];
    bool equal = n.kind == m.kind && n.op == m.op && n.type == m.type && n.integer == m.integer &&
                 n.real == m.real && n.args.size() == m.args.size();
    if (!equal) return false;
    switch (n.kind) {
      case NodeKind::load:
        return n.args.empty() && same_access(n.slot, m.slot);
      case NodeKind::index:
        return is(IteratorId(n.slot), IteratorId(m.slot));
      case NodeKind::integer:
      case NodeKind::real:
        return true;
      case NodeKind::operation:
        for (size_t i = 0; i < n.args.size(); ++i) {
          if (!same(n.args[i], m.args[i])) return false;
        }
        return true;
      default:
        return false;
    }
  }
  // The indices that are no single iterators are the same, too, where the iterators that were found
  // stand for each other.
  bool others_agree() const {
    return std::all_of(others_.begin(), others_.end(), [&](const auto& pair) {
      std::vector<Affine> forms;
      for (IteratorId u : of_) {
        forms.push_back(u.valid() ? iterator_affine(u) : constant_affine(0));
      }
      const Affine& form = pair.second->affine;
      for (IteratorId v : of_.ids()) {
        bool unknown = !of_[v].valid() && b_.box[v] != 1;
        if (unknown && !form.coefficient(v).is_zero()) return false;
      }
      return substitute(form, forms) == pair.first->affine;
    });
  }
  const IdVector<IteratorId, IteratorId>& of() const { return of_; }
  const std::set<size_t>& loads() const { return loads_; }

 private:
  bool is(IteratorId a, IteratorId b) {
    IteratorId& known = of_[b];
    if (a_.box[a] != b_.box[b] || (known.valid() && known != a)) return false;
    known = a;
    return true;
  }
  bool same_access(size_t load, size_t other) {
    const Access &p = a_.loads[load], &q = b_.loads[other];
    if (p.tensor != q.tensor) return false;
    loads_.insert(load);
    for (size_t d = 0; d < p.index.size(); ++d) {
      IteratorId u = sole_iterator(p.index[d], a_), v = sole_iterator(q.index[d], b_);
      if (u.valid() && v.valid() && is(u, v)) continue;
      if (single(p.index[d], a_) && single(q.index[d], b_)) continue;
      bool forms = p.index[d].value < 0 && q.index[d].value < 0 &&
                   p.index[d].boundary == q.index[d].boundary;
      if (!forms) return false;
      others_.emplace_back(&p.index[d], &q.index[d]);
    }
    return true;
  }
  // The index is zero.
  static bool single(const Index& index, const Piece& piece) {
    if (index.value >= 0) return false;
    if (index.affine == constant_affine(0)) return true;
    IteratorId u = sole_iterator(index, piece);
    return u.valid() && piece.box[u] == 1;
  }

  const Piece &a_, &b_;
  IdVector<IteratorId, IteratorId> of_;  // of b: that of a
  std::set<size_t> loads_;
  std::vector<std::pair<const Index*, const Index*>> others_;  // of a and of b
};

// The maximum is read where the distance's own iterators say.
bool reads_row(const Piece& e, size_t load, const Piece& maximum,
               const IdVector<IteratorId, IteratorId>& of) {
  const Access& read = e.loads[load];
  for (size_t d = 0; d < read.index.size(); ++d) {
    IteratorId parallel_dim = sole_iterator(maximum.stores[0].index[d], maximum);
    bool many = parallel_dim.valid() && maximum.box[parallel_dim] != 1;
    if (many && sole_iterator(read.index[d], e) != of[parallel_dim]) return false;
  }
  return true;
}

// By dimension of what the load reads: the piece's iterator, none where there is one value.
std::optional<std::vector<IteratorId>> iterators_read(const Piece& piece, size_t load) {
  std::vector<IteratorId> of;
  for (const Index& index : piece.loads[load].index) {
    of.push_back(sole_iterator(index, piece));
    if (!of.back().valid() && !(index.value < 0 && index.affine == constant_affine(0))) {
      return std::nullopt;
    }
  }
  return of;
}

// The only load of the tensor, where the result is linear in it.
std::optional<size_t> linear_load(const Contraction& c, TensorId tensor) {
  if (!is_plain_contraction(c)) return std::nullopt;
  const Piece& piece = c.pieces[0];
  std::optional<size_t> found;
  for (size_t i = 0; i < piece.loads.size(); ++i) {
    if (piece.loads[i].tensor != tensor) continue;
    if (found) return std::nullopt;
    found = i;
  }
  if (!found) return std::nullopt;
  Scaling scaling = scaling_of(piece.body, piece.body.results[0], [&](size_t slot) {
    return slot == *found ? Scaling::weighted : Scaling::none;
  });
  return scaling == Scaling::weighted ? found : std::nullopt;
}

}  // namespace

std::optional<Distance> distance_to(const Piece& e, const Contraction& maximum) {
  if (!is_plain_contraction(maximum) || maximum.aggregation != Aggregation::max)
    return std::nullopt;
  const Piece& m = maximum.pieces[0];
  if (m.box.size() != m.parallel_dims + 1 || !is_float(maximum.accumulator)) return std::nullopt;
  for (const Node& n : e.body.nodes) {
    if (n.kind != NodeKind::operation || n.op != Op::exp) continue;
    const Node& distance = e.body[without_casts(e.body, n.args[0])];
    if (distance.kind != NodeKind::operation || distance.op != Op::sub) continue;
    const Node& top = e.body[without_casts(e.body, distance.args[1])];
    if (top.kind != NodeKind::load) continue;
    size_t load = top.slot;
    if (e.loads[load].tensor != maximum.outputs[0]) continue;
    SameValue values(e, m);
    if (!values.same(distance.args[0], m.body.results[0]) || !values.others_agree()) continue;
    IteratorId axis = values.of()[m.parallel_dims];
    if (!axis.valid() || !reads_row(e, load, m, values.of())) continue;
    Distance found{load, values.of(), axis, {}};
    found.x_loads.assign(values.loads().begin(), values.loads().end());
    return found;
  }
  return std::nullopt;
}

namespace {

// The condition on a form with integral coefficients, the first of them positive, and no constant;
// its ends no further out than the box reaches.
Constraint normal_form(const Constraint& c, const IterationBox& box) {
  Constraint k = integral(c);
  auto first = std::find_if(k.form.coefficients.begin(), k.form.coefficients.end(),
                            [](const Rational& a) { return !a.is_zero(); });
  if (first != k.form.coefficients.end() && *first < Rational(0)) {
    k.form = k.form * Rational(-1);
    k.lo = std::exchange(k.hi, 1 - k.lo);
    k.lo = 1 - k.lo;
  }
  k.lo -= k.form.constant.num();
  k.hi -= k.form.constant.num();
  k.form.constant = 0;
  k.form.coefficients.resize(box.size());
  int64_t least = 0, most = 0;
  for (size_t u = 0; u < box.size(); ++u) {
    int64_t reach = k.form.coefficients[u].num() * std::max<int64_t>(box[u] - 1, 0);
    (reach < 0 ? least : most) += reach;
  }
  k.lo = std::max(k.lo, least);
  k.hi = std::min(k.hi, most + 1);
  return k;
}

}  // namespace

bool keeps_conditions(const Piece& piece, const Piece& other,
                      const IdVector<IteratorId, IteratorId>& of) {
  return std::all_of(other.constraints.begin(), other.constraints.end(), [&](const Constraint& c) {
    Constraint wanted = c;
    wanted.form = constant_affine(0);
    wanted.form.constant = c.form.constant;
    wanted.form.coefficients.resize(piece.box.size());
    for (size_t u = 0; u < other.box.size(); ++u) {
      if (c.form.coefficient(u).is_zero() || other.box[u] == 1) continue;
      if (!of[u].valid()) return false;
      wanted.form.coefficients[of[u].index()] = c.form.coefficient(u);
    }
    wanted = normal_form(wanted, piece.box);
    return std::any_of(piece.constraints.begin(), piece.constraints.end(),
                       [&](const Constraint& mine) {
                         Constraint k = normal_form(mine, piece.box);
                         return k.form == wanted.form && k.lo == wanted.lo && k.hi == wanted.hi;
                       });
  });
}

std::optional<LinearSum> linear_sum(const Contraction& c, TensorId tensor) {
  if (c.aggregation != Aggregation::sum || !is_float(c.accumulator)) return std::nullopt;
  std::optional<size_t> load = linear_load(c, tensor);
  if (!load || c.pieces[0].parallel_dims == c.pieces[0].box.size()) return std::nullopt;
  std::optional<std::vector<IteratorId>> of = iterators_read(c.pieces[0], *load);
  if (!of) return std::nullopt;
  return LinearSum{*load, std::move(*of)};
}

std::optional<Multiple> multiple_of(const Contraction& p, TensorId tensor) {
  std::optional<size_t> load = linear_load(p, tensor);
  bool pointwise = load && p.pieces[0].parallel_dims == p.pieces[0].box.size();
  if (!pointwise || !p.pieces[0].constraints.empty()) return std::nullopt;
  std::optional<std::vector<IteratorId>> of = iterators_read(p.pieces[0], *load);
  if (!of) return std::nullopt;
  return Multiple{*load, std::move(*of)};
}

}  // namespace tile::stream
