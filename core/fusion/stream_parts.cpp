// Finds the parts of a streamed kernel from the bodies: a maximum along an axis, exponentials of
// the distances to it, and sums of multiples of those.
#include "core/fusion/stream_parts.h"

#include <algorithm>

#include "core/fusion/step_order.h"
#include "core/ir/analysis/accesses.h"
#include "core/ir/analysis/plain_contraction.h"
#include "core/ir/analysis/uses.h"
#include "core/kernel/coverage.h"
#include "core/kernel/rows.h"
#include "core/kernel/stream.h"

namespace tile::stream {
namespace {

class PartsFinder {
 public:
  PartsFinder(const std::vector<std::optional<Step>>& steps, const BoundProgram& program,
              const std::set<TensorId>& seen)
      : steps_(steps), program_(program), seen_(seen) {}

  std::optional<Parts> at(size_t exponential) const {
    const Kernel* e = kernel(exponential);
    if (e == nullptr || has_stream(*e)) return std::nullopt;
    const Contraction& c = e->stages[0].contraction;
    bool pointwise = is_plain_contraction(c) &&
                     c.pieces[0].parallel_dims == c.pieces[0].box.size() &&
                     c.pieces[0].constraints.empty();
    if (!pointwise) return std::nullopt;
    Parts parts;
    parts.exponential = exponential;
    if (!find_maximum(c.pieces[0], parts)) return std::nullopt;
    for (IteratorId u : c.pieces[0].box.ids()) {
      bool row = u != parts.distance.axis && c.pieces[0].box[u] != 1;
      if (row) parts.rows.push_back(u);
    }
    if (parts.rows.empty()) return std::nullopt;
    find_terms(c.pieces[0], parts);
    if (!find_sums(*e, parts) || parts.sums.empty() || !sums_fit(parts)) return std::nullopt;
    return parts;
  }

 private:
  const Kernel* kernel(size_t i) const {
    return steps_[i] ? std::get_if<Kernel>(&*steps_[i]) : nullptr;
  }
  std::optional<size_t> maker(TensorId id) const {
    for (size_t i = 0; i < steps_.size(); ++i) {
      const Kernel* k = kernel(i);
      if (k == nullptr) continue;
      for (const KernelStage& s : k->stages) {
        if (contains(s.contraction.outputs, id)) return i;
      }
    }
    return std::nullopt;
  }

  bool find_maximum(const Piece& e, Parts& parts) const {
    for (const Access& load : e.loads) {
      std::optional<size_t> made = maker(load.tensor);
      const Kernel* k = made ? kernel(*made) : nullptr;
      if (k == nullptr || k->stages.size() != 1) continue;
      std::optional<Distance> d = distance_to(e, k->stages[0].contraction);
      if (!d) continue;
      parts.maximum = *made;
      parts.distance = std::move(*d);
      return true;
    }
    return false;
  }

  // What makes the values whose maximum is taken, where they have all rows and the axis: a mask of
  // columns alone is no such.
  void find_terms(const Piece& e, Parts& parts) const {
    for (size_t load : parts.distance.x_loads) {
      std::optional<size_t> made = maker(e.loads[load].tensor);
      const Kernel* k = made ? kernel(*made) : nullptr;
      bool joins = k != nullptr && !has_stream(*k) && k->stages[0].contraction.pieces.size() == 1;
      auto names = [&](IteratorId u) {
        return std::any_of(e.loads[load].index.begin(), e.loads[load].index.end(),
                           [&](const Index& index) { return sole_iterator(index, e) == u; });
      };
      bool has_cells =
          names(parts.distance.axis) && std::all_of(parts.rows.begin(), parts.rows.end(), names);
      if (!joins || !has_cells) continue;
      parts.terms = made;
      parts.scores = scores_below(*k, *made);
      return;
    }
  }
  // The maker of what the terms are made of cell by cell. It has conditions, so that they are no
  // epilogue of it: cells that no point reaches are zero, and what is made of zero they would lack.
  std::optional<size_t> scores_below(const Kernel& terms, size_t step) const {
    const Contraction& c = terms.stages[0].contraction;
    const Piece& p = c.pieces[0];
    if (p.parallel_dims < p.box.size() || !covers_output(c, program_.tensors)) return std::nullopt;
    for (const Access& load : p.loads) {
      std::optional<size_t> made = maker(load.tensor);
      const Kernel* k = made && *made < step ? kernel(*made) : nullptr;
      if (k == nullptr || row_loops(*k) > 0 || has_stream(*k)) continue;
      const Contraction& sum = k->stages[0].contraction;
      bool joins = sum.pieces.size() == 1 && sum.outputs.size() == 1 &&
                   sum.outputs[0] == load.tensor && !sum.pieces[0].constraints.empty() &&
                   sum.pieces[0].parallel_dims < sum.pieces[0].box.size();
      if (joins && reads_own_cell(p, load, program_.tensors[load.tensor].shape)) return made;
    }
    return std::nullopt;
  }

