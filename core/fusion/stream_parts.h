// What makes one kernel with a streamed axis: the parts, found among the steps, and put together.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "core/kernel/forms/stream_pattern.h"
#include "core/kernel/kernel.h"

namespace tile::stream {

// One sum of weights: the kernel that makes it, and how its iterators are the weights'.
struct Sum {
  size_t step = 0;
  TensorId weight;  // what its terms are multiples of, made where the exponential is
  TensorId read;    // what it reads: the weight, or a multiple of it…
  size_t load = 0;  // …here
  IdVector<IteratorId, IteratorId> of;           // of the exponential: the sum's
  const Contraction* multiple = nullptr;         // that makes `read` of the weight
  IdVector<IteratorId, IteratorId> of_multiple;  // of that: the sum's
};

// The parts of one streamed kernel.
struct Parts {
  size_t exponential = 0, maximum = 0;  // steps
  std::optional<size_t> terms;          // the step that makes x, if it can join
  std::optional<size_t> scores;         // a sum under conditions whose cells x is made of
  stream::Distance distance;
  IdVector<RowId, IteratorId> rows;  // iterators of the exponential
  std::vector<Sum> sums;
  std::vector<size_t> multiples;  // steps whose results are read by the sums only
};

// The parts of a streamed kernel whose exponential is step `exponential`; nothing where it has
// none. Steps that are gone are empty. `seen`: seen_outside() of the program.
std::optional<Parts> find_parts(const std::vector<std::optional<Step>>& steps,
                                const BoundProgram& program, const std::set<TensorId>& seen,
                                size_t exponential);

// The kernel that the parts make; nothing where one has no such axis or row. Terms that have
// conditions are made without them where the maximum and the sums have these too: the kernel then
// has a tensor of its own for them, and does not make the program's.
std::optional<Kernel> streamed_kernel(const std::vector<std::optional<Step>>& steps,
                                      const BoundProgram& program, const Parts& parts);

// What makes x and what it is made of, as one kernel; of parts that have terms.
Kernel terms_of(const std::vector<std::optional<Step>>& steps, const Parts& parts);

// Which iterator of the first stage each dimension of the kernel's results is, if it is one.
std::map<TensorId, std::vector<IteratorId>> result_dimensions(const Kernel& kernel);

}  // namespace tile::stream
