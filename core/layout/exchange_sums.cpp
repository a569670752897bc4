// Sums over columns of products with scores, which are sums themselves, are exchanged where one of
// both sums is known: of scores X[s, t] = sum of A[s, d] * B[t, d] over d, and a result O[s, d] =
// sum of P[s, t] * B[t, d] over t,
//     sum of f(s) * X[s, t] * P[s, t] over t = sum of f(s) * A[s, d] * O[s, d] over d.
// Gradients of a softmax's denominator have this form: they need no scores then. The exchange is
// exact but for roundings: O has its own, of its type, as P has in O.
#include <algorithm>
#include <bit>
#include <cstdlib>
#include <map>
#include <set>

#include "core/fusion/stream_regions.h"
#include "core/ir/analysis/accesses.h"
#include "core/kernel/forms/stream_pattern.h"
#include "core/layout/layout.h"
#include "core/layout/program_parts.h"
#include "core/layout/score_regions.h"
#include "core/support/choices.h"
#include "core/support/control.h"

namespace tile {
namespace {

using layout::ScoreRegion;

constexpr size_t kDepth = SIZE_MAX;  // stands for the iterator that is no axis
constexpr int kMostNodes = 200;      // of a term, written out
constexpr size_t kMostLoads = 8;     // of a factor that is no product

// A load as a statement names it: what it reads, on the region's axes.
struct Place {
  TensorId tensor;
  std::vector<std::map<size_t, Rational>> forms;  // by dimension: coefficients by axis, or kDepth
  std::vector<Rational> constants;
  friend bool operator==(const Place&, const Place&) = default;
  bool moves(size_t axis) const {
    return std::any_of(forms.begin(), forms.end(), [&](const auto& f) { return f.contains(axis); });
  }
};

// A load, or another value of loads and numbers as it is written: where it stands, and what.
struct Factor {
  std::vector<Place> loads;
  std::string written = "";  // empty: the load
  size_t statement = 0;
  NodeId node = {};
  friend bool operator==(const Factor& a, const Factor& b) {
    return a.written == b.written && a.loads == b.loads;
  }
  bool moves(size_t axis) const {
    return std::any_of(loads.begin(), loads.end(), [&](const Place& p) { return p.moves(axis); });
  }
};

// A term as a product of powers.
struct Product {
  double factor = 1;
  std::vector<std::pair<Factor, int>> powers;
  void multiply(Factor value, int power) {
    for (auto at = powers.begin(); at != powers.end(); ++at) {
      if (!(at->first == value)) continue;
      at->second += power;
      if (at->second == 0) powers.erase(at);
      return;
    }
    powers.emplace_back(std::move(value), power);
  }
};

class Exchange {
 public:
  Exchange(BoundProgram& program, const Target& target, const StatementUses& uses,
           const ScoreRegion& region)
      : program_(program), target_(target), uses_(uses), region_(region) {}

  // Whether some sum is another one now.
  bool run() {
    bool changed = false;
    for (size_t user : region_.users) {
      auto reduced = region_.reduced.find(user);
      bool inner = reduced != region_.reduced.end() && reduced->second.size() == 1 &&
                   uses_.is_inner(statement(user).outputs[0]) && only_axes(user);
      changed = (inner && exchange(user, reduced->second[0].axis)) || changed;
    }
    return changed;
  }

 private:
  const Contraction& statement(size_t i) const {
    return std::get<Contraction>(program_.statements[i]);
  }
  const Piece& piece(size_t i) const { return statement(i).pieces[0]; }
  bool only_axes(size_t i) const {
    const auto& axes = region_.axes.at(i);
    for (size_t u = 0; u < axes.size(); ++u) {
      if (!axes[u] && piece(i).box[u] != 1) return false;
    }
    return true;
  }

  std::optional<Place> place_of(size_t i, const Access& access) const {
    Place place;
    place.tensor = access.tensor;
    for (const Index& index : access.index) {
      if (!is_plain_index(index)) return std::nullopt;
      std::map<size_t, Rational> form;
      for (size_t u = 0; u < piece(i).box.size(); ++u) {
        Rational c = index.affine.coefficient(u);
        if (c.is_zero() || piece(i).box[u] == 1) continue;
        form[region_.axes.at(i)[u].value_or(kDepth)] = c;
      }
      place.forms.push_back(std::move(form));
      place.constants.push_back(index.affine.constant);
    }
    return place;
  }

