// Elaboration: from the syntax tree to a Program. Looks names up, checks what the text alone
// decides (rule 8.1), and gives nested whole-tensor operations statements of their own.
//
// One class in four sources: elaborate.cpp (the program and its statements), elaborate_integer.cpp
// (index and size expressions), elaborate_scalar.cpp (bodies), elaborate_function.cpp (whole-tensor
// functions and PlaidML's builtins).
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/ir/program.h"
#include "core/language/tile/names.h"
#include "core/language/tile/syntax.h"
#include "core/support/rank_limit.h"

namespace tile {

// A body under construction, and what may stand in it.
struct ScalarScope {
  enum class Kind : uint8_t {
    elementwise,  // whole tensors
    contraction,  // accesses and indices
    operands,     // the names of parse_scalar_expression
  };
  Kind kind = Kind::elementwise;
  Body body = {};
  std::vector<TensorId> operands = {};  // elementwise: the tensor of each slot
  std::unordered_map<TensorId, int> slot_of_tensor = {};
  std::map<std::string, int> slot_of_access = {};        // contraction: by tensor and index text
  std::span<const std::string_view> operand_names = {};  // operands
  std::unordered_map<SyntaxId, NodeId> bound = {};       // values that names stand for
  bool argument = false;                                 // of a function on whole tensors
};

class Elaborator {
 public:
  Elaborator(SourcePtr source, ProgramSyntax syntax)
      : source_(std::move(source)),
        syntax_(std::move(syntax)),
        names_(*source_, syntax_.statements) {}

  Program program();
  // The syntax is one expression over `operands`.
  Body scalar_expression(std::span<const std::string_view> operands);

 private:
  // The tensor that a statement of the text assigns, or a generated one.
  struct Result {
    std::string name;  // empty: generated when the statement is emitted
    Span span;         // of the name
    Span statement;    // of the whole statement
    std::vector<Attribute> attributes = {};
  };

  const Syntax& at(SyntaxId id) const { return syntax_[id]; }
  std::string quoted(Span span) const;  // the text there, clipped, in quotes

  void inputs();
  void outputs();
  void statement(const StatementSyntax& s);
  TensorId emit(Result result, StatementKind what, int rank);
  TensorId assign(Result result, SyntaxId value);
  TensorId contraction(Result result, const ContractionSyntax& s);
  void check_out_ranks(const ContractionSyntax& s, std::string_view name) const;
  static Result fresh_result(Span span) { return {"", span, span}; }

  // Index expressions (rule 3.1) and sizes (rule 3.2).
  enum class IntegerKind : uint8_t { index, size };
  struct Integer {
    Expr expr;
    bool varies = false;  // contains an index name
  };
  Expr index_expression(SyntaxId id) { return integer(IntegerKind::index, id).expr; }
  Expr size_expression(SyntaxId id) { return integer(IntegerKind::size, id).expr; }
  Integer integer(IntegerKind kind, SyntaxId id);
  Integer integer_operation(IntegerKind kind, SyntaxId id);
  Integer integer_chain(IntegerKind kind, SyntaxId id);
  Integer integer_name(IntegerKind kind, const Syntax& node);
  Integer integer_call(IntegerKind kind, SyntaxId id);
  Expr extent(const Syntax& node) const;
  int index_slot(std::string_view name);
  std::string index_names(SyntaxId id) const;
  [[noreturn]] void fail_not_affine(SyntaxId id, const std::string& why) const;
  [[noreturn]] void fail_not_integer(IntegerKind kind, SyntaxId id) const;

  // Scalar expressions. An expression whose operands are made, from the first to the last, before
  // itself.
  struct PendingScalar {
    SyntaxId id = -1;
    std::span<const SyntaxId> operands;
    std::vector<NodeId> args;
  };
  NodeId scalar(ScalarScope& scope, SyntaxId id);
  PendingScalar begin_scalar(const ScalarScope& scope, SyntaxId id) const;
  std::span<const SyntaxId> operands_of_call(const ScalarScope& scope, const Syntax& node) const;
  NodeId end_scalar(ScalarScope& scope, PendingScalar pending);
  NodeId scalar_name(ScalarScope& scope, const Syntax& node);
  NodeId scalar_operand(ScalarScope& scope, const Syntax& node) const;
  NodeId scalar_access(ScalarScope& scope, const Syntax& node);
  std::string access_hint(const Syntax& node) const;
  NodeId scalar_bound(ScalarScope& scope, const PendingScalar& pending);
  void check_match(const Syntax& node) const;
  NodeId scalar_match(ScalarScope& scope, std::vector<NodeId> args, Span span);
  NodeId scalar_call(ScalarScope& scope, PendingScalar pending);
  NodeId tensor_load(ScalarScope& scope, TensorId tensor, Span span);
  std::optional<DType> cast_target(const Syntax& node) const;
  void check_arity(const Syntax& node, size_t least, size_t most) const;
  [[noreturn]] void fail_unknown_function(const Syntax& node) const;

  // Whole-tensor functions.
  bool is_tensor_call(const Syntax& node) const;
  TensorId assign_call(Result result, SyntaxId id);
  Call whole_tensor_call(const Syntax& node, Function function);
  TensorId softmax(Result result, const Syntax& node, bool logarithm);
  TensorId binary_crossentropy(Result result, const Syntax& node);
  TensorId softmax_reduction(Span span, TensorId source, Aggregation aggregation,
                             const std::vector<Expr>& sizes);
  TensorId operation_on(Result result, const std::vector<TensorId>& operands,
                        std::span<const Op> ops);
  TensorId whole_tensor(SyntaxId id);
  int rank_of(TensorId tensor) const { return ranks_[tensor]; }
  int following_rank(const StatementKind& what) const;
  int following_rank(const Call& call) const;

  SourcePtr source_;
  ProgramSyntax syntax_;
  Names names_;
  Program out_;
  IdVector<TensorId, int> ranks_;                            // of each tensor; -1: not declared
  IdVector<TensorId, int> following_ranks_;                  // the same, or what they follow from
  std::string base_;                                         // generated names start with it
  SymbolicContraction* contraction_ = nullptr;               // the one being elaborated
  std::unordered_map<std::string_view, int> slot_of_index_;  // its indices
};

}  // namespace tile
