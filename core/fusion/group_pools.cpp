// A reduction over disjoint windows of what another kernel makes (a pool behind a convolution)
// joins that kernel: the dimensions that the windows cut are split into the window and the place in
// it, so that the kernel's rows are windows and the whole tensor is never stored.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "core/fusion/group.h"
#include "core/fusion/step_order.h"
#include "core/ir/analysis/accesses.h"
#include "core/ir/analysis/plain_contraction.h"
#include "core/ir/analysis/uses.h"
#include "core/kernel/coverage.h"
#include "core/kernel/forms/stream_pattern.h"
#include "core/kernel/rows.h"
#include "core/passes/normalize/substitution.h"
#include "core/support/choices.h"

namespace tile {
namespace {

constexpr size_t kMostStages = 16;

// How a dimension's index is made from one or two of a piece's iterators: step * first + second +
// offset, with second < step. No iterator: the dimension has one value.
struct Digits {
  int64_t step = 1, offset = 0;
  std::vector<size_t> iterators;
  std::vector<int64_t> extents;  // of the iterators
};
using Split = std::vector<Digits>;  // by dimension

// A window's place and the place inside it; nothing where windows overlap.
std::optional<Digits> digits_of(const Index& index, const Piece& piece, int64_t extent) {
  const Affine& form = index.affine;
  bool plain = is_plain_index(index) && form.is_integral();
  if (!plain) return std::nullopt;
  Digits digits;
  digits.offset = form.constant.num();
  for (size_t u = 0; u < piece.iterators.size(); ++u) {
    if (!form.coefficient(u).is_zero()) digits.iterators.push_back(u);
  }
  auto factor = [&](size_t i) { return form.coefficient(digits.iterators[i]).num(); };
  size_t count = digits.iterators.size();
  if (count == 0) return extent == 1 ? std::optional(digits) : std::nullopt;
  if (count > 2) return std::nullopt;
  if (count == 2 && factor(0) < factor(1)) std::swap(digits.iterators[0], digits.iterators[1]);
  digits.step = factor(0);
  for (size_t u : digits.iterators) digits.extents.push_back(piece.box[u]);
  bool disjoint = count == 1 || (factor(1) == 1 && digits.extents[1] <= digits.step);
  return digits.step > 0 && disjoint ? std::optional(digits) : std::nullopt;
}

// The split of the tensor by what the piece reads of it: all loads alike, each iterator once.
std::optional<Split> split_by(const Piece& piece, TensorId tensor, const Shape& shape) {
  const Access* read = nullptr;
  for (const Access& load : piece.loads) {
    if (load.tensor != tensor) continue;
    if (read != nullptr) return std::nullopt;
    read = &load;
  }
  if (read == nullptr) return std::nullopt;
  Split split;
  std::vector<bool> used(piece.iterators.size(), false);
  for (size_t d = 0; d < shape.size(); ++d) {
    std::optional<Digits> digits = digits_of(read->index[d], piece, shape[d]);
    if (!digits) return std::nullopt;
    for (size_t u : digits->iterators) {
      if (used[u]) return std::nullopt;
      used[u] = true;
    }
    split.push_back(std::move(*digits));
  }
  return split;
}

Shape split_shape(const Split& split) {
  Shape shape;
  for (const Digits& d : split) {
    if (d.extents.empty()) shape.push_back(1);
    shape.insert(shape.end(), d.extents.begin(), d.extents.end());
  }
  return shape;
}

// Rewrites a kernel so that it makes its last result in split dimensions.
class Splitter {
 public:
  Splitter(Kernel& kernel, TensorId result, const Split& split) : kernel_(kernel) {
    splits_[result] = split;
  }

