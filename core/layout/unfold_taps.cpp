#include "core/layout/unfold_taps.h"

#include <algorithm>
#include <set>

#include "core/ir/analysis/accesses.h"
#include "core/kernel/forms/gpu_forms.h"
#include "core/kernel/kernel.h"
#include "core/passes/normalize/substitution.h"

namespace tile {
namespace {

constexpr int64_t kMostBytes = 1 << 30;  // of a copy
constexpr size_t kMostRank = 5;          // that bulk copies take

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
    return whole && !constrained(piece, v) ? first : std::nullopt;
  }
  static bool constrained(const Piece& piece, size_t u) {
    return std::any_of(piece.constraints.begin(), piece.constraints.end(),
                       [&](const Constraint& c) { return !c.form.coefficient(u).is_zero(); });
  }

  void merge(Piece& piece, size_t u, size_t v, size_t a, size_t b) {
    int64_t inner = piece.box[v];
    // t = inner * u + v takes the place of u: a form f with u times 1 becomes (inner * f)(u = 0) +
    // t.
    for (auto [i, d] : {std::pair{size_t{0}, a}, {size_t{1}, b}}) {
      Access& load = piece.loads[i];
      const BoundTensor t = copies_.tensor(load.tensor);
      Affine before = load.index[d].affine;
      for (Constraint& k : piece.constraints) {
        Affine rest = k.form - before;
        if (k.form.coefficient(u).is_zero() || !rest.is_constant()) continue;
        k.lo = (k.lo - rest.constant.num()) * inner;
        k.hi = (k.hi - rest.constant.num()) * inner;
        k.form = joined(before, u, inner);
      }
      Shape shape = t.shape;
      shape[d] *= inner;
      shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(d) + 1);
      load.tensor = copies_.add(t.name + "_joined", t.type, shape, t.view_of.value_or(load.tensor));
      load.index[d].affine = joined(before, u, inner);
      load.index.erase(load.index.begin() + static_cast<std::ptrdiff_t>(d) + 1);
    }
    piece.box[u] *= inner;
    piece.box[v] = 1;
  }
  static Affine joined(const Affine& form, size_t u, int64_t inner) {
    return (form - iterator_affine(u)) * Rational(inner) + iterator_affine(u);
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
    if (bytes_of(shape, source.type) > kMostBytes) return std::nullopt;
    bool pads = padded != piece.box[taps.back()];
    Access read = from, result;
    for (size_t d = 0; d < read.index.size(); ++d) {
      bool outside = pads && !from.index[d].affine.coefficient(taps.back()).is_zero();
      for (size_t k = 0; k < piece.constraints.size(); ++k) {
        const Constraint& condition = piece.constraints[k];
        Affine rest = condition.form - from.index[d].affine;
        if (!rest.is_constant() || !rest.is_integral()) continue;
        int64_t shift = rest.constant.num();
        if (condition.lo - shift != 0 || condition.hi - shift != source.shape[d]) continue;
        used.insert(k);
        outside = true;
      }
      if (outside) read.index[d].boundary = Boundary::constant;
      read.index[d].affine = substitute(from.index[d].affine, place);
    }
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
    for (Access& store : piece.stores) {
      for (Index& index : store.index) {
        if (index.affine.coefficients.size() > piece.parallel_dims) {
          index.affine.coefficients.resize(piece.parallel_dims);
        }
      }
    }
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
