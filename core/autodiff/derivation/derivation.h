// The program being built by differentiation: the forward statements, then adjoints in reverse.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/autodiff/derivation/cells.h"
#include "core/autodiff/derivation/symbolic_shape.h"
#include "core/autodiff/differentiate.h"
#include "core/ir/program.h"

namespace tile {

// `name` with `suffix` behind it, but before the primes that a name may end in.
std::string suffixed(const std::string& name, const std::string& suffix);

// For each dimension the only place there, if there is one.
using Places = std::vector<std::optional<Expr>>;

class Derivation {
 public:
  // The forward program with a seed input named after output `of`.
  Derivation(const Program& forward, TensorId of, const std::vector<TensorId>& wrt,
             const GradientOptions& options);

  Program program;
  TensorId seed() const { return seed_; }
  // A tensor of the forward program in the new one's numbering.
  TensorId moved(TensorId forward) const;
  const Tensor& tensor(TensorId id) const { return program.tensors[id]; }

  // Whether the result depends on a requested input through differentiable reads, and its gradient
  // is not zero by rule 7.1a.
  bool active(TensorId id) const { return active_.contains(id); }

  // Appends a statement whose result is named after `name`; returns its tensor.
  TensorId add(const std::string& name, Span span, StatementKind what);
  // The same of a value that a forward statement is made of: it carries derivatives if a tensor
  // that it reads does.
  TensorId add_value(const std::string& name, Span span, StatementKind what);
  // The extent of a dimension as the text would write it: a dimension or size, or "T.axis".
  Expr extent(TensorId id, size_t axis) const;
  // Whether two tensors have one shape whatever the inputs are.
  bool same_shape(TensorId a, TensorId b) const { return provably_equal(shapes_[a], shapes_[b]); }
  // An elementwise statement over `operands` (load slots in order), or an equal one made before.
  TensorId elementwise(const std::string& name, Span span, std::vector<TensorId> operands,
                       Body body);
  TensorId call(const std::string& name, Span span, Function function,
                std::vector<TensorId> tensors, std::vector<Expr> sizes = {});

  // Adds to the adjoint of `id`.
  void contribute(TensorId id, TensorId adjoint) { contribute(id, adjoint, {}); }
  // The same at places fixed[d] of the dimensions that have one, which `adjoint` lacks: one entry
  // for each dimension of `id`, or none at all.
  void contribute(TensorId id, TensorId adjoint, Places fixed);
  const SymbolicShape& shape(TensorId id) const { return shapes_[id]; }
  // See cells.h.
  std::optional<IndexRanges> whole_ranges(const SymbolicContraction& contraction) const {
    return tile::whole_ranges(contraction, shapes_);
  }
  // What an adjoint was added up of; itself, if of nothing else.
  std::vector<TensorId> addends(TensorId adjoint) const;
  // The sum of some of them; -1: of none.
  TensorId sum_of_addends(TensorId adjoint, const std::vector<TensorId>& some);
  // Whether so many more boundary cases (boundary_cases.h), of one access, are still few enough.
  bool affords(size_t cases);
  bool drops_zero_sums() const { return drops_zero_sums_; }

  // Where an adjoint may be other than zero (rule 7.2a); kept if that rule is applied.
  const CellConditions& conditions(TensorId adjoint) const;
  void set_conditions(TensorId adjoint, CellConditions conditions);
  // The sum of an adjoint over what the broadcasting of `operand` repeated.
  TensorId unbroadcast(const std::string& name, Span span, TensorId adjoint, TensorId operand);

  // The whole adjoint of `id`, contributions added up and of its type; -1: none.
  TensorId adjoint(TensorId id, Span span);
  // A tensor that holds component k of the adjoint of tuples; -1: none is known.
  TensorId component_of(TensorId adjoint, int k) const;
  std::string adjoint_name(TensorId id) const { return "D" + tensor(id).name; }

  // The tensor `adjoint` as the result that belongs to `input`: under its own name, which no other
  // result shares, and not an input.
  TensorId named_result(TensorId adjoint, TensorId input);
  // Takes out the appended statements that no output needs.
  void drop_unused();

 private:
  TensorId added_up(TensorId id, Span span);
  TensorId sum_of(const std::string& name, Span span, const std::vector<TensorId>& parts);
  std::string fresh(const std::string& name);
  void add_seed(TensorId of);
  void find_shapes(TensorId of);
  struct Contribution {
    TensorId adjoint;
    Places fixed;
  };
  using Contributions = std::vector<Contribution>;
  void release_name(TensorId id, const std::vector<TensorId>& parts);
  TensorId placed(TensorId id, const Contributions& parts, Span span);
  TensorId joined_components(TensorId id, const Contributions& parts, Span span);
  TensorId sum_of_placed(const std::string& name, TensorId id, const Contributions& parts,
                         size_t rank, Span span);
  void find_active(TensorId of, const std::vector<TensorId>& wrt, bool drops_shifts);

  TensorId seed_;
  size_t forward_inputs_;
  size_t forward_statements_;
  std::set<std::string> names_;
  std::map<std::string, int> last_number_;  // that was appended to a name
  size_t cases_ = 0;                        // that `affords` has allowed
  std::set<TensorId> active_;
  std::map<TensorId, std::string> asked_names_;  // of appended tensors, before they were made fresh
  SymbolicShapes shapes_;
  bool keeps_conditions_;
  bool drops_zero_sums_;
  bool converts_floats_ = false;  // some statement of the forward program does
  std::set<TensorId> rounded_;    // adjoints that have their tensors' types
  std::map<TensorId, std::vector<TensorId>> addends_;
  std::map<TensorId, CellConditions> conditions_;
  IdVector<TensorId, Contributions> contributions_;
  std::map<TensorId, std::map<int64_t, TensorId>> components_;  // of joined adjoints of tuples
};

// One rule for each kind of statement: `d` is the adjoint of the statement's result.
void differentiate_elementwise(Derivation& derivation, const Statement& statement,
                               const Elementwise& what, TensorId d);
void differentiate_contraction(Derivation& derivation, const Statement& statement,
                               const SymbolicContraction& what, TensorId d);
// The same where the body holds folds.
void differentiate_folds(Derivation& derivation, const Statement& statement,
                         const SymbolicContraction& what, TensorId d);
void differentiate_call(Derivation& derivation, const Statement& statement, const Call& call,
                        TensorId d);

// Whether an index expression can be no integer.
bool is_fractional(const Expr& e);

// Tensors that a statement reads in a way that may carry a derivative.
std::vector<TensorId> differentiable_reads(const Statement& statement);

}  // namespace tile