  // The node as a product, written out through statements of the region that are products, too.
  bool multiply(Product& into, size_t i, NodeId id, int power, int& budget) const {
    if (--budget < 0) return false;
    const Body& body = piece(i).body;
    const Node& n = body[id];
    if (n.kind == NodeKind::load)
      return multiply_load(into, i, piece(i).loads[n.slot], power, budget);
    if (n.kind == NodeKind::real && n.real != 0) {
      into.factor *= power > 0 ? n.real : 1 / n.real;
      return true;
    }
    if (n.kind != NodeKind::operation || !is_float(n.type)) return false;
    auto all = [&](int second) {
      return multiply(into, i, n.args[0], power, budget) &&
             multiply(into, i, n.args[1], second, budget);
    };
    switch (n.op) {
      case Op::cast:
      case Op::ident:
        return is_float(body[n.args[0]].type) && multiply(into, i, n.args[0], power, budget);
      case Op::neg:
        into.factor = -into.factor;
        return multiply(into, i, n.args[0], power, budget);
      case Op::mul:
        return all(power);
      case Op::div:
        return all(-power);
      default:
        return multiply_other(into, i, id, power);
    }
  }
  // A value that is no product is a factor as it stands.
  bool multiply_other(Product& into, size_t i, NodeId id, int power) const {
    Factor value;
    value.statement = i;
    value.node = id;
    if (!write(value, i, id) || value.loads.empty()) return false;
    into.multiply(std::move(value), power);
    return true;
  }
  bool write(Factor& value, size_t i, NodeId id) const {
    const Node& n = piece(i).body[id];
    value.written += std::to_string(static_cast<int>(n.kind)) + " " +
                     std::to_string(static_cast<int>(n.type)) + " ";
    if (n.kind == NodeKind::load) {
      std::optional<Place> place =
          n.args.empty() ? place_of(i, piece(i).loads[n.slot]) : std::nullopt;
      if (place) value.loads.push_back(*place);
      return place.has_value() && value.loads.size() <= kMostLoads;
    }
    if (n.kind == NodeKind::real) {
      value.written += std::to_string(std::bit_cast<uint64_t>(n.real)) + " ";
    } else if (n.kind == NodeKind::integer) {
      value.written += std::to_string(n.integer) + " ";
    } else if (n.kind == NodeKind::operation) {
      value.written += std::to_string(static_cast<int>(n.op)) + " ";
    } else {
      return false;
    }
    return std::all_of(n.args.begin(), n.args.end(),
                       [&](NodeId arg) { return write(value, i, arg); });
  }
  bool multiply_load(Product& into, size_t i, const Access& access, int power, int& budget) const {
    std::optional<size_t> made = uses_.maker(access.tensor);
    if (made && region_.cells.contains(*made) && !is_scores(*made)) {
      Product inner = into;
      if (multiply(inner, *made, piece(*made).body.results[0], power, budget)) {
        into = std::move(inner);
        return true;
      }
    }
    std::optional<Place> place = place_of(i, access);
    if (!place) return false;
    into.multiply({{*place}}, power);
    return true;
  }
  bool is_scores(size_t i) const { return piece(i).parallel_dims < piece(i).box.size(); }
  std::optional<Product> product_of(size_t i) const {
    Product product;
    int budget = kMostNodes;
    bool done = multiply(product, i, piece(i).body.results[0], 1, budget);
    return done ? std::optional(std::move(product)) : std::nullopt;
  }

