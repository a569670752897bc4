// Elaboration: from the syntax tree to a Program. Every tensor definition becomes one statement (or
// one for each component of a tuple of mixed types) with a typed body; functions, tuples, samplers,
// local tensors and small loops are written out.
//
// One class in several sources: elaborate.cpp (declarations), definition.cpp (tensors, sizes),
// block.cpp (blocks, statements, functions), expression.cpp, builtin.cpp and color.cpp (functions),
// tensor.cpp (reads, methods, samplers), loop.cpp, local_tensor.cpp.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "core/language/mfg/arithmetic.h"
#include "core/language/mfg/frames.h"
#include "core/language/mfg/syntax.h"
#include "core/language/mfg/types.h"

namespace tile::mfg {

inline constexpr int kMaxDepth = 700;           // expressions, calls and blocks in each other
inline constexpr size_t kMaxSteps = 2'000'000;  // expressions evaluated for a whole program
inline constexpr size_t kMaxLocalCells = 256;   // of a local tensor, components counted
inline constexpr size_t kMaxSizeNodes = 512;    // operations of an @bounds

// An input or a defined tensor.
struct TensorInfo {
  std::string name;
  int rank = 2;
  std::vector<Expr> extents;  // x first
  Type element;
  std::vector<TensorId> ids;  // one, or one for each component of a tuple of mixed types
};

// An array of values that belong to one pixel.
struct LocalTensor {
  std::string name;
  std::vector<int64_t> extents;  // x first
  Type element;
  std::vector<Ref> cells;  // x fastest, all components of a cell together
  size_t depth = 0;        // the loop depth at which `mut!` may change it
};

enum class AddressMode : uint8_t { none, clamp, border };
enum class Coordinates : uint8_t { pixel, nearest, linear };

// What indices may be applied to: a tensor, plainly or through a sampler.
struct TensorUse {
  const TensorInfo* global = nullptr;
  std::shared_ptr<LocalTensor> local;
  AddressMode address = AddressMode::none;
  Coordinates coordinates = Coordinates::pixel;
  std::optional<Value> border;

  int rank() const {
    return global != nullptr ? global->rank : static_cast<int>(local->extents.size());
  }
  const Type& element() const { return global != nullptr ? global->element : local->element; }
  const std::string& name() const { return global != nullptr ? global->name : local->name; }
};

using Binding = std::variant<Value, TensorUse>;

class Elaborator {
 public:
  Elaborator(SourcePtr source, ProgramSyntax syntax)
      : source_(std::move(source)), syntax_(std::move(syntax)), arithmetic_(frames_) {}

  Program program();

 private:
  struct GlobalLet {
    const StatementSyntax* statement = nullptr;
    int component = -1;  // of a pattern
  };
  struct Function {
    BlockId block = -1;
    std::vector<Type> parameters;
  };
  using Global = std::variant<TensorInfo, GlobalLet, Function>;
  using Scope = std::map<std::string_view, Binding>;

  const Syntax& at(SyntaxId id) const { return syntax_[id]; }
  const BlockSyntax& block_at(BlockId id) const { return syntax_.block(id); }

  // Declarations.
  void find_inputs();
  void note_input(std::string_view name, int rank, Span span);
  void add_inputs();
  void add_input(std::string_view name, int rank, Span span);
  void declare_parameter(const ParamSyntax& parameter);
  void declare_let(const StatementSyntax& statement);
  void declare_function(const DeclarationSyntax& declaration);
  void declare(std::string_view name, Span span, Global global);
  void check_new_name(std::string_view name, Span span) const;
  void choose_outputs();
  TensorId add_tensor(std::string name, Span span);
  void fresh_body();

