// Steps that one kernel with a streamed axis and no running maximum can do: products of rows' and
// columns' lines (scores), what is made of them cell by cell, and sums of that over one axis.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "core/ir/analysis/statement_uses.h"
#include "core/kernel/kernel.h"
#include "core/target/target.h"

namespace tile::stream {

// By number of the step; steps that are gone are empty. What is read through a view is its source.
class StepUses : public Uses {
 public:
  StepUses(const std::vector<std::optional<Step>>& steps, const BoundProgram& program);
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
                                  const BoundProgram& program, const Target& target,
                                  const StepUses& uses, size_t scores);

// The two loads whose product the body of scores is: of two of one type, f16, bf16 or f32, on a
// GPU, of any floats on a CPU.
std::optional<std::pair<NodeId, NodeId>> factors_of_scores(const Body& body, const Target& target);
// The statement makes scores: a sum of products of two factors' elements, one of a row and one of a
// column.
bool makes_scores(const Contraction& c, const BoundTensors& tensors, const Target& target);
// A sum whose terms may be scores, or made of them: in f32, on a CPU also in f64.
bool sums_scores(const Contraction& c, const Target& target);
// They have more bytes than their factors, and on a CPU than its second cache, unless space comes
// first: what is smaller is better stored than made again, and no region begins with it.
bool are_large(const Contraction& c, const BoundTensors& tensors, const Target& target);

}  // namespace tile::stream