  bool run() {
    for (size_t s = kernel_.stages.size(); s-- > 0;) {
      if (!rewrite(kernel_.stages[s].contraction)) return false;
    }
    for (const auto& [id, split] : splits_) {
      kernel_.tensors.edit(id).shape = split_shape(split);
    }
    return true;
  }
  // Pairs of iterators, of the first stage and of the reduction, that tell windows apart: parallel
  // dimensions.
  std::vector<std::pair<IteratorId, IteratorId>> rows(size_t parallel_dims) const {
    std::vector<std::pair<IteratorId, IteratorId>> list;
    const Split& split = splits_.at(kernel_.stages[0].contraction.outputs[0]);
    for (size_t d = 0; d < split.size(); ++d) {
      const Digits& digits = split[d];
      bool row =
          stored_[d].valid() && !digits.iterators.empty() && digits.iterators[0] < parallel_dims;
      if (!row) continue;
      list.emplace_back(begins_[stored_[d]], digits.iterators[0]);
    }
    return list;
  }

 private:
  bool rewrite(Contraction& c) {
    auto split = splits_.find(c.outputs[0]);
    if (split == splits_.end()) return false;  // a result that others need
    Piece& piece = c.pieces[0];
    // By iterator: the digits that it becomes.
    IdVector<IteratorId, const Digits*> of(piece.iterators.size(), nullptr);
    for (size_t d = 0; d < split->second.size(); ++d) {
      const Index& index = piece.stores[0].index[d];
      IteratorId u = sole_iterator(index, piece);
      const Digits& digits = split->second[d];
      if (!u.valid() && !(index.affine.is_constant() && digits.extents.size() <= 1)) return false;
      if (u.valid()) of[u] = &digits;
    }
    if (!spread_to_loads(piece, of)) return false;
    change(piece, of);
    place(piece.stores[0], split->second, stored_);
    return true;
  }

  // What the kernel made before is split alike where this stage reads it.
  bool spread_to_loads(const Piece& piece, const IdVector<IteratorId, const Digits*>& of) {
    for (const Access& load : piece.loads) {
      bool made = std::any_of(
          kernel_.stages.begin(), kernel_.stages.end(),
          [&](const KernelStage& s) { return s.contraction.outputs[0] == load.tensor; });
      if (!made) continue;
      Split split;
      for (const Index& index : load.index) {
        IteratorId u = sole_iterator(index, piece);
        bool one = !u.valid() && index.affine.is_constant();
        if (!u.valid() && !one) return false;
        const Digits* digits = one ? nullptr : of[u];
        if (!one && digits == nullptr) return false;
        split.push_back(one ? Digits{} : *digits);
      }
      auto [known, fresh] = splits_.emplace(load.tensor, split);
      if (!fresh && split_shape(known->second) != split_shape(split)) return false;
    }
    return true;
  }

  void change(Piece& piece, const IdVector<IteratorId, const Digits*>& of) {
    lattice::Substitution s;
    IterationBox box;
    begins_.assign(piece.iterators.size(), 0);
    size_t parallel_dims = piece.parallel_dims;
    for (size_t u = 0; u < piece.iterators.size(); ++u) {
      if (u == piece.parallel_dims) parallel_dims = box.size();
      begins_[u] = box.size();
      Affine form = iterator_affine(box.size());
      if (of[u] == nullptr || of[u]->extents.empty()) {
        box.push_back(piece.box[u]);
      } else {
        form = form * Rational(of[u]->step) + constant_affine(of[u]->offset);
        if (of[u]->extents.size() > 1) form = form + iterator_affine(box.size() + 1);
        box.insert(box.end(), of[u]->extents.begin(), of[u]->extents.end());
      }
      s.old_in_new.push_back(form);
    }
    if (piece.parallel_dims == piece.iterators.size()) parallel_dims = box.size();
    s.iterators = box.size();
    stored_ = iterators_of(piece.stores[0], piece);
    std::vector<std::vector<IteratorId>> loaded;
    for (const Access& load : piece.loads) loaded.push_back(iterators_of(load, piece));
    piece = substituted(std::move(piece), s);
    piece.box = std::move(box);
    piece.parallel_dims = parallel_dims;
    for (size_t l = 0; l < loaded.size(); ++l) {
      auto made = splits_.find(piece.loads[l].tensor);
      if (made != splits_.end()) place(piece.loads[l], made->second, loaded[l]);
    }
  }

