#include "core/layout/unfold_taps.h"

#include <algorithm>
#include <set>

#include "core/ir/analysis/accesses.h"
#include "core/kernel/forms/gpu_forms.h"
#include "core/layout/unfolding.h"
#include "core/passes/normalize/substitution.h"

namespace tile {
namespace {

constexpr size_t kMostRank = 5;  // that bulk copies take

class Unfolding {
 public:
  Unfolding(FactorCopies& copies, std::vector<BoundStatement>& made)
      : copies_(copies), made_(made) {}

  // Two reductions that walk neighbouring dimensions of both factors as one, the second all of its
  // dimension, become one of them; the tensors are seen under other shapes.
  bool merge_taps(Piece& piece) {
    for (size_t u = piece.parallel_dims; u < piece.iterators.size(); ++u) {
      for (size_t v = piece.parallel_dims; v < piece.iterators.size(); ++v) {
        std::optional<size_t> a = joint(piece, 0, u, v), b = joint(piece, 1, u, v);
        if (u == v || !a || !b) continue;
        merge(piece, u, v, *a, *b);
        return true;
      }
    }
    return false;
  }
  bool unfold(Piece& piece) {
    std::vector<size_t> taps;
    for (size_t u = piece.parallel_dims; u < piece.iterators.size(); ++u) {
      if (piece.box[u] == 1) continue;
      if (!moves_with(piece.loads[0], u) || !moves_with(piece.loads[1], u)) return false;
      taps.push_back(u);
    }
    if (taps.empty()) return false;
    order_taps(piece, taps);
    DType type = copies_.tensor(piece.loads[0].tensor).type;
    int64_t last = piece.box[taps.back()],
            each = kWideBytes / static_cast<int64_t>(byte_size(type));
    int64_t padded = ceil_div(last, each) * each, terms = padded;
    for (size_t i = 0; i + 1 < taps.size(); ++i) terms = checked_mul(terms, piece.box[taps[i]]);
    std::vector<Access> matrices;
    std::set<size_t> used;  // constraints that a copy keeps
    for (size_t i = 0; i < 2; ++i) {
      std::vector<size_t> parallel_dims;
      for (size_t u = 0; u < piece.parallel_dims; ++u) {
        if (moves_with(piece.loads[i], u)) parallel_dims.push_back(u);
      }
      if (parallel_dims.empty() || parallel_dims.size() + 1 > kMostRank) return false;
      std::optional<Access> matrix = matrix_of(piece, i, parallel_dims, taps, padded, terms, used);
      if (!matrix) return false;
      matrices.push_back(std::move(*matrix));
    }
    if (used.size() != piece.constraints.size()) return false;
    replace(piece, std::move(matrices), terms);
    return true;
  }

 private:
  std::optional<size_t> joint(const Piece& piece, size_t load, size_t u, size_t v) const {
    const Access& a = piece.loads[load];
    std::optional<size_t> first = only_dimension(a, u), second = only_dimension(a, v);
    if (!first || !second || *second != *first + 1) return std::nullopt;
    bool whole = a.index[*second].affine == iterator_affine(v) &&
                 piece.box[v] == copies_.tensor(a.tensor).shape[*second];
    return whole && !is_constrained(piece, v) ? first : std::nullopt;
  }

  void merge(Piece& piece, size_t u, size_t v, size_t a, size_t b) {
    int64_t inner = piece.box[v];
    layout::join_dimensions(piece, 0, a, u, inner, copies_);
    layout::join_dimensions(piece, 1, b, u, inner, copies_);
    piece.box[u] *= inner;
    piece.box[v] = 1;
  }

  // Outermost first as the factor that shares indices with parallel dimensions lies in memory.
  void order_taps(const Piece& piece, std::vector<size_t>& taps) const {
    Kernel kernel;
    kernel.tensors = copies_.tensors();
    std::stable_sort(taps.begin(), taps.end(), [&](size_t u, size_t v) {
      return std::abs(gpu::stride_of(piece.loads[0], u, kernel)) >
             std::abs(gpu::stride_of(piece.loads[0], v, kernel));
    });
  }

  // The factor as [parallel dimensions…, terms], rows padded to whole accesses.
  std::optional<Access> matrix_of(const Piece& piece, size_t number,
                                  const std::vector<size_t>& parallel_dims,
                                  const std::vector<size_t>& taps, int64_t padded, int64_t terms,
                                  std::set<size_t>& used) {
    const Access from = piece.loads[number];
    const BoundTensor source = copies_.tensor(from.tensor);
    std::vector<Affine> place(piece.iterators.size(), constant_affine(0));
    Shape shape, seen;
    std::vector<std::string> names;
    for (const std::vector<size_t>* list : {&parallel_dims, &taps}) {
      for (size_t u : *list) {
        place[u] = iterator_affine(shape.size());
        shape.push_back(list == &taps && u == taps.back() ? padded : piece.box[u]);
        names.push_back(piece.iterators[u]);
      }
    }
    for (size_t u : parallel_dims) seen.push_back(piece.box[u]);
    seen.push_back(terms);
    if (bytes_of(shape, source.type) > layout::kMostUnfoldedBytes) return std::nullopt;
    bool pads = padded != piece.box[taps.back()];
    Access result;
    Access read = layout::read_for_copy(piece, from, source.shape, place,
                                        pads ? std::optional(taps.back()) : std::nullopt, used);
    TensorId whole = copies_.add(source.name + "_unfolded", source.type, shape);
    made_.emplace_back(copies_.copied(whole, read, names,
                                      pads ? std::optional(piece.box[taps.back()]) : std::nullopt));
    result.tensor = copies_.add(source.name + "_matrix", source.type, seen, whole);
    for (size_t u : parallel_dims) result.index.push_back({iterator_affine(u)});
    result.index.push_back({iterator_affine(piece.parallel_dims)});
    return result;
  }

  static void replace(Piece& piece, std::vector<Access> matrices, int64_t terms) {
    piece.iterators.resize(piece.parallel_dims);
    piece.iterators.emplace_back("term");
    piece.box.resize(piece.parallel_dims);
    piece.box.push_back(terms);
    piece.constraints.clear();
    piece.loads = std::move(matrices);
    for (Access& store : piece.stores) keep_iterators(store, piece.parallel_dims);
  }

  FactorCopies& copies_;
  std::vector<BoundStatement>& made_;
};

}  // namespace

bool unfold_taps(Piece& piece, FactorCopies& copies, std::vector<BoundStatement>& made) {
  Unfolding unfolding(copies, made);
  while (unfolding.merge_taps(piece)) {
  }
  return unfolding.unfold(piece);
}

}  // namespace tile
