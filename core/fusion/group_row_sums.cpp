// Partial sums over chunks of rows (core/layout/gather_row_sums.cpp) join the kernel that has these
// rows: its rows become chunks, and inside a chunk its rows pass by, block by block, as the blocks
// of a streamed axis do. What a row makes stays near, and the sums of a chunk are kept beside it.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "core/fusion/group.h"
#include "core/fusion/step_order.h"
#include "core/ir/analysis/accesses.h"
#include "core/ir/analysis/uses.h"
#include "core/kernel/rows.h"
#include "core/kernel/stream.h"
#include "core/passes/normalize/substitution.h"
#include "core/support/choices.h"

namespace tile {
namespace {

constexpr size_t kDistance = 16;  // steps tried on each side
constexpr size_t kMostStages = 20;
constexpr size_t kMostReads = 32;

// An index that is chunk * size + place.
struct Digits {
  IteratorId chunk, place;
  int64_t size = 0;
};
std::optional<Digits> digits_of(const Index& index, const Piece& piece) {
  const Affine& form = index.affine;
  bool plain = is_plain_index(index) && form.is_integral() && form.constant.is_zero();
  if (!plain) return std::nullopt;
  Digits digits;
  for (IteratorId u : piece.box.ids()) {
    int64_t factor = form.coefficient(u).num();
    if (factor == 0) continue;
    if (piece.is_parallel(u) && factor > 1 && !digits.chunk.valid()) {
      digits.chunk = u;
      digits.size = factor;
    } else if (!piece.is_parallel(u) && factor == 1 && !digits.place.valid()) {
      digits.place = u;
    } else {
      return std::nullopt;
    }
  }
  bool both = digits.chunk.valid() && digits.place.valid();
  return both && piece.box[digits.place] == digits.size ? std::optional(digits) : std::nullopt;
}

// Which iterator of the sum each row of the kernel is, and which row is cut into chunks.
struct RowsOfSum {
  IdVector<RowId, IteratorId> rows;
  RowId cut;
  Digits digits;
};

// A kernel whose row is cut: a chunk is its row, the place in it its streamed axis.
class Chunking {
 public:
  Chunking(const Kernel& kernel, const Contraction& sum, RowsOfSum rows)
      : kernel_(kernel), sum_(sum), of_(std::move(rows)), map_(row_map(kernel)) {}

  std::optional<Kernel> run() {
    find_divided();
    for (size_t s = 0; s < kernel_.stages.size(); ++s) {
      if (!divide(s)) return std::nullopt;
    }
    KernelStage stage;
    stage.contraction = sum_;
    stage.rows = of_.rows;
    stage.stream = of_.digits.place;
    for (Access& load : stage.contraction.pieces[0].loads) {
      for (size_t d = load.index.size(); d-- > 0;) {
        if (!is_cut(load.tensor, d)) continue;
        std::optional<Digits> digits = digits_of(load.index[d], sum_.pieces[0]);
        bool same =
            digits && digits->chunk == of_.digits.chunk && digits->place == of_.digits.place;
        if (!same) return std::nullopt;
        replace(load, d, digits->chunk.index(), digits->place.index());
      }
    }
    kernel_.stages.push_back(std::move(stage));
    for (TensorId id : divided_) {
      Shape& shape = kernel_.tensors.edit(id).shape;
      const std::vector<RowId>& dims = map_.dimensions.at(id);
      for (size_t d = shape.size(); d-- > 0;) {
        if (dims[d] != of_.cut) continue;
        shape[d] /= of_.digits.size;
        shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(d) + 1, of_.digits.size);
      }
    }
    return std::move(kernel_);
  }
  // Tensors whose cut dimension is two in the kernel: nobody else may need them.
  const std::vector<TensorId>& divided() const { return divided_; }

 private:
  // What the kernel's stages or the sum read of what it makes.
  void find_divided() {
    auto look = [&](const Contraction& c) {
      for (const Access& load : c.pieces[0].loads) {
        bool made = map_.dimensions.contains(load.tensor);
        if (made && !contains(divided_, load.tensor)) divided_.push_back(load.tensor);
      }
    };
    for (const KernelStage& s : kernel_.stages) look(s.contraction);
    look(sum_);
  }
  bool is_cut(TensorId id, size_t d) const {
    return contains(divided_, id) && map_.dimensions.at(id)[d] == of_.cut;
  }
  static void replace(Access& access, size_t d, size_t chunk, size_t place) {
    access.index[d].affine = iterator_affine(chunk);
    Index second = access.index[d];
    second.affine = iterator_affine(place);
    access.index.insert(access.index.begin() + static_cast<std::ptrdiff_t>(d) + 1, second);
  }