  static std::vector<IteratorId> iterators_of(const Access& access, const Piece& piece) {
    std::vector<IteratorId> list;
    for (const Index& index : access.index) list.push_back(sole_iterator(index, piece));
    return list;
  }
  // One dimension for each digit, its iterator alone.
  void place(Access& access, const Split& split, const std::vector<IteratorId>& iterators) const {
    std::vector<Index> index;
    for (size_t d = 0; d < split.size(); ++d) {
      size_t count = std::max<size_t>(split[d].extents.size(), 1);
      for (size_t i = 0; i < count; ++i) {
        Index at;
        IteratorId u = iterators[d];
        at.affine = u.valid() ? iterator_affine(begins_[u] + i) : constant_affine(0);
        index.push_back(at);
      }
    }
    access.index = std::move(index);
  }

  Kernel& kernel_;
  std::map<TensorId, Split> splits_;
  IdVector<IteratorId, size_t> begins_;  // of old ones: the first of the new ones
  std::vector<IteratorId> stored_;       // by dimension of the result: the old iterator that it was
};

// Every cell of what the kernel makes has a parallel point of its own, so that each digit of a
// split iterator has one. Else cells without any, which are zero, would get parallel points that no
// condition keeps out.
bool makes_all_cells(const Kernel& k) {
  return std::all_of(k.stages.begin(), k.stages.end(),
                     [&](const KernelStage& s) { return covers_output(s.contraction, k.tensors); });
}

// One stage with loops, of one piece, and stages attached to it.
bool is_plain(const Kernel& k) {
  auto plain = [](const KernelStage& s) {
    return is_plain_contraction(s.contraction) && !s.stream.valid() && s.rows.empty();
  };
  return std::all_of(k.stages.begin(), k.stages.end(), plain);
}

// The reduction's operand has split dimensions; what else the pool reads of its maker, at whole
// indices, would have them, too.
bool reads_more(const Kernel& pool, const Kernel& maker, TensorId operand) {
  std::vector<TensorId> made;
  for (const KernelStage& s : maker.stages) made.push_back(s.contraction.outputs[0]);
  for (size_t s = 0; s < pool.stages.size(); ++s) {
    for (TensorId id : read_by(pool.stages[s].contraction)) {
      if (contains(made, id) && (s > 0 || id != operand)) return true;
    }
  }
  return false;
}

// The split reductions' kernel and the pool in one, before its rows are chosen.
struct Joined {
  Kernel kernel;
  std::vector<std::pair<IteratorId, IteratorId>> rows;  // iterators of both stages that are windows
  size_t pool = 0;                                      // the stage
  std::vector<TensorId> kept;                           // tensors that must not be stored
};

std::optional<Joined> joined(const Kernel& maker, const Kernel& pool, const BoundTensors& tensors) {
  if (!is_plain(maker) || !is_plain(pool) || !makes_all_cells(maker)) return std::nullopt;
  if (maker.stages.size() + pool.stages.size() > kMostStages) return std::nullopt;
  TensorId result = maker.stages.back().contraction.outputs[0];
  const Piece& reduction = pool.stages[0].contraction.pieces[0];
  bool reduces = reduction.parallel_dims < reduction.box.size() && reduction.constraints.empty();
  const Piece& made = maker.stages[0].contraction.pieces[0];
  if (!reduces || made.parallel_dims == made.box.size()) return std::nullopt;
  const Shape& shape = tensors[result].shape;
  std::optional<Split> split = split_by(reduction, result, shape);
  if (!split || reads_more(pool, maker, result)) return std::nullopt;
  Joined both;
  both.kernel = maker;
  Splitter splitter(both.kernel, result, *split);
  if (!splitter.run()) return std::nullopt;
  both.pool = maker.stages.size();
  for (const KernelStage& s : maker.stages) both.kept.push_back(s.contraction.outputs[0]);
  for (KernelStage s : pool.stages) {
    if (s.attach.valid()) s.attach = StageId(s.attach.index() + both.pool);
    both.kernel.stages.push_back(std::move(s));
  }
  both.kernel.name = pool.name;
  Piece& window = both.kernel.stages[both.pool].contraction.pieces[0];
  for (Access& load : window.loads) {
    if (load.tensor != result) continue;
    std::vector<Index> index;
    for (const Digits& d : *split) {
      if (d.iterators.empty()) index.push_back({constant_affine(0)});
      for (size_t u : d.iterators) index.push_back({iterator_affine(u)});
    }
    load.index = std::move(index);
  }
  both.rows = splitter.rows(window.parallel_dims);
  return both;
}

class PoolFusion {
 public:
  PoolFusion(std::vector<Step> steps, const BoundProgram& program, const Target& target,
             const std::function<void(Kernel&)>& finish, bool always)
      : program_(program),
        target_(target),
        finish_(finish),
        always_(always),
        steps_(std::move(steps)) {}

