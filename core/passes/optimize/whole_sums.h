// Sums of whole tensors, as gradients of what is read in several places are: T1 + T2 + ….
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/ir/analysis/fresh_names.h"
#include "core/ir/bound.h"

namespace tile {

// The tensors of one type that a statement adds up, cell by cell, in order, into one of the same;
// nullopt: it does something else.
std::optional<std::vector<TensorId>> whole_sum(const Contraction& c, const BoundTensors& tensors);
// The statement that sets `result`, of the shape and type of the terms, to their sum.
Contraction sum_of_whole(TensorId result, const std::vector<TensorId>& terms,
                         const BoundTensors& tensors, Span span);

// Puts the statements of `before` in front of those with their number, and takes out `gone`.
void insert_statements(BoundProgram& program, std::vector<std::vector<BoundStatement>> before,
                       const std::set<size_t>& gone);

// A piece of one point for each cell of `box`, whose store is the cell of `to`.
Piece over_box(TensorId to, const IterationBox& box);
// Iterator d as the index of dimension d.
std::vector<Index> identity_index(size_t rank);

// Who makes and who reads tensors; names for new ones.
class TensorUses {
 public:
  explicit TensorUses(const BoundProgram& program);

  // The statement that makes a temporary which one load of one statement reads, and nothing else;
  // nullopt: there is more to it, or the statement is no normalized contraction of one result that
  // is added up in the type in which the result's is computed.
  std::optional<size_t> sole_maker(TensorId id) const;
  // The statement that makes the tensor, if one does.
  std::optional<size_t> maker(TensorId id) const;
  // The tensor, or the one that it is a whole copy of.
  TensorId origin(TensorId id) const;
  std::string fresh_name(const std::string& of) { return names_.get(of); }

 private:
  const BoundProgram& program_;
  IdVector<TensorId, size_t> readings_;
  IdVector<TensorId, std::optional<size_t>> makers_;
  FreshNames names_;
};

}  // namespace tile