  bool divide(size_t s) {
    KernelStage& stage = kernel_.stages[s];
    Piece& piece = stage.contraction.pieces[0];
    IteratorId cut = row_iterator(s, piece);
    if (!cut.valid() || !piece.is_parallel(cut)) return false;
    lattice::Substitution change;
    IterationBox box;
    for (IteratorId u : piece.box.ids()) {
      Affine form = iterator_affine(box.size());
      box.push_back(piece.box[u]);
      if (u == cut) {
        form = form * Rational(of_.digits.size) + iterator_affine(box.size());
        box.begin()[box.size() - 1] /= of_.digits.size;
        box.push_back(of_.digits.size);
      }
      change.old_in_new.push_back(form);
    }
    change.iterators = box.size();
    std::vector<std::vector<bool>> stores = cells_at(piece.stores, cut, piece);
    std::vector<std::vector<bool>> loads = cells_at(piece.loads, cut, piece);
    size_t parallel_dims = piece.parallel_dims + 1;
    piece = substituted(std::move(piece), change);
    piece.box = std::move(box);
    piece.parallel_dims = parallel_dims;
    if (!place(piece.stores, stores, cut) || !place(piece.loads, loads, cut)) return false;
    for (IteratorId& row : stage.rows) {
      if (cut < row) ++row;
    }
    if (!stage.attach.valid()) stage.stream = IteratorId(cut.index() + 1);
    return true;
  }
  IteratorId row_iterator(size_t s, const Piece& piece) const {
    IteratorId found;
    for (IteratorId u : piece.box.ids()) {
      if (map_.iterators[s][u] != of_.cut) continue;
      if (found.valid()) return {};
      found = u;
    }
    return found;
  }
  // For each access and dimension whether it is the iterator, alone.
  static std::vector<std::vector<bool>> cells_at(const std::vector<Access>& accesses, IteratorId u,
                                                 const Piece& piece) {
    std::vector<std::vector<bool>> list;
    for (const Access& a : accesses) {
      list.emplace_back();
      for (const Index& i : a.index) {
        list.back().push_back(sole_iterator(i, piece) == u);
      }
    }
    return list;
  }
  bool place(std::vector<Access>& accesses, const std::vector<std::vector<bool>>& alone,
             IteratorId cut) const {
    for (size_t a = 0; a < accesses.size(); ++a) {
      for (size_t d = accesses[a].index.size(); d-- > 0;) {
        if (!is_cut(accesses[a].tensor, d)) continue;
        if (!alone[a][d]) return false;
        replace(accesses[a], d, cut.index(), cut.index() + 1);
      }
    }
    return true;
  }

  Kernel kernel_;
  const Contraction& sum_;
  RowsOfSum of_;
  RowMap map_;
  std::vector<TensorId> divided_;
};

class RowSumFusion {
 public:
  RowSumFusion(std::vector<Step> steps, const BoundProgram& program, const Target& target,
               const std::function<void(Kernel&)>& finish, bool always)
      : program_(program),
        target_(target),
        finish_(finish),
        always_(always),
        steps_(std::move(steps)) {}

  std::vector<Step> run() {
    for (size_t j = 0; j < steps_.size(); ++j) {
      const Kernel* sum = steps_.plain_kernel(j);
      if (sum == nullptr || !sums_chunks(*sum)) continue;
      size_t last = std::min(steps_.size(), j + kDistance + 1);
      size_t first = j < kDistance ? 0 : j - kDistance;
      bool done = false;
      for (size_t i = j; i-- > first && !done;) done = join(i, j);
      for (size_t i = j + 1; i < last && !done; ++i) done = join(i, j);
    }
    return steps_.left();
  }

 private:
  bool join(size_t i, size_t j) {
    const Kernel* rows = steps_.kernel(i);
    if (rows == nullptr || has_stream(*rows)) return false;
    // The sum comes behind the stages that have the rows.
    const std::vector<TensorId>& reads = steps_.use(i, program_).reads;
    for (TensorId made : steps_.use(j, program_).makes) {
      if (contains(reads, made)) return false;
    }
    std::string question = "fuse-row-sums " + result_name(*rows, program_) + " " +
                           result_name(*steps_.kernel(j), program_);
    if (declined(question)) return false;
    std::optional<Kernel> both = legal(*rows, steps_.kernel(j)->stages[0].contraction);
    std::vector<size_t> members{std::min(i, j), std::max(i, j)};
    std::optional<size_t> at = common_place(steps_, members, program_);
    if (!both || !at) return false;
    bool cheaper = agreed(question, [&] {
      auto cost = [&](const Kernel& k) { return compiled_cost(k, target_, finish_); };
      return always_ || cost(*both) <= cost(*rows) + cost(*steps_.kernel(j));
    });
    if (!cheaper) return false;
    for (size_t m : members) steps_.reset(m);
    steps_.set(*at, std::move(*both));
    return true;
  }

