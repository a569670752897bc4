// Roles of iterators and the class of a piece, from its accesses alone.
#include <algorithm>
#include <optional>
#include <utility>

#include "core/ir/analysis/accesses.h"
#include "core/kernel/kernel.h"

namespace tile {
namespace {

constexpr std::string_view kClasses[] = {"pointwise", "matrix", "windowed",
                                         "reduction", "scan",   "copy"};
constexpr std::string_view kRoles[] = {"batch", "m", "n", "k", "window", "reduction", "outer"};

// The node below casts.
NodeId uncast(const Body& body, NodeId id) {
  while (body[id].kind == NodeKind::operation && body[id].op == Op::cast) id = body[id].args[0];
  return id;
}

// The two loads whose product the body is, if it is one.
using LoadPair = std::optional<std::pair<size_t, size_t>>;
LoadPair multiplied_loads(const Body& body) {
  if (body.results.size() != 1) return std::nullopt;
  const Node& root = body[uncast(body, body.results[0])];
  if (root.kind != NodeKind::operation || root.op != Op::mul) return std::nullopt;
  const Node& a = body[uncast(body, root.args[0])];
  const Node& b = body[uncast(body, root.args[1])];
  if (a.kind != NodeKind::load || b.kind != NodeKind::load || a.slot == b.slot) return std::nullopt;
  return std::pair(std::min(a.slot, b.slot), std::max(a.slot, b.slot));
}

// An index expression that moves with both the reduction and a parallel dimension: the taps of a
// window. A digit of a parallel dimension that was split stays a parallel dimension, so splitting
// makes no windows.
bool shares_index(const Piece& piece, size_t reduction) {
  for (const Access& a : piece.loads) {
    for (const Index& index : a.index) {
      if (index.affine.coefficient(reduction).is_zero()) continue;
      for (size_t u = 0; u < piece.parallel_dims; ++u) {
        if (!index.affine.coefficient(u).is_zero() && piece.box[u] > 1) return true;
      }
    }
  }
  return false;
}

// A condition that moves with both, where no load does: its range, not its elements, slides.
bool bounded_by_parallel_dim(const Piece& piece, size_t reduction) {
  return std::any_of(piece.constraints.begin(), piece.constraints.end(), [&](const Constraint& c) {
    if (c.form.coefficient(reduction).is_zero()) return false;
    for (size_t u = 0; u < piece.parallel_dims; ++u) {
      if (!c.form.coefficient(u).is_zero()) return true;
    }
    return false;
  });
}

Role parallel_dim_role(const Piece& piece, const LoadPair& product, size_t u) {
  size_t in = 0;
  for (const Access& a : piece.loads) in += moves_with(a, u) ? 1 : 0;
  if (in == 0) return Role::outer;
  if (!product || in == piece.loads.size()) return Role::batch;
  return moves_with(piece.loads[product->first], u) ? Role::m : Role::n;
}

Role reduction_role(const Piece& piece, const LoadPair& product, size_t u) {
  if (shares_index(piece, u)) return Role::window;
  bool both = product && moves_with(piece.loads[product->first], u) &&
              moves_with(piece.loads[product->second], u);
  return both ? Role::k : Role::reduction;
}

bool is_copy(const Piece& piece) {
  if (piece.loads.size() != 1 || piece.body.results.size() != 1) return false;
  const Body& body = piece.body;
  return body[uncast(body, body.results[0])].kind == NodeKind::load;
}

}  // namespace

std::string_view to_string(KernelClass c) { return kClasses[static_cast<size_t>(c)]; }
std::string_view to_string(Role r) { return kRoles[static_cast<size_t>(r)]; }

PieceClass classify(const Piece& piece, const Contraction& contraction, const BoundTensors&) {
  PieceClass result;
  LoadPair product;
  if (contraction.aggregation == Aggregation::sum && piece.loads.size() == 2) {
    product = multiplied_loads(piece.body);
  }
  auto has = [&](Role r) {
    return std::find(result.roles.begin(), result.roles.end(), r) != result.roles.end();
  };
  bool reduces = false, scans = false;
  for (size_t u = 0; u < piece.iterators.size(); ++u) {
    bool parallel_dim = u < piece.parallel_dims;
    result.roles.push_back(parallel_dim ? parallel_dim_role(piece, product, u)
                                        : reduction_role(piece, product, u));
    if (parallel_dim || piece.box[u] == 1) continue;
    reduces = true;
    scans = scans || (result.roles[u] != Role::window && bounded_by_parallel_dim(piece, u));
  }
  bool matrix = product && (has(Role::m) || has(Role::n)) && has(Role::k);
  if (!reduces) {
    result.kind = is_copy(piece) ? KernelClass::copy : KernelClass::pointwise;
  } else if (scans) {
    result.kind = KernelClass::scan;
  } else if (has(Role::window)) {
    result.kind = KernelClass::windowed;
  } else {
    result.kind = matrix ? KernelClass::matrix : KernelClass::reduction;
  }
  return result;
}

}  // namespace tile
