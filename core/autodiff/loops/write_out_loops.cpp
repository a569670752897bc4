#include "core/autodiff/loops/write_out_loops.h"

#include <algorithm>

#include "core/passes/normalize/fold_constants.h"
#include "core/passes/normalize/unroll_folds.h"

namespace tile {

void write_out_loops(SymbolicContraction& c) {
  bool loops = std::any_of(c.body.nodes.begin(), c.body.nodes.end(),
                           [](const Node& n) { return n.kind == NodeKind::fold; });
  if (!loops || !c.typed) return;
  // No element is known before bind: the accesses stand for tensors without constants.
  BoundProgram nothing;
  nothing.tensors.resize(1);
  Piece piece;
  piece.loads.assign(c.accesses.size(), Access{TensorId(0), {}, {}});
  c.body = with_loops_written_out(c.body, [&](const Body& body) {
    piece.body = body;
    return with_constants_folded(nothing, piece);
  });
}

}  // namespace tile
