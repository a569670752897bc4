#include "core/schedule/facts/body_facts.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/ir/analysis/index_value.h"
#include "core/ir/analysis/value_range.h"
#include "core/ir/operation_cost.h"

namespace tile {
namespace {

constexpr double kUnknownRounds = 8;  // of a fold whose bounds say nothing: an estimate
constexpr double kMostRounds = 1e6;
// Cycles; [manual] and [race]: cost_cycles.h. Of the operation that carries a value from round to
// round, of counting and branching, and of an index that is used as a value.
constexpr double kRoundLatencyCycles = 4;     // [manual]
constexpr double kRoundOverheadCycles = 1.5;  // [race]
constexpr double kIndexCycles = 0.5;          // [manual]

bool divides(const Expr& e) {
  switch (e.kind()) {
    case ExprKind::floor_div:
    case ExprKind::floor_mod:
    case ExprKind::trunc_div:
    case ExprKind::trunc_mod:
      return true;
    default:
      return std::any_of(e.args().begin(), e.args().end(), divides);
  }
}

class Facts {
 public:
  Facts(const Piece& piece, const std::function<double(const Node&)>& cycles)
      : piece_(piece), cycles_(cycles) {
    facts_.loads.resize(piece.loads.size());
    for (size_t u = 0; u < piece.box.size(); ++u) {
      middle_[name(u)] = std::max<int64_t>(piece.box[u] - 1, 0) / 2;
    }
  }

  BodyFacts run() {
    Level top{{}, &piece_.body, nullptr, {}, nullptr, {}, 1, 0};
    visit(top);
    return std::move(facts_);
  }

 private:
  using Known = std::optional<IndexValue>;
  // How many leading iterators decide a value (0: it is the same at every point), and whether a
  // loop over the others has it computed before (nest/passes/hoist.cpp).
  struct Reach {
    size_t iterators = 0;
    bool dear = false;
  };
  struct Level {
    IdVector<NodeId, Reach> reach;
    const Body* body;
    const Level* parent;
    IdVector<NodeId, Known> known;
    const Node* fold;
    Known counter;
    double times;
    int depth;
  };

  static std::string name(size_t iterator) { return "u" + std::to_string(iterator); }
  std::optional<int64_t> at_middle(const Expr& e) const { return value_at(e, middle_); }

  void visit(Level& l) {
    for (const Node& n : l.body->nodes) {
      l.known.push_back(known(l, n));
      l.reach.push_back(reach(l, n));
      cost(l, n, l.known.back().has_value() || l.reach.back().iterators == 0);
    }
  }

  Known known(const Level& l, const Node& n) const {
    switch (n.kind) {
      case NodeKind::integer:
        return index_literal(n.integer, n.type);
      case NodeKind::index: {
        size_t u = n.slot;
        int64_t last = u < piece_.box.size() ? std::max<int64_t>(piece_.box[u] - 1, 0) : 0;
        if (!fits(0, last, n.type)) return std::nullopt;
        return IndexValue{Expr::variable(name(u)), 0, last, 1};
      }
      case NodeKind::operation: {
        std::vector<IndexValue> operands;
        for (NodeId arg : n.args) {
          const Known& k = l.known[arg];
          if (!k) return std::nullopt;
          operands.push_back(*k);
        }
        return index_operation(n.op, n.type, operands);
      }
      case NodeKind::argument: {
        if (l.fold == nullptr) return std::nullopt;
        if (n.slot == 0) return l.counter;
        if (n.slot <= l.fold->slot) return std::nullopt;
        return l.parent->known[l.fold->args[n.slot + 1]];
      }
      default:
        return std::nullopt;
    }
  }

  Reach reach(const Level& l, const Node& n) const {
    Reach reach;
    for (NodeId arg : n.args) {
      reach.iterators = std::max(reach.iterators, l.reach[arg].iterators);
      reach.dear = reach.dear || l.reach[arg].dear;
    }
    switch (n.kind) {
      case NodeKind::integer:
      case NodeKind::real:
        return reach;
      case NodeKind::operation:
        reach.dear = reach.dear || is_dear(n.op);
        return reach;
      case NodeKind::load:
        for (const Index& i : piece_.loads[n.slot].index) {
          for (size_t u = reach.iterators; u < piece_.box.size(); ++u) {
            bool moves = piece_.box[u] > 1 && !i.affine.coefficient(u).is_zero();
            if (moves) reach.iterators = u + 1;
          }
        }
        return reach;
      default:
        return {piece_.box.size(), true};
    }
  }
  // Of the points, where the operation runs: what is dear is computed before the loops that do not
  // decide it.
  double share(const Reach& reach) const {
    double points = 1;
    for (size_t u = reach.iterators; u < piece_.box.size() && reach.dear; ++u) {
      points *= static_cast<double>(std::max<int64_t>(piece_.box[u], 1));
    }
    return 1 / points;
  }

