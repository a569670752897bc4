// Each rule is the chain rule with the derivatives of operations.def, applied to values with
// dv/du = c (additive) or dv/du = c v (multiplicative):
//   x + y, x - y     dx ± dy is cx ± cy; of multiplicative values with one c it is c (x ± y)
//   x * y            x dy + y dx is (cx + cy) x y; with dx = 0 and y additive it is x cy
//   x / y            (dx - r dy) / y is (cx - cy) r; with dy = 0 and x additive it is cx / y
//   exp(x)           r dx is cx r             log(x)  dx / x is c
//   sqrt(x)          dx / (2 r) is c/2 r      and so for rsqrt, square, reciprocal, powers
//   |x|, relu(x)     sign(x) c x is c |x|; (x > 0) c x is c relu(x)
//   max, min, ?:     each arm has the derivative c (or c times itself), and so has the choice, also
//                    where two arms tie and halve
// Operands without a derivative (conditions, floor) have none here either. At infinities these are
// limits, and the sums inf - inf that the chain rule forms there do not arise.
#include "core/autodiff/derivation/degree.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace tile {
namespace {

using Kind = Degree::Kind;

constexpr double kLog2 = 0.6931471805599453;

bool same_value(const Factor& a, const Factor& b) { return a.text == b.text && a.at == b.at; }

bool before(const Factor& a, const Factor& b) {
  if (a.text != b.text) return a.text < b.text;
  for (size_t i = 0; i < std::min(a.at.size(), b.at.size()); ++i) {
    std::string x = to_string(a.at[i]), y = to_string(b.at[i]);
    if (x != y) return x < y;
  }
  return a.at.size() < b.at.size();
}

bool is_literal(const Node& n) { return n.kind == NodeKind::integer || n.kind == NodeKind::real; }
double literal(const Node& n) {
  return n.kind == NodeKind::real ? n.real : static_cast<double>(n.integer);
}

class BodyDegrees {
 public:
  BodyDegrees(const Body& body, const BodyReads& reads) : body_(body), reads_(reads) {}

  std::vector<Degree> results() {
    for (const Node& node : body_.nodes) known_.push_back(of(node));
    std::vector<Degree> degrees;
    for (NodeId id : body_.results) degrees.push_back(known(id));
    return degrees;
  }

 private:
  const Degree& known(NodeId id) const { return known_[id]; }
  bool is_zero(NodeId id) const { return is_literal(body_[id]) && literal(body_[id]) == 0; }

  bool operands_are_fixed(const Node& node) const {
    return std::all_of(node.args.begin(), node.args.end(),
                       [&](NodeId arg) { return known(arg).is_fixed(); });
  }

  Degree of(const Node& node) const {
    switch (node.kind) {
      case NodeKind::load:
        return operands_are_fixed(node) ? reads_.degree(node) : Degree::unknown();
      case NodeKind::operation:
        return operation(node);
      case NodeKind::fold:
        return operands_are_fixed(node) && reads_fixed(*node.region) ? Degree{} : Degree::unknown();
      case NodeKind::component:
        return known(node.args[0]);
      default:
        return {};
    }
  }
  bool reads_fixed(const Body& region) const {
    bool fixed = true;
    visit_nodes(region, [&](const Node& n) {
      if (n.kind == NodeKind::load) fixed = fixed && reads_.degree(n).is_fixed();
    });
    return fixed;
  }

  // Operands that carry a derivative.
  bool carries(const Node& node, size_t k) const {
    if (node.op == Op::cast && !is_float(node.type)) return false;
    const OpInfo& row = info(node.op);
    return k < row.derivatives.size() && !row.derivatives[k].empty();
  }

