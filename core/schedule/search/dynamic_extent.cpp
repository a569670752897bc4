#include "core/schedule/search/dynamic_extent.h"

#include <algorithm>
#include <set>

#include "core/kernel/alike.h"

namespace tile {
namespace {

// Sizes in (8^k, 8^(k + 1)] are one class: 64 batches span at most three.
constexpr int64_t kClassRatio = 8;
// Each size that may be left of a block has code of its own while their register tiles have no more
// vectors in all, as all that fill 32 registers or 16 do but those of many rows. With 128
// convolutions of nine images take 1.2 times as long as in code of their own. [tile-bench sizes]
constexpr int64_t kShortVectors = 160;
// Far from where indices in bytes overflow.
constexpr int64_t kMostBytes = int64_t{1} << 46;

Piece& piece_at(Kernel& kernel, const DynamicExtent::PieceAt& at) {
  return kernel.stages[at.stage].contraction.pieces[at.piece];
}
const Piece* find_piece(const Kernel& kernel, const DynamicExtent::PieceAt& at) {
  if (!kernel.stages.contains(at.stage)) return nullptr;
  const std::vector<Piece>& pieces = kernel.stages[at.stage].contraction.pieces;
  return at.piece < pieces.size() ? &pieces[at.piece] : nullptr;
}

std::set<TensorId> accessed(const Kernel& kernel) {
  std::set<TensorId> found;
  for (const KernelStage& stage : kernel.stages) {
    found.insert(stage.contraction.outputs.begin(), stage.contraction.outputs.end());
    for (const Piece& piece : stage.contraction.pieces) {
      for (const Access& a : piece.stores) found.insert(a.tensor);
      for (const Access& a : piece.loads) found.insert(a.tensor);
    }
  }
  return found;
}

// The program's other tensors may have the size too, and the shapes before merging.
void forget_others(Kernel& kernel) {
  kernel.shapes.clear();  // needed for strided tensors alone
  std::set<TensorId> named = accessed(kernel);
  for (TensorId id : accessed(kernel)) {
    if (kernel.tensors[id].view_of) named.insert(*kernel.tensors[id].view_of);
  }
  for (size_t i = 0; i < kernel.tensors.size(); ++i) {
    if (!named.contains(TensorId(i))) kernel.tensors.edit(i) = {};
  }
}

int64_t bytes_at(const Kernel& kernel, const DynamicExtent& extent, int64_t size) {
  int64_t most = 0;
  Kernel there = with_size(kernel, extent, size);
  for (const DynamicExtent::Dimension& d : extent.dimensions) {
    const BoundTensor& t = there.tensors[d.tensor];
    int64_t bytes = checked_mul(element_count(t.shape), static_cast<int64_t>(byte_size(t.type)));
    most = std::max(most, bytes);
  }
  return most;
}

}  // namespace

std::optional<Growth> DynamicExtent::of(StageId stage, size_t piece, IteratorId iterator) const {
  for (const Walk& w : walks) {
    if (w.of.stage == stage && w.of.piece == piece && w.iterator == iterator) return w.size;
  }
  return std::nullopt;
}

Kernel with_size(const Kernel& kernel, const DynamicExtent& extent, int64_t size) {
  Kernel other = kernel;
  for (const auto& d : extent.dimensions) {
    other.tensors.edit(d.tensor).shape[d.dimension] = d.size.at(size);
  }
  for (const auto& w : extent.walks) piece_at(other, w.of).box[w.iterator] = w.size.at(size);
  for (const auto& b : extent.bounds) {
    Constraint& c = piece_at(other, b.of).constraints[b.constraint];
    (b.upper ? c.hi : c.lo) = b.value.at(size);
  }
  for (const auto& l : extent.literals) {
    Node& node = piece_at(other, l.of).body.nodes[l.node];
    if (node.kind == NodeKind::integer) {
      node.integer = l.value.at(size);
    } else {
      node.real = static_cast<double>(l.value.at(size));
    }
  }
  return other;
}

std::optional<int64_t> extent_in(const ClassKernel& of, const Kernel& kernel) {
  const DynamicExtent::Walk& walk = of.extent.walks.at(0);
  const Piece* piece = find_piece(kernel, walk.of);
  if (piece == nullptr || !piece->box.contains(walk.iterator)) return std::nullopt;
  int64_t above = piece->box[walk.iterator] - walk.size.offset;
  if (above % walk.size.factor != 0) return std::nullopt;
  int64_t size = above / walk.size.factor;
  if (size < of.extent.least || size > of.extent.most) return std::nullopt;
  Kernel there = with_size(of.kernel, of.extent, size);
  return alike(there, kernel) ? std::optional(size) : std::nullopt;
}

bool complete(ClassKernel& found) {
  forget_others(found.kernel);
  // A copy would be of one size.
  for (const auto& d : found.extent.dimensions) {
    BoundTensors& tensors = found.kernel.tensors;
    tensors.edit(d.tensor).fixed = false;
    std::optional<TensorId> source = tensors[d.tensor].view_of;
    if (source) tensors.edit(*source).fixed = false;
  }
  found.extent.most = found.span.most;
  return found.size <= found.extent.most &&
         bytes_at(found.kernel, found.extent, found.extent.most) <= kMostBytes;
}

SizeSpan span_of(int64_t size) {
  int64_t end = kClassRatio;
  while (end < size) end *= kClassRatio;
  // The middle of the class, or all of the smallest one.
  return {end == kClassRatio ? 1 : end / kClassRatio + 1, std::max(kClassRatio, end / 2), end};
}

std::vector<int64_t> short_blocks(int64_t step, int64_t vectors) {
  std::vector<int64_t> sizes;
  for (int64_t size = step; size > 1;) {
    // Of the blocks of each smaller size, one by one.
    int64_t all = checked_mul(vectors, size * (size - 1) / 2);
    sizes.push_back(size = all <= kShortVectors * step ? size - 1 : ceil_div(size, 2));
  }
  return sizes;
}

bool halves_last_blocks(int64_t step, int64_t vectors) {
  return static_cast<int64_t>(short_blocks(step, vectors).size()) == step - 1;
}

}  // namespace tile
