#include "core/kernel/forms/window.h"

#include <algorithm>

#include "core/ir/analysis/value_range.h"
#include "core/kernel/forms/scan.h"
#include "core/simplify/simplify.h"

namespace tile {
namespace {

constexpr int64_t kLongest = 4096;  // values of a block that are kept
constexpr const char* kPlace = "place";

std::string name(size_t iterator) { return "u" + std::to_string(iterator); }

// Tells for each node whether it moves with the parallel dimension other than together with the
// place in the window.
class Windows {
 public:
  explicit Windows(const Piece& piece) : piece_(piece) {}

  // The whole body, the place being the reduction `u`.
  bool slides_with(size_t parallel_dim, size_t reduction) {
    parallel_dim_ = parallel_dim;
    reduction_ = reduction;
    Level top{&piece_.body, nullptr, nullptr, {}, {}};
    visit(top);
    return moves_ && std::all_of(piece_.body.results.begin(), piece_.body.results.end(),
                                 [&](NodeId r) { return together(top, r); });
  }

  // The fold's region; the captured values come from the body.
  bool slides_in(size_t parallel_dim, const Node& fold, const IndexValue& counter) {
    parallel_dim_ = parallel_dim;
    Level top{&piece_.body, nullptr, nullptr, {}, {}};
    visit(top);
    moves_ = false;
    Level inside{fold.region.get(), &top, &fold, {}, {}};
    counter_ = counter;
    visit(inside);
    return moves_ && std::all_of(fold.region->results.begin(), fold.region->results.end(),
                                 [&](NodeId r) { return together(inside, r); });
  }

  // The fold's bounds, which no iterator may move.
  std::optional<IndexValue> bound(NodeId id) {
    Level top{&piece_.body, nullptr, nullptr, {}, {}};
    visit(top);
    const Known& k = top.known[id];
    if (!k) return std::nullopt;
    for (size_t u = 0; u < piece_.box.size(); ++u) {
      if (uses_variable(k->expr, name(u))) return std::nullopt;
    }
    return k;
  }

 private:
  using Known = std::optional<IndexValue>;
  struct Level {
    const Body* body;
    const Level* parent;
    const Node* fold;
    IdVector<NodeId, Known> known;
    IdVector<NodeId, bool> together;  // of values that are no index expressions
  };

  void visit(Level& l) {
    for (const Node& n : l.body->nodes) {
      l.known.push_back(known(l, n));
      l.together.push_back(value_together(l, n));
    }
  }