  std::optional<Kernel> legal(const Kernel& kernel, const Contraction& sum) const {
    size_t reads = sum.pieces[0].loads.size();
    for (const KernelStage& s : kernel.stages) {
      if (s.contraction.pieces.size() != 1) return std::nullopt;
      reads += s.contraction.pieces[0].loads.size();
    }
    if (kernel.stages.size() >= kMostStages || reads > kMostReads) return std::nullopt;
    Kernel rows = kernel;
    if (row_loops(rows) == 0 && !choose_rows(rows, sum)) return std::nullopt;
    std::optional<RowsOfSum> of = rows_of_sum(rows, sum);
    if (!of) return std::nullopt;
    Chunking chunking(rows, sum, *of);
    std::optional<Kernel> both = chunking.run();
    if (!both) return std::nullopt;
    Kernel whole = *both;
    finish_(whole);
    bool needed = std::any_of(chunking.divided().begin(), chunking.divided().end(),
                              [&](TensorId id) { return contains(whole.writes, id); });
    return needed || !broken_rows(whole).empty() ? std::nullopt : both;
  }

  // What the sum reads of the kernel's results, else the largest tensor that both read: the
  // dimensions of it that are rows of the sum.
  static bool choose_rows(Kernel& kernel, const Contraction& sum) {
    const Piece& piece = kernel.stages[0].contraction.pieces[0];
    const Piece& reads = sum.pieces[0];
    for (const Access& load : reads.loads) {
      const Access* own = access_of(kernel.stages[0].contraction, load.tensor);
      if (own == nullptr) continue;
      bool cut = false;
      IdVector<RowId, IteratorId> rows;
      for (size_t d = 0; d < load.index.size() && !cut; ++d) {
        IteratorId u = sole_iterator(own->index[d], piece);
        IteratorId v = sole_iterator(load.index[d], reads);
        cut = digits_of(load.index[d], reads).has_value();
        bool row = cut || (v.valid() && reads.is_parallel(v));
        if (!row || !u.valid() || !piece.is_parallel(u)) return false;
        rows.push_back(u);
      }
      if (!cut) continue;
      kernel.stages[0].rows = rows;
      return true;
    }
    return false;
  }
  static const Access* access_of(const Contraction& c, TensorId id) {
    for (const auto* list : {&c.pieces[0].stores, &c.pieces[0].loads}) {
      for (const Access& a : *list) {
        if (a.tensor == id) return &a;
      }
    }
    return nullptr;
  }

  std::optional<RowsOfSum> rows_of_sum(const Kernel& kernel, const Contraction& sum) const {
    RowMap map = row_map(kernel);
    std::optional<RowsOfSum> best;
    int64_t most = 0;
    for (const Access& load : sum.pieces[0].loads) {
      std::optional<RowsOfSum> of;
      auto made = map.dimensions.find(load.tensor);
      if (made != map.dimensions.end()) of = rows_at(load, made->second, kernel, sum);
      for (size_t s = 0; s < kernel.stages.size() && !of; ++s) {
        for (const Access& a : kernel.stages[s].contraction.pieces[0].loads) {
          if (a.tensor != load.tensor || of) continue;
          of = rows_at(load, row_indices(a, map.iterators[s]), kernel, sum);
        }
      }
      int64_t size = element_count(kernel.tensors[load.tensor].shape);
      if (!of || size <= most) continue;
      best = of;
      most = size;
    }
    return best;
  }
  static std::optional<RowsOfSum> rows_at(const Access& load, const std::vector<RowId>& dims,
                                          const Kernel& kernel, const Contraction& sum) {
    const Piece& piece = sum.pieces[0];
    RowsOfSum of;
    of.rows = IdVector<RowId, IteratorId>(row_loops(kernel), IteratorId());
    for (size_t d = 0; d < dims.size(); ++d) {
      RowId row = dims[d];
      if (!row.valid()) continue;
      std::optional<Digits> digits = digits_of(load.index[d], piece);
      if (digits && !of.cut.valid()) {
        of.cut = row;
        of.digits = *digits;
      } else if (digits) {
        return std::nullopt;
      }
      of.rows[row] = digits ? digits->chunk : sole_iterator(load.index[d], piece);
    }
    bool all = std::all_of(of.rows.begin(), of.rows.end(),
                           [&](IteratorId u) { return u.valid() && piece.is_parallel(u); });
    return all && of.cut.valid() ? std::optional(of) : std::nullopt;
  }

  const BoundProgram& program_;
  const Target& target_;
  const std::function<void(Kernel&)>& finish_;
  bool always_;
  OpenSteps steps_;
};

}  // namespace

bool sums_chunks(const Kernel& kernel) {
  if (kernel.stages.size() != 1) return false;
  const Contraction& c = kernel.stages[0].contraction;
  if (!c.normalized || c.fill || c.pieces.size() != 1) return false;
  const Piece& piece = c.pieces[0];
  return piece.constraints.empty() && piece.parallel_dims < piece.box.size() &&
         c.aggregation != Aggregation::assign &&
         std::any_of(
             piece.loads.begin(), piece.loads.end(),
             [&](const Access& a) {
               return std::any_of(a.index.begin(), a.index.end(),
                                  [&](const Index& i) { return digits_of(i, piece).has_value(); });
             });
}

std::vector<Step> fuse_row_sums(std::vector<Step> steps, const BoundProgram& program,
                                const Target& target, const std::function<void(Kernel&)>& finish,
                                bool always) {
  return RowSumFusion(std::move(steps), program, target, finish, always).run();
}

}  // namespace tile