  std::vector<Step> run() {
    for (size_t j = 1; j < steps_.size(); ++j) {
      for (size_t i = j; i-- > 0 && kernel(j) != nullptr;) {
        if (kernel(i) != nullptr && reads_result(*kernel(j), *kernel(i))) join(i, j);
      }
    }
    return steps_.left();
  }

 private:
  const Kernel* kernel(size_t i) const { return steps_.plain_kernel(i); }
  static bool reads_result(const Kernel& k, const Kernel& maker) {
    TensorId result = maker.stages.back().contraction.outputs[0];
    std::vector<TensorId> reads = read_by(k.stages[0].contraction);
    return contains(reads, result);
  }

  void join(size_t i, size_t j) {
    std::string question =
        "fuse-pools " + result_name(*kernel(i), program_) + " " + result_name(*kernel(j), program_);
    if (declined(question)) return;
    std::optional<Joined> both = joined(*kernel(i), *kernel(j), program_.tensors);
    if (!both) return;
    std::vector<Kernel> legal;
    for (size_t rows = 1; rows <= both->rows.size(); ++rows) {
      Kernel whole = with_rows(*both, rows);
      Kernel finished = whole;
      finish_(finished);
      bool stored = std::any_of(both->kept.begin(), both->kept.end(),
                                [&](TensorId id) { return contains(finished.writes, id); });
      if (stored) return;
      if (!broken_rows(finished).empty()) continue;
      legal.push_back(std::move(whole));
    }
    if (legal.empty() || !can_stand(steps_, {i, j}, j, program_)) return;
    size_t best = chosen(question, [&] { return cheapest(legal, i, j); });
    if (best == 0 || best > legal.size()) return;
    steps_.set(j, std::move(legal[best - 1]));
    steps_.reset(i);
  }
  // The number of that kernel, from 1 on; 0: the two apart are.
  size_t cheapest(const std::vector<Kernel>& legal, size_t i, size_t j) const {
    auto cost = [&](const Kernel& k) { return compiled_cost(k, target_, finish_); };
    size_t best = 0;
    double least = cost(legal[0]);
    for (size_t k = 1; k < legal.size(); ++k) {
      double ns = cost(legal[k]);
      if (ns >= least) continue;
      best = k;
      least = ns;
    }
    bool apart = !always_ && least >= cost(*kernel(i)) + cost(*kernel(j));
    return apart ? 0 : best + 1;
  }
  static Kernel with_rows(const Joined& both, size_t count) {
    Kernel kernel = both.kernel;
    for (size_t r = 0; r < count; ++r) {
      kernel.stages[0].rows.push_back(both.rows[r].first);
      kernel.stages[both.pool].rows.push_back(both.rows[r].second);
    }
    return kernel;
  }

  const BoundProgram& program_;
  const Target& target_;
  const std::function<void(Kernel&)>& finish_;
  bool always_;
  OpenSteps steps_;
};

}  // namespace

std::vector<Step> fuse_pools(std::vector<Step> steps, const BoundProgram& program,
                             const Target& target, const std::function<void(Kernel&)>& finish,
                             bool always) {
  return PoolFusion(std::move(steps), program, target, finish, always).run();
}

}  // namespace tile
