// The program being built by differentiation: the forward statements, then adjoints in reverse.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "core/ir/program.h"

namespace tile {

class Derivation {
 public:
  // The forward program with a seed input named after output `of`.
  Derivation(const Program& forward, TensorId of, const std::vector<TensorId>& wrt);

  Program program;
  TensorId seed() const { return seed_; }
  // A tensor of the forward program in the new one's numbering.
  TensorId moved(TensorId forward) const;
  const Tensor& tensor(TensorId id) const { return program.tensors[static_cast<size_t>(id)]; }

  // Whether the result depends on a requested input through differentiable reads.
  bool active(TensorId id) const { return active_.contains(id); }

  // Appends a statement whose result is named after `name`; returns its tensor.
  TensorId add(const std::string& name, Span span,
               std::variant<SymbolicContraction, Elementwise, Call> what);
  // The extent of a dimension as the text would write it: a declared dimension or size, or
  // "T.axis".
  Expr extent(TensorId id, size_t axis) const;
  // An elementwise statement over `operands` (load slots in order).
  TensorId elementwise(const std::string& name, Span span, std::vector<TensorId> operands,
                       Body body);
  TensorId call(const std::string& name, Span span, Function function,
                std::vector<TensorId> tensors, std::vector<Expr> sizes = {});

  // Adds to the adjoint of `id`.
  void contribute(TensorId id, TensorId adjoint);
  // The whole adjoint of `id`, contributions added up; -1: none.
  TensorId adjoint(TensorId id, Span span);
  std::string adjoint_name(TensorId id) const { return "D" + tensor(id).name; }

 private:
  std::string fresh(const std::string& name);
  void find_active(const std::vector<TensorId>& wrt);

  TensorId seed_ = -1;
  size_t forward_inputs_;
  std::set<std::string> names_;
  std::set<TensorId> active_;
  std::vector<std::vector<TensorId>> contributions_;
};

// One rule for each kind of statement: `d` is the adjoint of the statement's result.
void differentiate_elementwise(Derivation& derivation, const Statement& statement,
                               const Elementwise& what, TensorId d);
void differentiate_contraction(Derivation& derivation, const Statement& statement,
                               const SymbolicContraction& what, TensorId d);
void differentiate_call(Derivation& derivation, const Statement& statement, const Call& call,
                        TensorId d);

// Tensors that a statement reads in a way that may carry a derivative.
std::vector<TensorId> differentiable_reads(const Statement& statement);

}  // namespace tile