  bool exchange(size_t user, size_t axis) {
    std::optional<Product> term = product_of(user);
    if (!term) return false;
    for (const auto& [value, power] : term->powers) {
      if (!value.written.empty() || power != 1) continue;
      const Place& place = value.loads[0];
      std::optional<size_t> scores = uses_.maker(place.tensor);
      bool once = scores && region_.cells.contains(*scores) && is_scores(*scores);
      if (once && exchange_with(user, axis, *term, place, *scores)) return true;
    }
    return false;
  }
  bool exchange_with(size_t user, size_t axis, const Product& term, const Place& x, size_t scores) {
    auto factors = stream::factors_of_scores(piece(scores).body, target_);
    if (!factors || !has_conditions(user, scores)) return false;
    const Body& body = piece(scores).body;
    std::optional<Place> a = place_of(scores, piece(scores).loads[body[factors->first].slot]),
                         b = place_of(scores, piece(scores).loads[body[factors->second].slot]);
    if (!a || !b) return false;
    if (a->moves(axis)) std::swap(a, b);
    if (a->moves(axis) || !b->moves(axis)) return false;
    for (size_t other : region_.users) {
      auto reduced = region_.reduced.find(other);
      bool same = other < user && reduced != region_.reduced.end() && reduced->second.size() == 1 &&
                  reduced->second[0].axis == axis && has_conditions(user, other) &&
                  has_conditions(other, user);
      std::optional<Product> known = same ? product_of(other) : std::nullopt;
      if (!known || !one_depth(other, scores)) continue;
      std::optional<Product> rest = quotient(term, *known, x, *b, axis);
      if (rest && replace(user, *rest, *a, other, scores)) return true;
    }
    return false;
  }
  // The terms of `i` are among those of `other`.
  bool has_conditions(size_t i, size_t other) const {
    IdVector<IteratorId, IteratorId> of;
    const auto &mine = region_.axes.at(i), &theirs = region_.axes.at(other);
    for (const auto& axis : theirs) {
      auto at = axis ? std::find(mine.begin(), mine.end(), axis) : mine.end();
      of.push_back(at == mine.end() ? IteratorId()
                                    : IteratorId(static_cast<size_t>(at - mine.begin())));
    }
    return stream::keeps_conditions(piece(i), piece(other), of);
  }
  // The result has one dimension that is no axis, as long as the scores' sum.
  bool one_depth(size_t other, size_t scores) const {
    std::vector<int64_t> extents;
    for (size_t u = 0; u < piece(other).box.size(); ++u) {
      bool free = !region_.axes.at(other)[u] && piece(other).box[u] != 1;
      if (free) extents.push_back(piece(other).box[u]);
    }
    return extents == std::vector<int64_t>{piece(scores).box.back()};
  }

  // term / x / (known / b), if it does not depend on the axis.
  static std::optional<Product> quotient(Product term, const Product& known, const Place& x,
                                         const Place& b, size_t axis) {
    auto value = std::find_if(known.powers.begin(), known.powers.end(), [&](const auto& p) {
      return p.first == Factor{{b}} && p.second == 1;
    });
    if (value == known.powers.end()) return std::nullopt;
    term.multiply({{x}}, -1);
    for (const auto& [factor, power] : known.powers) term.multiply(factor, -power);
    term.multiply({{b}}, 1);
    term.factor /= known.factor;
    bool rows = std::none_of(term.powers.begin(), term.powers.end(), [&](const auto& p) {
      return p.first.moves(axis) || p.first.moves(kDepth);
    });
    return rows ? std::optional(std::move(term)) : std::nullopt;
  }

  // The access at the user's rows, and at the depth.
  std::optional<Access> at_rows(size_t user, const Place& place, size_t depth) const {
    const auto& axes = region_.axes.at(user);
    Access access;
    access.tensor = place.tensor;
    for (size_t d = 0; d < place.forms.size(); ++d) {
      Affine form = constant_affine(place.constants[d]);
      for (const auto& [axis, c] : place.forms[d]) {
        auto at = std::find(axes.begin(), axes.end(), std::optional(axis));
        auto u = static_cast<size_t>(at - axes.begin());
        if (axis == kDepth) {
          u = depth;
        } else if (at == axes.end() || u >= piece(user).parallel_dims) {
          return std::nullopt;
        }
        form = form + iterator_affine(u) * c;
      }
      access.index.push_back({form, -1, Boundary::in_range});
    }
    return access;
  }

