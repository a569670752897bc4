// The arguments of a call on whole tensors, checked; and the calls that take more than moving
// elements.
#pragma once

#include "core/passes/bind/bind_context.h"

namespace tile {

struct CallArguments {
  BindContext& context;
  const Statement& statement;
  const Call& call;

  TensorId result() const { return statement.result; }
  size_t tensor_count() const { return call.tensors.size(); }
  TensorId tensor(size_t i) const;
  const Shape& shape(size_t i) const { return context.shape(tensor(i)); }
  size_t rank(size_t i) const { return shape(i).size(); }
  DType type(size_t i) const { return context.tensor(tensor(i)).type; }
  size_t size_count() const { return call.sizes.size(); }
  Shape all_sizes() const;          // every integer argument as a size
  int64_t integer(size_t i) const;  // the i-th integer argument, any value
  int64_t size(size_t i) const;     // not negative
  // The i-th integer argument as an axis of tensor 0 (or one of `rank` axes).
  size_t axis(size_t i, size_t rank) const;
  Span tensor_span(size_t i) const { return span(i); }
  Span size_span(size_t i) const { return span(call.tensors.size() + i); }
  std::string function() const { return std::string(to_string(call.function)); }
  // Declares the result and adds `contraction = aggregation(piece)`.
  void finish(DType type, Shape shape, Aggregation aggregation, Piece piece) const;
  [[noreturn]] void fail_at(Span where, const char* code, const std::string& message,
                            std::string hint = "") const;
  Span span(size_t i) const { return i < call.spans.size() ? call.spans[i] : statement.span; }
};

void bind_arg_extreme(const CallArguments& arguments, Aggregation aggregation);
void bind_cumsum(const CallArguments& arguments);
void bind_uniform(const CallArguments& arguments);
void bind_sum_to(const CallArguments& arguments);

}  // namespace tile
