// Steps that one kernel with a streamed axis and no running maximum can do: products of rows' and
// columns' lines (scores), what is made of them cell by cell, and sums of that over one axis.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "core/kernel/kernel.h"

namespace tile::stream {

// Who makes and reads what, by step; steps that are gone are empty. Of steps as they are when this
// is made.
class StepUses {
 public:
  StepUses(const std::vector<std::optional<Step>>& steps, const BoundProgram& program);
  std::optional<size_t> maker(TensorId id) const;
  const std::vector<size_t>& readers(TensorId id) const;
  // Read by other statements of the program only.
  bool is_inner(TensorId id) const { return !kept_.contains(id); }

 private:
  std::map<TensorId, size_t> makers_;
  std::map<TensorId, std::vector<size_t>> readers_;
  std::set<TensorId> kept_;
};

struct Region {
  std::vector<size_t> steps;  // in order
  Kernel kernel;
  // Tensors of the program that the kernel has as its own: their conditions, which the sums have,
  // are left out.
  std::vector<TensorId> widened;
};

// The region around the scores that a step makes; nothing where it makes none, where others read
// what has rows and columns, or where its sums run over several axes.
std::optional<Region> find_region(const std::vector<std::optional<Step>>& steps,
                                  const BoundProgram& program, const StepUses& uses, size_t scores);

// The statement makes scores: a sum of products of two narrow factors' elements, one of a row and
// one of a column.
bool makes_scores(const Contraction& c, const BoundTensors& tensors);
// They have more bytes than their factors: what is smaller is better stored than made again, and no
// region begins with it.
bool outgrows_factors(const Contraction& c, const BoundTensors& tensors);

}  // namespace tile::stream