  Degree operation(const Node& node) const {
    bool fixed = true;
    for (size_t k = 0; k < node.args.size(); ++k) {
      if (!carries(node, k)) continue;
      if (known(node.args[k]).is_unknown()) return Degree::unknown();
      fixed = fixed && known(node.args[k]).is_fixed();
    }
    if (fixed) return {};
    switch (node.op) {
      case Op::add:
        return sum(node.args[0], node.args[1], 1);
      case Op::sub:
        return sum(node.args[0], node.args[1], -1);
      case Op::mul:
        return product(node.args[0], node.args[1], 1);
      case Op::div:
        return product(node.args[0], node.args[1], -1);
      case Op::max:
      case Op::min:
        return alike(node.args[0], node.args[1]);
      case Op::select:
        return alike(node.args[1], node.args[2]);
      case Op::pow:
        return power(node.args[0], node.args[1]);
      default:
        return of_one(node.op, known(node.args[0]));
    }
  }

  static Degree of_one(Op op, const Degree& x) {
    bool additive = x.kind == Kind::additive;
    auto turned = [&](Kind kind, double by) { return Degree{kind, x.c.scaled(by), x.cell}; };
    switch (op) {
      case Op::ident:
      case Op::cast:
      case Op::cast_like:
        return x;
      case Op::neg:
        return additive ? turned(x.kind, -1) : x;
      case Op::exp:
        return additive ? turned(Kind::multiplicative, 1) : Degree::unknown();
      case Op::exp2:
        return additive ? turned(Kind::multiplicative, kLog2) : Degree::unknown();
      default:
        break;
    }
    if (additive) return Degree::unknown();
    switch (op) {
      case Op::log:
        return turned(Kind::additive, 1);
      case Op::log2:
        return turned(Kind::additive, 1 / kLog2);
      case Op::sqrt:
        return turned(x.kind, 0.5);
      case Op::rsqrt:
        return turned(x.kind, -0.5);
      case Op::reciprocal:
        return turned(x.kind, -1);
      case Op::square:
        return turned(x.kind, 2);
      case Op::abs:
      case Op::relu:
        return x;
      default:
        return Degree::unknown();
    }
  }

  static Degree with(const Degree& like, Kind kind, Coefficient c) {
    if (c.is_zero()) return {};
    return {kind, std::move(c), like.cell};
  }
  static bool one_cell(const Degree& x, const Degree& y) {
    return x.is_fixed() || y.is_fixed() || x.cell == y.cell;
  }

  Degree sum(NodeId a, NodeId b, double sign) const {
    const Degree &x = known(a), &y = known(b);
    if (x.kind == Kind::multiplicative || y.kind == Kind::multiplicative) return alike(a, b);
    if (!one_cell(x, y)) return Degree::unknown();
    return with(x.is_fixed() ? y : x, Kind::additive, x.c.plus(y.c.scaled(sign)));
  }
  // Both have one derivative, in proportion to themselves or not.
  Degree alike(NodeId a, NodeId b) const {
    const Degree &x = known(a), &y = known(b);
    if (x.kind == Kind::multiplicative && is_zero(b)) return x;
    if (y.kind == Kind::multiplicative && is_zero(a)) return y;
    bool same = x.kind == y.kind && x.cell == y.cell && x.c.equals(y.c);
    return same ? x : Degree::unknown();
  }
  Degree product(NodeId a, NodeId b, int sign) const {
    const Degree &x = known(a), &y = known(b);
    if (x.kind == Kind::additive) return y.is_fixed() ? times(x, b, sign) : Degree::unknown();
    if (y.kind == Kind::additive) {
      return x.is_fixed() && sign > 0 ? times(y, a, 1) : Degree::unknown();
    }
    if (!one_cell(x, y)) return Degree::unknown();
    return with(x.is_fixed() ? y : x, Kind::multiplicative, x.c.plus(y.c.scaled(sign)));
  }
  Degree power(NodeId base, NodeId exponent) const {
    const Degree& x = known(base);
    bool proportional = x.kind == Kind::multiplicative && known(exponent).is_fixed();
    return proportional ? times(x, exponent, 1) : Degree::unknown();
  }

