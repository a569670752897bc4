#include "core/passes/gradient/write_out_loops.h"

#include <algorithm>
#include <optional>

#include "core/passes/fold_constants.h"
#include "core/passes/unroll_folds.h"

namespace tile {
namespace {

// Elements narrower than 2^29 along each dimension keep i32 sums of an index and such constants
// from wrapping, as MFG's own index arithmetic supposes.
constexpr int64_t kLargestConstant = int64_t{1} << 20;
constexpr int64_t kLargestFactor = 4;

class Reader {
 public:
  Reader(const Body& body, const std::vector<std::string>& indices)
      : body_(body), indices_(indices) {}

  std::optional<Expr> read(NodeId id) const {
    const Node& n = body_[id];
    bool wide = n.type == DType::i32 || n.type == DType::i64;
    switch (n.kind) {
      case NodeKind::integer:
        return std::abs(n.integer) <= kLargestConstant ? std::optional(Expr(n.integer))
                                                       : std::nullopt;
      case NodeKind::size:
        return n.expr;
      case NodeKind::index:
        return Expr::variable(indices_[static_cast<size_t>(n.slot)]);
      case NodeKind::operation:
        return wide ? operation(n) : std::nullopt;
      default:
        return std::nullopt;
    }
  }

 private:
  std::optional<Expr> operation(const Node& n) const {
    std::vector<Expr> args;
    for (NodeId arg : n.args) {
      std::optional<Expr> e = read(arg);
      if (!e) return std::nullopt;
      args.push_back(*e);
    }
    switch (n.op) {
      case Op::cast:
        return args[0];
      case Op::neg:
        return -args[0];
      case Op::add:
        return args[0] + args[1];
      case Op::sub:
        return args[0] - args[1];
      case Op::min:
        return min(args[0], args[1]);
      case Op::max:
        return max(args[0], args[1]);
      case Op::mul: {
        bool small = std::any_of(args.begin(), args.end(), [](const Expr& e) {
          return e.is_constant() && std::abs(e.value()) <= kLargestFactor;
        });
        return small ? std::optional(args[0] * args[1]) : std::nullopt;
      }
      default:
        return std::nullopt;
    }
  }

  const Body& body_;
  const std::vector<std::string>& indices_;
};

bool by_value(const SymbolicAccess& a) {
  return std::any_of(a.values.begin(), a.values.end(), [](int v) { return v >= 0; });
}

// The access with index expressions in place of values; nullopt: one of them is no expression.
std::optional<SymbolicAccess> expressed(const SymbolicAccess& access, const Node& load,
                                        const Reader& reader) {
  SymbolicAccess result = access;
  for (size_t d = 0; d < access.values.size(); ++d) {
    if (access.values[d] < 0) continue;
    std::optional<Expr> e = reader.read(load.args[static_cast<size_t>(access.values[d])]);
    if (!e) return std::nullopt;
    result.index[d] = *e;
  }
  result.values.clear();
  return result;
}

int position_of(std::vector<SymbolicAccess>& accesses, SymbolicAccess access) {
  auto same = [&](const SymbolicAccess& other) {
    return other.tensor == access.tensor && other.index == access.index &&
           other.values == access.values && other.boundary == access.boundary;
  };
  auto found = std::find_if(accesses.begin(), accesses.end(), same);
  if (found == accesses.end()) found = accesses.insert(accesses.end(), std::move(access));
  return static_cast<int>(found - accesses.begin());
}

// Accesses by value bound no index: those that nothing reads any more go.
void drop_unread(SymbolicContraction& c) {
  std::vector<bool> read(c.accesses.size());
  visit_nodes(c.body, [&](const Node& n) {
    if (n.kind == NodeKind::load) read[static_cast<size_t>(n.slot)] = true;
  });
  std::vector<int> to(c.accesses.size(), -1);
  std::vector<SymbolicAccess> kept;
  for (size_t i = 0; i < to.size(); ++i) {
    if (!read[i] && by_value(c.accesses[i])) continue;
    to[i] = static_cast<int>(kept.size());
    kept.push_back(std::move(c.accesses[i]));
  }
  change_nodes(c.body, [&](Node& n) {
    if (n.kind == NodeKind::load) n.slot = to[static_cast<size_t>(n.slot)];
  });
  c.accesses = std::move(kept);
}

}  // namespace

void write_out_loops(SymbolicContraction& c) {
  bool loops = std::any_of(c.body.nodes.begin(), c.body.nodes.end(),
                           [](const Node& n) { return n.kind == NodeKind::fold; });
  if (!loops || !c.typed) return;
  // No element is known before bind: the accesses stand for tensors without constants.
  BoundProgram nothing;
  nothing.tensors.resize(1);
  Piece piece;
  piece.loads.assign(c.accesses.size(), Access{0, {}, {}});
  c.body = with_loops_written_out(c.body, [&](const Body& body) {
    piece.body = body;
    return with_constants_folded(nothing, piece);
  });
  c.body = tidied(rewritten(c.body, [&](Body& body, const Node& node) -> NodeId {
    if (node.kind != NodeKind::load) return -1;
    const SymbolicAccess access = c.accesses[static_cast<size_t>(node.slot)];
    if (!by_value(access)) return -1;
    auto whole = expressed(access, node, Reader(body, c.indices));
    if (!whole) return -1;
    return body.load(position_of(c.accesses, std::move(*whole)), node.type, node.span);
  }));
  drop_unread(c);
}

}  // namespace tile