  // Tensors.
  void define(const DefinitionSyntax& d);
  void define_literal(const DefinitionSyntax& d);
  void define_block(const DefinitionSyntax& d);
  void define_reduce(const DefinitionSyntax& d);
  std::vector<Expr> bounds(const DefinitionSyntax& d);
  std::vector<Expr> result_extents(const DefinitionSyntax& d);
  std::vector<Ref> pixel_indices(size_t rank);
  void check_result(const DefinitionSyntax& d, const Value& value, Span span);
  void emit_tensor(const DefinitionSyntax& d, const Value& value, std::vector<Expr> extents);
  void emit_statement(TensorId result, const DefinitionSyntax& d, const Value& value,
                      const std::vector<Expr>& extents);
  Expr size_expression(Ref value, Span span);
  std::optional<Scalar> literal_element(TensorId tensor, std::span<const int64_t> index) const;

  // Blocks.
  struct Argument {
    NameSyntax name;
    Value value;
  };
  std::vector<Argument> block_arguments(BlockId block, const std::vector<Value>& values,
                                        std::string_view what);
  Value run_block(BlockId block, const std::vector<Argument>& arguments);
  void run_statements(BlockId block, const std::vector<Argument>& arguments);
  void statement(const StatementSyntax& s);
  void bind_let(const StatementSyntax& s);
  void bind(NameSyntax name, Binding binding);
  Value call_function(const Syntax& call, const Function& function);
  Binding let_value(SyntaxId value);
  const Binding* find_local(std::string_view name) const;
  const Global* find_global(std::string_view name) const;
  Binding global_binding(const GlobalLet& global, std::string_view name);
  std::optional<TensorUse> find_tensor(std::string_view name);
  TensorUse tensor_named(std::string_view name, Span span);

  // Expressions.
  Value expression(SyntaxId id);
  Value evaluate_kind(const Syntax& node);
  Value name(const Syntax& node);
  Value binary_chain(const Syntax& node);
  Value swizzle(const Syntax& node);
  Value component(const Syntax& node);
  Value tuple(const Syntax& node);
  Value call(const Syntax& node);
  Value method(const Syntax& node);
  Value ifel(const Syntax& node);
  Value cast(const Syntax& node, DType type);
  std::vector<Value> arguments(const Syntax& call);
  std::vector<Value> arguments(const Syntax& call, size_t count);
  [[noreturn]] void unknown_function(const Syntax& node) const;

  // Built-in functions.
  std::optional<Value> builtin(const Syntax& node);
  std::optional<Value> one_argument_function(const Syntax& node);
  std::optional<Value> vector_function(const Syntax& node);
  std::optional<Value> mixing_function(const Syntax& node);
  std::optional<Value> color_function(const Syntax& node);
  Value extremum(const Syntax& node, Op op);
  Value replicated(const Syntax& node, size_t count);
  Value to_floats(const Value& v);
  Value random(const Syntax& node);
  uint32_t words_before(uint32_t offset);
  Value to_ncoord(const Syntax& node);
  Part fraction(Part x);
  Part dot(const Value& a, const Value& b);
  void expect_block_free(const Syntax& call) const;
  Value numbers_of(const Syntax& call, const Value& v, size_t count) const;
  Value gamma_to_linear(const Value& v);
  Value linear_to_gamma(const Value& v);
  Value times_matrix(const Value& v, const double (&rows)[3][3]);
  Value to_ncolor(const Syntax& call, const Value& v);
  Value to_integer_color(const Value& v, DType type);
  Value with_alpha(const Value& color, const Value& alpha_of);
  Value without_alpha(const Value& color) const;

  // Tensor reads.
  Value read(const TensorUse& tensor, const Syntax& call);
  Value read_pixel(const TensorUse& tensor, const std::vector<Ref>& index);
  Value read_normalized(const TensorUse& tensor, const std::vector<Value>& coordinates);
  Value interpolated(const TensorUse& tensor, const std::vector<Ref>& low,
                     const std::vector<Part>& fractions);
  Value read_addressed(const TensorUse& tensor, const std::vector<Ref>& index);
  Value read_global(const TensorInfo& tensor, const std::vector<Ref>& index);
  Ref limited(TensorId tensor, Ref value);
  Ref extent(const TensorUse& tensor, int dimension);
  Ref inside(const TensorUse& tensor, const std::vector<Ref>& index);
  Value extent_method(const TensorUse& tensor, const Syntax& node);
  TensorUse make_sampler(const Syntax& node);
  std::vector<Value> index_values(const TensorUse& tensor, const Syntax& call);
  std::vector<Ref> integer_indices(const std::vector<Value>& values, const Syntax& call);