  // The derivative times a value that the shift leaves as it is, or divided by it.
  Degree times(const Degree& x, NodeId by, int power) const {
    const Node& n = body_[by];
    if (is_literal(n)) {
      double value = power > 0 ? literal(n) : 1 / literal(n);
      return std::isfinite(value) ? with(x, x.kind, x.c.scaled(value)) : Degree::unknown();
    }
    Factor factor;
    if (!describe(by, factor)) return Degree::unknown();
    factor.power = power;
    return with(x, x.kind, x.c.times(factor));
  }
  bool describe(NodeId id, Factor& factor) const {
    const Node& n = body_[id];
    switch (n.kind) {
      case NodeKind::integer:
      case NodeKind::real:
        factor.text += std::to_string(std::bit_cast<uint64_t>(literal(n))) + "#";
        return true;
      case NodeKind::size:
        factor.text += "(" + to_string(n.expr) + ")";
        return true;
      case NodeKind::index:
        factor.text += "index";
        factor.at.push_back(reads_.index(n.slot));
        return true;
      case NodeKind::load:
        return n.args.empty() && reads_.describe(n, factor);
      case NodeKind::operation:
        factor.text += std::string(info(n.op).name) + std::string(to_string(n.type)) + "(";
        for (NodeId arg : n.args) {
          if (!describe(arg, factor)) return false;
          factor.text += ",";
        }
        factor.text += ")";
        return factor.text.size() < 400;
      default:
        return false;
    }
  }

  const Body& body_;
  const BodyReads& reads_;
  IdVector<NodeId, Degree> known_;
};

}  // namespace

void Coefficient::add(Term term) {
  auto same_product = [&](const Term& t) {
    return std::equal(
        t.factors.begin(), t.factors.end(), term.factors.begin(), term.factors.end(),
        [](const Factor& a, const Factor& b) { return same_value(a, b) && a.power == b.power; });
  };
  auto found = std::find_if(terms_.begin(), terms_.end(), same_product);
  if (found == terms_.end()) {
    if (term.number != 0) terms_.push_back(std::move(term));
    return;
  }
  // What rounding leaves of numbers that cancel is none.
  double largest = std::max(std::abs(found->number), std::abs(term.number));
  found->number += term.number;
  if (std::abs(found->number) <= 8 * std::numeric_limits<double>::epsilon() * largest) {
    terms_.erase(found);
  }
}

Coefficient Coefficient::plus(const Coefficient& other) const {
  Coefficient sum = *this;
  for (const Term& term : other.terms_) sum.add(term);
  return sum;
}

Coefficient Coefficient::scaled(double by) const {
  Coefficient result;
  for (Term term : terms_) {
    term.number *= by;
    result.add(std::move(term));
  }
  return result;
}

Coefficient Coefficient::times(const Factor& factor) const {
  Coefficient result;
  for (Term term : terms_) {
    auto at = std::find_if(term.factors.begin(), term.factors.end(),
                           [&](const Factor& f) { return same_value(f, factor); });
    if (at == term.factors.end()) {
      at = std::upper_bound(term.factors.begin(), term.factors.end(), factor, before);
      term.factors.insert(at, factor);
    } else if ((at->power += factor.power) == 0) {
      term.factors.erase(at);
    }
    result.add(std::move(term));
  }
  return result;
}

std::optional<Coefficient> Coefficient::moved(const Move& move) const {
  Coefficient result;
  for (const Term& term : terms_) {
    Coefficient product(term.number);
    for (Factor factor : term.factors) {
      for (Expr& e : factor.at) {
        std::optional<Expr> there = move(e);
        if (!there) return std::nullopt;
        e = *there;
      }
      product = product.times(factor);
    }
    result = result.plus(product);
  }
  return result;
}

Degree moved(const Degree& degree, const Coefficient::Move& move) {
  if (degree.is_fixed() || degree.is_unknown()) return degree;
  std::optional<Coefficient> c = degree.c.moved(move);
  if (!c) return Degree::unknown();
  Degree result{degree.kind, *c, {}};
  for (const Expr& e : degree.cell) {
    std::optional<Expr> there = move(e);
    if (!there) return Degree::unknown();
    result.cell.push_back(*there);
  }
  return result.c.is_zero() ? Degree{} : result;
}

std::vector<Degree> degrees_of(const Body& body, const BodyReads& reads) {
  return BodyDegrees(body, reads).results();
}

}  // namespace tile
