// A view that has the dimensions of its tensor, but for those of one cell (reshape(Sum, H, S, 1) of
// Sum[H, S]): what reads the view reads the tensor, which kernels that make the tensor can.
#include <algorithm>
#include <optional>
#include <vector>

#include "core/ir/analysis/accesses.h"
#include "core/passes/optimize/optimize.h"

namespace tile {
namespace {

// By dimension of the tensor the view's; nothing for one of one cell. Nullopt: others differ, too.
std::optional<std::vector<std::optional<size_t>>> dimensions_of(const Shape& tensor,
                                                                const Shape& view) {
  std::vector<std::optional<size_t>> of;
  size_t v = 0;
  auto skip_ones = [&] {
    while (v < view.size() && view[v] == 1) ++v;
  };
  for (int64_t extent : tensor) {
    if (extent == 1) {
      of.emplace_back();
      continue;
    }
    skip_ones();
    if (v == view.size() || view[v] != extent) return std::nullopt;
    of.emplace_back(v++);
  }
  skip_ones();
  return v == view.size() ? std::optional(std::move(of)) : std::nullopt;
}

void read_tensor(Access& a, const BoundProgram& program) {
  const BoundTensor& view = program.tensors[a.tensor];
  if (!view.view_of || view.shape.size() != a.index.size()) return;
  const BoundTensor& tensor = program.tensors[*view.view_of];
  auto dimensions = dimensions_of(tensor.shape, view.shape);
  bool plain = std::all_of(a.index.begin(), a.index.end(), is_plain_index);
  if (!dimensions || !plain || tensor.type != view.type) return;
  std::vector<Index> index;
  for (const std::optional<size_t>& d : *dimensions) {
    index.push_back(d ? a.index[*d] : Index{constant_affine(0), -1, Boundary::in_range});
  }
  a.tensor = *view.view_of;
  a.index = std::move(index);
}

}  // namespace

void forward_views(BoundProgram& program, const Target& /*target*/) {
  for (BoundStatement& statement : program.statements) {
    auto* c = std::get_if<Contraction>(&statement);
    if (c == nullptr || !c->normalized) continue;
    for (Piece& piece : c->pieces) {
      for (Access& a : piece.loads) read_tensor(a, program);
    }
  }
}

}  // namespace tile
