// What elaboration knows while it evaluates a program: loop variables and their ranges, values used
// as indices, conditions left to bind, and the statements made so far.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/language/lift/value.h"
#include "core/simplify/simplify.h"

namespace tile::lift {

// What replaces loop variables and, while a reduction is unrolled, carried values.
struct Substitution {
  std::map<std::string, Expr> indices;
  int id = -1;  // the fold whose carried values `carried` replaces
  std::vector<ScalarPtr> carried;
};

class Context {
 public:
  explicit Context(SourcePtr source);

  Program program;
  IdVector<TensorId, std::vector<Expr>> shapes;  // of the program's tensors

  // Sizes of the program's types; at least 1.
  void add_size(std::string_view name);
  bool is_size(std::string_view name) const { return ranges_.of.contains(std::string(name)); }

  // A loop variable in [0, extent).
  Expr fresh(const Expr& extent);
  const Expr& extent(const std::string& variable) const { return extents_.at(variable); }
  bool is_loop_variable(const std::string& name) const { return extents_.contains(name); }
  int fresh_id() { return next_id_++; }

  // A variable of index expressions that stands for a computed integer.
  Expr data_index(const ScalarPtr& s);
  const ScalarPtr& data(const std::string& variable) const { return data_.at(variable); }
  bool is_data(const std::string& name) const { return data_.contains(name); }
  // What a value depends on, also through data indices, but for the loops inside of it: the
  // variables of loops around it, and the folds whose carried values it uses.
  std::set<std::string> loop_variables(const Scalar& s) const;
  std::set<int> open_loops(const Scalar& s) const;
  bool depends_on_open(const Scalar& s) const;

  const Ranges& ranges() const { return ranges_; }
  Expr tidy(const Expr& e) const { return simplify(e, ranges_); }
  bool proves(const Expr& condition) const;  // condition != 0
  bool in_range(const Expr& index, const Expr& length) const;
  bool at_least(const Expr& e, int64_t least) const;

  // Conditions on sizes: nothing if proved, an error if refuted, else left to bind.
  void require(SizeCheck check);

  ScalarPtr substituted(const ScalarPtr& s, const Substitution& by);
  Value substituted(const Value& value, const Substitution& by);
  Value substituted(const Value& value, const Expr& variable, const Expr& by);

  // The work of all scalars of one element of every array in the value.
  int64_t work(const Value& value);
  // The value read from tensors that statements of their own compute; the value itself where it
  // depends on a fold that is being built.
  Value materialised(const Value& value, Span span);
  // One statement: tensor[dims…] = s, `dims` being loop variables.
  TensorId assign(const ScalarPtr& s, const std::vector<Expr>& dims, const std::string& name,
                  Span span);
  std::string temporary_name();
  // Whether the value depends on no fold that is being built.
  bool closed(const Value& value);

  // A tensor without a statement, which stands for values at these loop variables.
  // `components`: of tuples, as a last dimension; 0: none.
  TensorId declare(DType type, const std::vector<Expr>& dims, size_t components, Span span);
  // The value whose scalars are in `tensors`, in order, at `outer` and then at its own dimensions;
  // all in one tensor: they are its components.
  Value stored(const TypePtr& type, const std::vector<TensorId>& tensors,
               const std::vector<Expr>& outer) const;
  // One statement of the shape of the repeat's state.
  TensorId repeat(Repeat what, Span span);
  // Drops the statements from number `first` on, and the tensors from `tensor` on.
  void forget(size_t first, TensorId tensor);
  int64_t forgotten = 0;  // how often tensors have gone: views of them may be kept somewhere

 private:
  struct Leaf {
    TensorId tensor;
    std::vector<Expr> outer;  // loop variables around the value
    int component = -1;       // of the tensor's last dimension; -1: there is none
  };
  void collect_leaves(const Value& value, std::vector<Expr>& dims, Span span,
                      std::vector<Leaf>& leaves);
  Value read(const TypePtr& type, std::vector<Expr> index,
             const std::shared_ptr<const std::vector<Leaf>>& leaves, size_t first) const;

  Ranges ranges_;
  std::map<std::string, Expr> extents_;
  std::map<std::string, ScalarPtr> data_;
  int next_variable_ = 0;
  int next_id_ = 0;
  int temporaries_ = 0;
};

}  // namespace tile::lift