  // Loops.
  struct Range {
    Ref begin, end;
  };
  struct LoopArguments {
    std::vector<Range> ranges;
    std::optional<Value> init;
  };
  using Counters = std::vector<Ref>;
  using Ordered = std::function<std::vector<Ref>(const Counters&, const std::vector<Ref>&)>;
  using Unordered = std::function<std::vector<Ref>(const Counters&)>;
  LoopArguments loop_arguments(const Syntax& call, bool takes_init);
  Range range(const Syntax& node);
  std::vector<Ref> ordered_loop(const std::vector<Range>& ranges, const std::vector<Ref>& starts,
                                const Ordered& body);
  std::vector<Ref> unordered_loop(const std::vector<Range>& ranges, const Unordered& body);
  Value rsum(const Syntax& node);
  Value reduce(const Syntax& node);
  Value tensor_sum(const TensorUse& tensor, const Syntax& node);
  Value sum_over(const std::vector<Range>& ranges, BlockId block, const std::string& what,
                 const TensorUse* tensor);
  void for_each(const Syntax& node);
  std::vector<std::shared_ptr<LocalTensor>> changed_in(BlockId block);
  std::vector<Range> ranges_of(const TensorUse& tensor);
  // reduce<T>.accumulate along one dimension, at `position` of the other.
  struct Reduction {
    TensorUse tensor;
    int dimension = 0;
    std::optional<Value> init;
    bool finds_index = false;
    BlockId block = -1;
    Span span;
  };
  Reduction reduction(const Syntax& node);
  Value reduce_along(const Reduction& r, std::optional<Ref> position);
  Value tensor_reduce_value(const Syntax& node);

  // Local tensors.
  void define_local(const DefinitionSyntax& d);
  void define_local_reduce(const DefinitionSyntax& d);
  void define_local_literal(const DefinitionSyntax& d);
  std::vector<int64_t> constant_bounds(const DefinitionSyntax& d);
  void check_cells(size_t cells, Span span) const;
  void mutate(const StatementSyntax& s);
  Value read_local(const LocalTensor& tensor, const std::vector<Ref>& index);
  Ref cell_number(const LocalTensor& tensor, const std::vector<Ref>& index);

  SourcePtr source_;
  ProgramSyntax syntax_;
  Program out_;
  Frames frames_;
  Arithmetic arithmetic_;
  std::map<std::string_view, Global> globals_;
  std::vector<Scope> scopes_;
  std::map<const StatementSyntax*, Binding> global_values_;  // of this body
  std::map<std::string_view, int> input_ranks_;
  std::vector<std::pair<std::string_view, Span>> input_names_;
  std::vector<Ref> pixel_;             // the indices of the tensor being defined, x first
  std::vector<Expr> extents_;          // its extents
  std::vector<Ref> counters_;          // of the open loops
  std::vector<uint32_t> calls_;        // where the calls being written out stand in the text
  std::vector<uint32_t> word_starts_;  // of the text, in order; empty until rand() asks
  std::string_view function_;          // being declared
  int depth_ = 0;
  size_t steps_ = 0;
};

// Turns the accesses of a finished body into those of a statement: indices that are affine in the
// statement's indices and in sizes become index expressions, the others stay operands of the load.
// `extents` gives, for each tensor, its sizes in the order of its dimensions.
void settle_accesses(SymbolicContraction& statement, const std::vector<Frames::AccessKey>& accesses,
                     const std::function<std::vector<Expr>(TensorId)>& extents);

}  // namespace tile::mfg
