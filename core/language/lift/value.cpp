#include "core/language/lift/value.h"

#include <algorithm>

namespace tile::lift {
namespace {

constexpr int kMaxScalarDepth = 4000;
constexpr int64_t kMostWork = int64_t{1} << 50;

std::string joined(const std::vector<TypePtr>& parts) {
  std::string out;
  for (const TypePtr& part : parts) out += (out.empty() ? "" : ", ") + to_string(*part);
  return out;
}

int64_t times(int64_t a, int64_t b) { return b != 0 && a > kMostWork / b ? kMostWork : a * b; }

// Loop variables and data indices; sizes have plain names.
void add_free(const Expr& e, std::set<std::string>& names) {
  std::vector<std::string> used;
  collect_variables(e, used);
  for (const std::string& name : used) {
    if (name[0] == '$') names.insert(name);
  }
}

int64_t own_work(const Scalar& s) {
  switch (s.kind) {
    case ScalarKind::operation:
    case ScalarKind::load:
    case ScalarKind::guard:
      return 1;
    default:
      return 0;
  }
}

}  // namespace

TypePtr scalar_type(TypeKind kind) {
  Type type;
  type.kind = kind;
  return std::make_shared<const Type>(std::move(type));
}

TypePtr array_type(TypePtr element, Expr length, bool vector) {
  Type type;
  type.kind = TypeKind::array;
  type.length = std::move(length);
  type.vector = vector;
  type.parts = {std::move(element)};
  return std::make_shared<const Type>(std::move(type));
}

TypePtr tuple_type(std::vector<TypePtr> parts) {
  Type type;
  type.kind = TypeKind::tuple;
  type.parts = std::move(parts);
  return std::make_shared<const Type>(std::move(type));
}

bool is_scalar(const Type& type) { return type.kind <= TypeKind::bool_; }

std::string to_string(const Type& type) {
  switch (type.kind) {
    case TypeKind::float_:
      return "Float";
    case TypeKind::int_:
      return "Int";
    case TypeKind::bool_:
      return "Bool";
    case TypeKind::array:
      return (type.vector ? "VectorType(" : "ArrayType(") + to_string(*type.parts[0]) + ", " +
             to_string(type.length) + ")";
    case TypeKind::tuple:
      return "(" + joined(type.parts) + ")";
    case TypeKind::function:
      return "a function";
  }
  return "?";
}

DType dtype_of(const Type& type) {
  if (type.kind == TypeKind::float_) return DType::f32;
  return type.kind == TypeKind::int_ ? DType::i32 : DType::bool_;
}

ScalarPtr make_scalar(Scalar node) {
  node.work = own_work(node);
  for (const ScalarPtr& arg : node.args) {
    node.free.insert(arg->free.begin(), arg->free.end());
    node.open.insert(arg->open.begin(), arg->open.end());
    node.work = std::min(kMostWork, node.work + arg->work);
    node.depth = std::max(node.depth, arg->depth + 1);
  }
  for (size_t i = 0; i < node.exprs.size(); ++i) add_free(node.exprs[i], node.free);
  if (node.kind == ScalarKind::carried) node.open.insert(node.id);
  if (node.kind == ScalarKind::reduce || node.kind == ScalarKind::fold) {
    node.free.erase(node.variable);
    node.open.erase(node.id);
    const Expr& n = node.exprs[0];
    node.work =
        times(node.work + 1, n.is_constant() ? std::max<int64_t>(1, n.value()) : kAssumedTrips);
  }
  if (node.depth > kMaxScalarDepth) {
    fail(Stage::parse, "limit", node.span,
         "the value of one element nests deeper than " + std::to_string(kMaxScalarDepth) +
             " operations");
  }
  return std::make_shared<const Scalar>(std::move(node));
}

ScalarPtr integer_literal(int64_t value, DType type) {
  Scalar node;
  node.type = type;
  node.integer = value;
  return make_scalar(std::move(node));
}

ScalarPtr real_literal(double value) {
  Scalar node;
  node.kind = ScalarKind::real;
  node.type = DType::f32;
  node.real = static_cast<double>(static_cast<float>(value));
  return make_scalar(std::move(node));
}

ScalarPtr index_scalar(const Expr& e, DType type) {
  if (e.is_constant()) return integer_literal(e.value(), type);
  Scalar node;
  node.kind = ScalarKind::index;
  node.type = type;
  node.exprs = {e};
  return make_scalar(std::move(node));
}

ScalarPtr operation(Op op, std::vector<ScalarPtr> args, DType type, Span span) {
  Scalar node;
  node.kind = ScalarKind::operation;
  node.op = op;
  node.type = type;
  node.args = std::move(args);
  node.span = span;
  return make_scalar(std::move(node));
}

bool is_index(const Scalar& s) {
  return s.kind == ScalarKind::index || s.kind == ScalarKind::integer;
}

Expr expr_of(const Scalar& s) {
  return s.kind == ScalarKind::integer ? Expr(s.integer) : s.exprs[0];
}

Value scalar_value(ScalarPtr s) {
  Value value;
  value.type = scalar_type(s->type == DType::f32     ? TypeKind::float_
                           : s->type == DType::bool_ ? TypeKind::bool_
                                                     : TypeKind::int_);
  value.scalar = std::move(s);
  return value;
}

Value tuple_value(std::vector<Value> parts) {
  std::vector<TypePtr> types;
  for (const Value& part : parts) types.push_back(part.type);
  Value value;
  value.type = tuple_type(std::move(types));
  value.parts = std::move(parts);
  return value;
}

Value array_value(TypePtr type, std::function<Value(const Expr&)> at, int depth) {
  Value value;
  value.type = std::move(type);
  value.array = std::make_shared<const ArrayValue>(ArrayValue{std::move(at), depth, {}});
  return value;
}

Value array_of(const Expr& length, const TypePtr& element, std::function<Value(const Expr&)> at,
               int depth) {
  return array_value(array_type(element, length), std::move(at), depth);
}

Value with_rows(Value array, std::vector<Expr> rows) {
  if (rows.empty()) return array;
  ArrayValue copy = *array.array;
  copy.rows = std::move(rows);
  array.array = std::make_shared<const ArrayValue>(std::move(copy));
  return array;
}

Value function_value(FunctionValue f) {
  Value value;
  value.type = scalar_type(TypeKind::function);
  value.function = std::make_shared<const FunctionValue>(std::move(f));
  return value;
}

}  // namespace tile::lift