  std::vector<size_t> readers(TensorId id, size_t except) const {
    std::vector<size_t> list;
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (!steps_[i] || i == except) continue;
      std::vector<TensorId> reads;
      if (const Kernel* k = kernel(i)) {
        for (const KernelStage& s : k->stages) {
          for (TensorId read : read_by(s.contraction)) reads.push_back(read);
        }
      } else {
        reads = read_by(statement_of(*steps_[i]));
      }
      if (contains(reads, id)) list.push_back(i);
    }
    return list;
  }
  bool find_sums(const Kernel& e, Parts& parts) const {
    std::map<TensorId, std::vector<IteratorId>> dims = result_dimensions(e);
    for (const KernelStage& stage : e.stages) {
      TensorId weight = stage.contraction.outputs[0];
      if (seen_.contains(weight)) return false;
      for (size_t reader : readers(weight, parts.exponential)) {
        if (!add_reader(reader, weight, dims.at(weight), e, parts)) return false;
      }
    }
    return true;
  }

  // A maximum over some terms only bounds the exponentials of those: the sums are of no others.
  bool sums_fit(const Parts& parts) const {
    const Piece& maximum = kernel(parts.maximum)->stages[0].contraction.pieces[0];
    return std::all_of(parts.sums.begin(), parts.sums.end(), [&](const Sum& sum) {
      IdVector<IteratorId, IteratorId> of;  // of the maximum: the sum's
      for (IteratorId u : parts.distance.of) {
        of.push_back(u.valid() ? sum.of[u] : u);
      }
      return keeps_conditions(kernel(sum.step)->stages[0].contraction.pieces[0], maximum, of);
    });
  }

  // By iterator of the exponential, from what dimensions stand for in it and in the reader.
  static IdVector<IteratorId, IteratorId> composed(const std::vector<IteratorId>& dims,
                                                   const std::vector<IteratorId>& of,
                                                   size_t iterators) {
    IdVector<IteratorId, IteratorId> result(iterators, IteratorId());
    for (size_t d = 0; d < dims.size(); ++d) {
      if (dims[d].valid()) result[dims[d]] = of[d];
    }
    return result;
  }

  // Behind the sum, where an epilogue reads the tensor's own cells: they are made nowhere then.
  static bool is_read_behind(const Kernel& sum, TensorId id) {
    return std::any_of(sum.stages.begin() + 1, sum.stages.end(),
                       [&](const KernelStage& s) { return contains(read_by(s.contraction), id); });
  }

  bool add_reader(size_t reader, TensorId weight, const std::vector<IteratorId>& dims,
                  const Kernel& e, Parts& parts) const {
    const Kernel* k = kernel(reader);
    if (k == nullptr || is_read_behind(*k, weight)) return false;
    const Contraction& c = k->stages[0].contraction;
    size_t iterators = e.stages[0].contraction.pieces[0].box.size();
    if (std::optional<LinearSum> sum = linear_sum(c, weight)) {
      parts.sums.push_back(
          {reader, weight, weight, sum->load, composed(dims, sum->of, iterators), nullptr, {}});
      return true;
    }
    std::optional<Multiple> multiple = multiple_of(c, weight);
    if (!multiple || k->stages.size() != 1 || seen_.contains(c.outputs[0])) return false;
    parts.multiples.push_back(reader);
    // The multiple's iterators.
    IdVector<IteratorId, IteratorId> at = composed(dims, multiple->of, iterators);
    const Piece& p = c.pieces[0];
    std::vector<IteratorId> stored;
    for (const Index& index : p.stores[0].index) stored.push_back(sole_iterator(index, p));
    for (size_t user : readers(c.outputs[0], reader)) {
      const Kernel* last = kernel(user);
      if (last == nullptr || is_read_behind(*last, c.outputs[0])) return false;
      std::optional<LinearSum> sum = linear_sum(last->stages[0].contraction, c.outputs[0]);
      if (!sum) return false;
      Sum found{user, weight, c.outputs[0], sum->load, at, &c, {}};
      found.of_multiple = composed(stored, sum->of, p.box.size());
      for (IteratorId& u : found.of) {
        if (u.valid()) u = found.of_multiple[u];
      }
      parts.sums.push_back(std::move(found));
    }
    return true;
  }

  const std::vector<std::optional<Step>>& steps_;
  const BoundProgram& program_;
  const std::set<TensorId>& seen_;
};

}  // namespace

Kernel terms_of(const std::vector<std::optional<Step>>& steps, const Parts& parts) {
  const Kernel& terms = std::get<Kernel>(*steps[*parts.terms]);
  if (!parts.scores) return terms;
  Kernel all = std::get<Kernel>(*steps[*parts.scores]);
  for (KernelStage stage : terms.stages) {
    stage.attach = StageId(0);
    all.stages.push_back(std::move(stage));
  }
  return all;
}

std::map<TensorId, std::vector<IteratorId>> result_dimensions(const Kernel& kernel) {
  Kernel all = kernel;
  for (KernelStage& s : all.stages) s.rows.clear();
  for (size_t u = 0; u < all.stages[0].contraction.pieces[0].parallel_dims; ++u) {
    all.stages[0].rows.push_back(IteratorId(u));
  }
  std::map<TensorId, std::vector<IteratorId>> result;
  for (const auto& [id, rows] : row_map(all).dimensions) {
    std::vector<IteratorId>& dims = result[id];
    for (RowId row : rows) dims.push_back(IteratorId(row.number()));  // as many as iterators
  }
  return result;
}

std::optional<Parts> find_parts(const std::vector<std::optional<Step>>& steps,
                                const BoundProgram& program, const std::set<TensorId>& seen,
                                size_t exponential) {
  return PartsFinder(steps, program, seen).at(exponential);
}

}  // namespace tile::stream
