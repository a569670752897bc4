// What Lift expressions evaluate to. Data are views: an array is a function from an index
// expression to an element, so layout patterns become index arithmetic as they are applied
// (core/language/lift/REFERENCE.md 2.2), and only scalars are computed, as trees that the
// statements are built from.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/ir/program.h"
#include "core/simplify/expr.h"

namespace tile::lift {

enum class TypeKind : uint8_t { float_, int_, bool_, array, tuple, function };

struct Type;
using TypePtr = std::shared_ptr<const Type>;
struct Type {
  TypeKind kind = TypeKind::float_;
  Expr length;                 // array
  bool vector = false;         // an array made by asVector: operators work on its elements
  std::vector<TypePtr> parts;  // the element, or the components
};
TypePtr scalar_type(TypeKind kind);
TypePtr array_type(TypePtr element, Expr length, bool vector = false);
TypePtr tuple_type(std::vector<TypePtr> parts);
bool is_scalar(const Type& type);
// As programs spell it: "ArrayType(Float, N)"; a tuple is "(Float, Int)".
std::string to_string(const Type& type);
DType dtype_of(const Type& type);  // of a scalar type

enum class ScalarKind : uint8_t {
  integer,    // `integer`
  real,       // `real`
  index,      // exprs[0]: an expression over sizes and loop variables
  load,       // tensor[exprs…]
  operation,  // op(args…)
  guard,      // args[0] where 0 <= exprs[0] < exprs[1], else args[1]
  carried,    // value `slot` of the fold or reduction `id` being built, at element exprs…
  reduce,     // the args[0] of all `variable` in [0, exprs[0]) combined by `op`; with exprs[1]
              // only those `variable` <= exprs[1]
  fold,       // in order of `variable` in [0, exprs[0]); args: k starts, then k next values
  component,  // value `slot` of the fold args[0]
};

struct Scalar;
using ScalarPtr = std::shared_ptr<const Scalar>;
struct Scalar {
  ScalarKind kind = ScalarKind::integer;
  DType type = DType::i32;
  Op op = Op::ident;
  bool weak = false;  // an integer literal, which may stand for a Float
  int64_t integer = 0;
  double real = 0;
  TensorId tensor;
  int id = -1;
  int slot = -1;
  std::string variable;
  std::vector<ScalarPtr> args;
  std::vector<Expr> exprs;
  Span span;
  // Derived by make_scalar.
  std::set<std::string> free;  // loop variables and data indices that the value depends on
  std::set<int> open;          // folds being built whose carried values it uses
  int64_t work = 0;            // about how many operations one evaluation costs
  int depth = 1;
};
// Completes and checks a node. Throws Failure if it nests too deep.
ScalarPtr make_scalar(Scalar node);
ScalarPtr integer_literal(int64_t value, DType type = DType::i32);
ScalarPtr real_literal(double value);
ScalarPtr index_scalar(const Expr& e, DType type = DType::i32);
ScalarPtr operation(Op op, std::vector<ScalarPtr> args, DType type, Span span = {});
bool is_index(const Scalar& s);  // an integer literal or an index expression
Expr expr_of(const Scalar& s);   // of these

// Work that is worth a tensor of its own rather than being repeated.
inline constexpr int64_t kRecomputeLimit = 64;
// What a loop of symbolic length counts as.
inline constexpr int64_t kAssumedTrips = 4096;

struct Value;
struct ArrayValue {
  std::function<Value(const Expr&)> at;
  int depth = 1;  // views below this one
  // Where the array is a Join: the inner lengths, outermost first. A reduction has an index for
  // each instead of quotients and remainders of one.
  std::vector<Expr> rows = {};
};
struct FunctionValue {
  std::string name;
  int arity = 1;             // -1: any
  bool constructor = false;  // a pattern without its parameters yet: `least` … `most` of them
  int least = 0, most = 0;
  std::function<Value(std::vector<Value>, Span)> call;
  // Of an Iterate: the function, and how often it is applied; null: it is none.
  std::shared_ptr<const FunctionValue> repeated = nullptr;
  int64_t repeats = 0;
};
struct Value {
  TypePtr type;
  ScalarPtr scalar;
  std::vector<Value> parts;  // tuple
  std::shared_ptr<const ArrayValue> array;
  std::shared_ptr<const FunctionValue> function;

  const Expr& length() const { return type->length; }
};
Value scalar_value(ScalarPtr s);
Value tuple_value(std::vector<Value> parts);
Value array_value(TypePtr type, std::function<Value(const Expr&)> at, int depth);
// An array of `length` elements like `element`, which is the one at some index.
Value array_of(const Expr& length, const TypePtr& element, std::function<Value(const Expr&)> at,
               int depth);
// The same array, known to consist of rows.
Value with_rows(Value array, std::vector<Expr> rows);
Value function_value(FunctionValue f);

}  // namespace tile::lift