  Known known(const Level& l, const Node& n) const {
    switch (n.kind) {
      case NodeKind::integer:
        return index_literal(n.integer, n.type);
      case NodeKind::index: {
        size_t u = n.slot;
        return IndexValue{variable(u), 0, std::max<int64_t>(piece_.box[u] - 1, 0), 1};
      }
      case NodeKind::load: {
        const Access& a = piece_.loads[n.slot];
        bool scalar = a.index.empty() && is_integer(n.type) && bit_width(n.type) <= 32;
        if (!scalar) return std::nullopt;
        ValueRange range = value_range(*l.body, node_id(l, n));
        return IndexValue{Expr::variable("s" + to_string(a.tensor)), range.lo, range.hi, 1};
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
      case NodeKind::argument:
        if (l.fold == nullptr) return std::nullopt;
        if (n.slot == 0) return counter_;
        if (n.slot <= l.fold->slot) return std::nullopt;
        return l.parent->known[captured(l, n)];
      default:
        return std::nullopt;
    }
  }
  static NodeId node_id(const Level& l, const Node& n) { return NodeId(&n - l.body->nodes.data()); }
  static NodeId captured(const Level& l, const Node& n) { return l.fold->args[n.slot + 1]; }
  Expr variable(size_t u) const {
    return u == reduction_ ? Expr::variable(kPlace) : Expr::variable(name(u));
  }

  // The expression stays as it is when the parallel dimension goes one back and the place one on.
  bool together(const Expr& e) {
    bool parallel_dim = uses_variable(e, name(parallel_dim_)),
         place = uses_variable(e, place_name());
    if (!parallel_dim && !place) return true;
    Expr shifted = substitute(e, {{name(parallel_dim_), Expr::variable(name(parallel_dim_)) - 1},
                                  {place_name(), Expr::variable(place_name()) + 1}});
    Ranges free;  // the shifted values may lie outside their ranges
    bool same = simplify(shifted, free) == simplify(e, free);
    moves_ = moves_ || (parallel_dim && same);
    return same;
  }
  std::string place_name() const { return counter_ ? "turn" : kPlace; }
  bool together(const Level& l, NodeId id) {
    const Known& k = l.known[id];
    return k ? together(k->expr) : static_cast<bool>(l.together[id]);
  }

  bool value_together(const Level& l, const Node& n) {
    if (n.kind == NodeKind::fold || n.kind == NodeKind::component) return false;
    if (n.kind == NodeKind::argument) {
      if (l.fold == nullptr || n.slot <= l.fold->slot) return n.slot == 0;
      return l.parent->together[captured(l, n)];
    }
    for (NodeId arg : n.args) {
      if (!together(l, arg)) return false;
    }
    return n.kind != NodeKind::load || load_together(n);
  }
  bool load_together(const Node& n) {
    const Access& a = piece_.loads[n.slot];
    return std::all_of(a.index.begin(), a.index.end(), [&](const Index& index) {
      if (index.value >= 0) return true;  // an operand
      const Affine& form = index.affine;
      auto is_whole = [](const Rational& c) { return c.is_integer(); };
      if (!std::all_of(form.coefficients.begin(), form.coefficients.end(), is_whole)) return false;
      Rational along = form.coefficient(parallel_dim_);
      Rational place = reduction_ ? form.coefficient(*reduction_) : Rational(0);
      moves_ = moves_ || (along == place && !along.is_zero());
      return along == place;
    });
  }

  const Piece& piece_;
  size_t parallel_dim_ = 0;
  std::optional<size_t> reduction_;
  Known counter_;
  bool moves_ = false;
};

std::optional<WindowForm> reduction_form(const Piece& piece, const Contraction& c) {
  bool one = piece.box.size() == piece.parallel_dims + 1 && c.aggregation != Aggregation::assign &&
             !c.fill && piece.box.back() <= kLongest;
  if (!one) return std::nullopt;
  for (size_t u = 0; u < piece.parallel_dims; ++u) {
    if (!Windows(piece).slides_with(u, piece.parallel_dims)) continue;
    auto length = static_cast<double>(piece.box.back());
    return WindowForm{u, NodeId(), piece.box.back(), length};
  }
  return std::nullopt;
}

std::optional<WindowForm> fold_form(const Piece& piece) {
  NodeId fold;
  for (NodeId i : piece.body.nodes.ids()) {
    if (piece.body.nodes[i].kind != NodeKind::fold) continue;
    if (fold.valid()) return std::nullopt;
    fold = i;
  }
  if (!fold.valid() || piece.box.size() != piece.parallel_dims) return std::nullopt;
  const Node& node = piece.body[fold];
  bool nested = std::any_of(node.region->nodes.begin(), node.region->nodes.end(),
                            [](const Node& n) { return n.kind == NodeKind::fold; });
  if (node.op == Op::ident || nested) return std::nullopt;
  Windows bounds(piece);
  auto begin = bounds.bound(node.args[0]), end = bounds.bound(node.args[1]);
  if (!begin || !end) return std::nullopt;
  try {
    int64_t longest = checked_sub(end->hi, begin->lo);
    bool some = checked_sub(end->lo, begin->hi) >= 1;  // never empty
    if (!some || longest > kLongest) return std::nullopt;
    IndexValue counter{Expr::variable("turn"), begin->lo, end->hi - 1, 1};
    int64_t likely = (end->hi + end->lo) / 2 - (begin->hi + begin->lo) / 2;
    for (size_t u = 0; u < piece.parallel_dims; ++u) {
      if (Windows(piece).slides_in(u, node, counter)) {
        return WindowForm{u, fold, longest, static_cast<double>(std::max<int64_t>(likely, 1))};
      }
    }
  } catch (const Overflow&) {
  }
  return std::nullopt;
}

}  // namespace

std::optional<size_t> carried_parallel_dim(const Piece& piece, const Contraction& contraction,
                                           const Target& target) {
  if (std::optional<ScanForm> scan = scan_form(piece, contraction)) return scan->parallel_dim;
  std::optional<WindowForm> window = window_form(piece, contraction);
  if (!window || (window->fold.valid() && target.device != "cpu")) return std::nullopt;
  return window->parallel_dim;
}

std::optional<WindowForm> window_form(const Piece& piece, const Contraction& contraction) {
  if (contraction.pieces.size() != 1 || !piece.constraints.empty()) return std::nullopt;
  if (auto form = reduction_form(piece, contraction)) return form;
  return fold_form(piece);
}

}  // namespace tile