  void cost(Level& l, const Node& n, bool index) {
    if (n.kind == NodeKind::load) return load(l, n);
    if (n.kind == NodeKind::fold) return fold(l, n);
    if (index || n.kind != NodeKind::operation) return;
    NodeId id(l.reach.size() - 1);
    if (n.type != DType::bool_) facts_.bits = std::max(facts_.bits, bit_width(n.type));
    if (l.depth == 0 && n.op == Op::cast && (*l.body)[n.args[0]].kind == NodeKind::load) {
      facts_.loads[(*l.body)[n.args[0]].slot].conversion += cycles_(n);
      return;
    }
    facts_.cycles += l.times * cycles_(n) * share(l.reach[id]);
    facts_.round += cycles_(n) * share(l.reach[id]);
    for (NodeId arg : n.args) {
      bool made = l.known[arg] && (*l.body)[arg].kind != NodeKind::integer;
      if (made) facts_.cycles += l.times * kIndexCycles;
    }
  }

  void load(const Level& l, const Node& n) {
    BodyFacts::Load& load = facts_.loads[n.slot];
    load.times += l.times;
    const Access& access = piece_.loads[n.slot];
    load.moves.resize(access.index.size());
    for (size_t d = 0; d < access.index.size(); ++d) {
      if (access.index[d].value < 0) continue;
      NodeId operand = n.args[static_cast<size_t>(access.index[d].value)];
      load.moves[d] = moves(l.known[operand]);
    }
  }
  BodyFacts::Moves moves(const Known& value) {
    if (!value || divides(value->expr)) return std::nullopt;
    std::vector<int64_t> result;
    std::optional<int64_t> here = at_middle(value->expr);
    for (size_t u = 0; u < piece_.box.size() && here; ++u) {
      ++middle_[name(u)];
      std::optional<int64_t> there = at_middle(value->expr);
      --middle_[name(u)];
      if (!there) return std::nullopt;
      result.push_back(*there - *here);
    }
    if (!here) return std::nullopt;
    return result;
  }

  // Between bounds that are values: the middle of their ranges.
  static double likely_rounds(const ValueRange& low, const ValueRange& high) {
    double count = (static_cast<double>(high.lo) + static_cast<double>(high.hi) -
                    static_cast<double>(low.lo) - static_cast<double>(low.hi)) /
                   2;
    bool known = std::abs(static_cast<double>(high.hi)) < kMostRounds &&
                 std::abs(static_cast<double>(low.lo)) < kMostRounds;
    return known ? std::max(count, 1.0) : kUnknownRounds;
  }

  void fold(Level& l, const Node& n) {
    const Known& begin = l.known[n.args[0]];
    const Known& end = l.known[n.args[1]];
    ValueRange low = value_range(*l.body, n.args[0]);
    ValueRange high = value_range(*l.body, n.args[1]);
    Expr first = 0;
    if (begin) first = begin->expr;
    double rounds = likely_rounds(low, high);
    if (begin && end) {
      std::optional<int64_t> count = at_middle(end->expr - begin->expr);
      if (count) rounds = std::clamp<double>(static_cast<double>(*count), 0, kMostRounds);
    }
    Level inside{{}, n.region.get(), &l, {}, &n, {}, l.times * rounds, l.depth + 1};
    std::string counter = "t" + std::to_string(inside.depth);
    int64_t lo = begin ? begin->lo : low.lo, hi = (end ? end->hi : high.hi) - 1;
    inside.counter = IndexValue{Expr::variable(counter), lo, std::max(lo, hi), 1};
    middle_[counter] = at_middle(first).value_or(0) + static_cast<int64_t>(rounds / 2);
    visit(inside);
    bool combines = n.op != Op::ident;
    facts_.cycles += inside.times * (kRoundOverheadCycles + (combines ? 0.5 * n.slot : 0));
    facts_.chain += inside.times * kRoundLatencyCycles;
    middle_.erase(counter);
  }

  const Piece& piece_;
  const std::function<double(const Node&)>& cycles_;
  BodyFacts facts_;
  std::map<std::string, int64_t, std::less<>> middle_;
};

}  // namespace

BodyFacts body_facts(const Piece& piece, const std::function<double(const Node&)>& cycles) {
  return Facts(piece, cycles).run();
}

}  // namespace tile