  // The factor, of the accumulator's type, in the user's new piece.
  std::optional<NodeId> emitted(Piece& sum, size_t user, const Factor& factor, size_t depth) const {
    auto load = [&](const Place& place) {
      std::optional<Access> read = at_rows(user, place, depth);
      bool single = read && is_float(program_.tensors[place.tensor].type);
      if (!single) return NodeId();
      sum.loads.push_back(*read);
      return sum.body.load(sum.loads.size() - 1, program_.tensors[place.tensor].type);
    };
    NodeId value;
    if (factor.written.empty()) {
      value = load(factor.loads[0]);
    } else {
      bool failed = false;
      const Piece& from = piece(factor.statement);
      NodeId copy = graft(sum.body, from.body, factor.node, [&](Body& body, const Node& n) {
        if (n.kind != NodeKind::load) return NodeId();
        NodeId read = load(*place_of(factor.statement, from.loads[n.slot]));
        failed = failed || !read.valid();
        return read.valid() ? read : body.real(0, n.type);
      });
      if (!failed) value = copy;
    }
    if (!value.valid()) return std::nullopt;
    return sum.body.cast(value, statement(user).accumulator);
  }

  bool replace(size_t user, const Product& rest, const Place& a, size_t other, size_t scores) {
    const Piece& before = piece(user);
    size_t depth = before.parallel_dims;
    Piece sum;
    for (size_t u = 0; u < depth; ++u) {
      sum.iterators.push_back(before.iterators[u]);
      sum.box.push_back(before.box[u]);
    }
    sum.iterators.push_back(before.iterators[depth]);
    sum.box.push_back(piece(scores).box.back());
    sum.parallel_dims = depth;
    sum.stores = before.stores;
    std::optional<Place> known = place_of(other, piece(other).stores[0]);
    Body& body = sum.body;
    DType type = statement(user).accumulator;
    NodeId value;
    auto times = [&](const Factor& factor, int power) {
      std::optional<NodeId> read = emitted(sum, user, factor, depth);
      if (!read) return false;
      for (int p = 0; p < std::abs(power); ++p) {
        Op op = power > 0 ? Op::mul : Op::div;
        value = value.valid() ? body.operation(op, {value, *read}, type) : *read;
      }
      return true;
    };
    if (!known || !times({{a}}, 1) || !times({{*known}}, 1)) return false;
    for (const auto& [factor, power] : rest.powers) {
      if (!times(factor, power)) return false;
    }
    if (rest.factor != 1) {
      value = body.operation(Op::mul, {value, body.real(rest.factor, type)}, type);
    }
    body.results = {value};
    std::get<Contraction>(program_.statements[user]).pieces[0] = std::move(sum);
    return true;
  }

  BoundProgram& program_;
  const Target& target_;
  const StatementUses& uses_;
  const ScoreRegion& region_;
};

}  // namespace

namespace {

// On a CPU a kernel that stores the scores may have the sums for nothing: decided by the model, of
// the kernels that both programs become.
bool is_better(const BoundProgram& other, const BoundProgram& program, const Target& target,
               const StatementUses& uses, const ScoreRegion& region, size_t scores,
               layout::KnownParts<Price>& prices) {
  std::vector<size_t> list = layout::around(program, uses, region);
  auto price = [&](const BoundProgram& of) {
    BoundProgram p = layout::part(of, uses, list, {});
    return prices.get(layout::text_of(p), [&] {
      recompute_streams(p, target);
      return layout::kernel_price(p, target);
    });
  };
  const auto& made = std::get<Contraction>(program.statements[scores]);
  return agreed("exchange " + program.tensors[made.outputs[0]].name,
                [&] { return price(other) < price(program); });
}

}  // namespace

void exchange_sums(BoundProgram& program, const Target& target) {
  if (is_gpu(target) && target.gpu.matrix_per_ns <= 0) return;
  std::set<size_t> seen;
  std::optional<StatementUses> uses(program);
  layout::KnownParts<Price> prices;
  for (size_t i = 0; i < program.statements.size(); ++i) {
    checkpoint();
    if (seen.contains(i)) continue;
    std::optional<ScoreRegion> region = layout::score_region(program, target, *uses, i);
    if (!region) continue;
    seen.insert(region->cells.begin(), region->cells.end());
    BoundProgram other = program;
    if (!Exchange(other, target, *uses, *region).run()) continue;
    if (!is_gpu(target) && !is_better(other, program, target, *uses, *region, i, prices)) continue;
    program = std::move(other);
    uses.emplace(program);
  }
}

}  // namespace tile
