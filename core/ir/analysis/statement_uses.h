// Who makes and who reads the tensors of a program, and which of them more than those see.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "core/ir/bound.h"

namespace tile {

// The tensors that are seen by more than the statements that name them: outputs of the program, and
// those that others are views of.
std::set<TensorId> seen_outside(const BoundProgram& program);

// By tensor, the numbers of those that make and read it, in order. Of the program as it is when
// this is made.
class Uses {
 public:
  std::optional<size_t> maker(TensorId id) const;
  const std::vector<size_t>& readers(TensorId id) const;
  // Named by statements of the program only.
  bool is_inner(TensorId id) const { return !seen_outside_.contains(id); }

 protected:
  explicit Uses(const BoundProgram& program) : seen_outside_(tile::seen_outside(program)) {}
  void add(size_t number, const std::vector<TensorId>& reads, const std::vector<TensorId>& makes);

 private:
  std::map<TensorId, size_t> makers_;
  std::map<TensorId, std::vector<size_t>> readers_;
  std::set<TensorId> seen_outside_;
};

// By number of the statement. What is read through a view is the view.
class StatementUses : public Uses {
 public:
  explicit StatementUses(const BoundProgram& program);
};

}  // namespace tile
