#include "core/passes/bind/index_node.h"

#include <algorithm>

namespace tile {
namespace {

class Writer {
 public:
  Writer(Body& body, const std::vector<std::string>& indices, const Ranges& ranges, Span span)
      : body_(body), indices_(indices), ranges_(ranges), span_(span) {}

  NodeId write(const Expr& e) {
    switch (e.kind()) {
      case ExprKind::constant:
        return number(e.value());
      case ExprKind::variable:
        return index(e.name());
      case ExprKind::add:
        return chain(Op::add, e);
      case ExprKind::mul:
        return chain(Op::mul, e);
      case ExprKind::min:
        return chain(Op::min, e);
      case ExprKind::max:
        return chain(Op::max, e);
      case ExprKind::sub:
        return chain(Op::sub, e);
      case ExprKind::neg:
        return operation(Op::neg, {write(e.args()[0])});
      case ExprKind::exact_div:
      case ExprKind::trunc_div:
        return chain(Op::div, e);
      case ExprKind::trunc_mod:
        return chain(Op::mod, e);
      case ExprKind::floor_div:
      case ExprKind::floor_mod:
        return floored(e);
      case ExprKind::less:
        return comparison(Op::lt, e);
      case ExprKind::equal:
        return comparison(Op::eq, e);
      case ExprKind::select:
        return choice(e);
    }
    return NodeId();
  }

 private:
  NodeId number(int64_t value) { return body_.integer(value, DType::i64, span_); }
  NodeId operation(Op op, std::vector<NodeId> args, DType type = DType::i64) {
    return body_.operation(op, std::move(args), type, span_);
  }
  NodeId index(const std::string& name) {
    auto found = std::find(indices_.begin(), indices_.end(), name);
    if (found == indices_.end()) return body_.size(Expr::variable(name), DType::i64, span_);
    return body_.index(found - indices_.begin(), DType::i64, span_);
  }
  NodeId chain(Op op, const Expr& e) {
    NodeId result = write(e.args()[0]);
    for (size_t i = 1; i < e.args().size(); ++i) {
      NodeId next = write(e.args()[i]);
      result = operation(op, {result, next});
    }
    return result;
  }

  // The truncated quotient where both are the same.
  NodeId floored(const Expr& e) {
    const Expr &a = e.args()[0], &b = e.args()[1];
    bool quotient = e.kind() == ExprKind::floor_div;
    NodeId x = write(a), y = write(b);
    NodeId rest = operation(Op::mod, {x, y});
    auto not_negative = [&](const Expr& part) {
      ConstantRange range = constant_range(part, ranges_);
      return range.lo && *range.lo >= 0;
    };
    if (not_negative(a) && not_negative(b)) {
      return quotient ? operation(Op::div, {x, y}) : rest;
    }
    NodeId zero = number(0);
    NodeId left = operation(Op::lt, {rest, zero}, DType::bool_);
    NodeId right = operation(Op::lt, {y, zero}, DType::bool_);
    NodeId signs = operation(
        Op::bit_xor, {body_.cast(left, DType::i32), body_.cast(right, DType::i32)}, DType::i32);
    NodeId differ = operation(Op::ne, {signs, body_.integer(0, DType::i32, span_)}, DType::bool_);
    NodeId inexact = operation(Op::ne, {rest, zero}, DType::bool_);
    NodeId below = operation(Op::logical_and, {inexact, differ}, DType::bool_);
    if (quotient) {
      NodeId truncated = operation(Op::div, {x, y});
      NodeId less = operation(Op::sub, {truncated, number(1)});
      return operation(Op::select, {below, less, truncated});
    }
    NodeId more = operation(Op::add, {rest, y});
    return operation(Op::select, {below, more, rest});
  }

  NodeId truth(Op op, const Expr& e) {
    NodeId a = write(e.args()[0]), b = write(e.args()[1]);
    return operation(op, {a, b}, DType::bool_);
  }
  NodeId comparison(Op op, const Expr& e) { return body_.cast(truth(op, e), DType::i64, span_); }

  NodeId choice(const Expr& e) {
    const Expr& condition = e.args()[0];
    NodeId holds = condition.kind() == ExprKind::less    ? truth(Op::lt, condition)
                   : condition.kind() == ExprKind::equal ? truth(Op::eq, condition)
                                                         : nonzero(condition);
    NodeId then = write(e.args()[1]), otherwise = write(e.args()[2]);
    return operation(Op::select, {holds, then, otherwise});
  }
  NodeId nonzero(const Expr& e) {
    NodeId value = write(e);
    return operation(Op::ne, {value, number(0)}, DType::bool_);
  }

  Body& body_;
  const std::vector<std::string>& indices_;
  const Ranges& ranges_;
  Span span_;
};

}  // namespace

NodeId add_index_value(Body& body, const Expr& e, const std::vector<std::string>& indices,
                       const Ranges& ranges, Span span) {
  return Writer(body, indices, ranges, span).write(e);
}

}  // namespace tile
