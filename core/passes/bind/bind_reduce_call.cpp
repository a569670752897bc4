// Calls on whole tensors (rule 6.4) that reduce or compute.
#include <limits>

#include "core/passes/bind/bind_body.h"
#include "core/passes/bind/bind_call.h"

namespace tile {
namespace {

// The iterator forms of the result's cells with `inserted` at the source's axis.
std::vector<Affine> with_axis(size_t rank, size_t axis, const Affine& inserted) {
  std::vector<Affine> index = iterator_forms(rank);
  index.insert(index.begin() + static_cast<std::ptrdiff_t>(axis), inserted);
  return index;
}

NodeId is_nan(Body& body, NodeId value) { return body.operation(Op::isnan, {value}, DType::bool_); }

// Position k where the element equals the extreme (or both are NaN), else the largest integer.
void position_body(Body& body, DType type, int iterator) {
  DType computed = compute_type(type);
  NodeId element = body.cast(body.load(0, type), computed);
  NodeId extreme = body.cast(body.load(1, type), computed);
  NodeId match = body.operation(Op::eq, {element, extreme}, DType::bool_);
  if (is_float(type)) {
    NodeId both = body.operation(Op::logical_and, {is_nan(body, element), is_nan(body, extreme)},
                                 DType::bool_);
    match = body.operation(Op::logical_or, {match, both}, DType::bool_);
  }
  NodeId position = body.index(iterator, DType::i64);
  NodeId none = body.integer(std::numeric_limits<int64_t>::max(), DType::i64);
  body.results = {body.operation(Op::select, {match, position, none}, DType::i64)};
}

}  // namespace

// The extreme, then the least position that holds it: the first wins, and as `>` and `<` propagate
// NaN, the first NaN does.
void bind_arg_extreme(const CallArguments& a, Aggregation aggregation) {
  size_t axis = a.axis(0, a.rank(0)), rank = a.rank(0) - 1;
  Shape shape = a.shape(0);
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  std::vector<Affine> element = with_axis(rank, axis, iterator_affine(rank));
  BindContext& context = a.context;
  DType type = a.type(0), cells = accumulator_type(aggregation, type);
  TensorId extreme = context.temporary(a.result(), "value", type, shape, a.statement.span);

  Piece reduce = pointwise_piece(extreme, rank);
  reduce.iterators.push_back("k");
  reduce.loads.push_back(make_access(a.tensor(0), element, a.tensor_span(0)));
  reduce.body.results = {reduce.body.cast(reduce.body.load(0, type), cells)};
  context.add(make_contraction(extreme, aggregation, cells, std::move(reduce), a.statement.span));

  Piece find = pointwise_piece(a.result(), rank);
  find.iterators.push_back("k");
  find.loads.push_back(make_access(a.tensor(0), element, a.tensor_span(0)));
  find.loads.push_back(make_access(extreme, iterator_forms(rank), a.tensor_span(0)));
  position_body(find.body, type, static_cast<int>(rank));
  a.finish(DType::i64, std::move(shape), Aggregation::min, std::move(find));
}

void bind_cumsum(const CallArguments& a) {
  size_t rank = a.rank(0), axis = a.axis(0, rank);
  DType type = arithmetic_type(a.type(0));
  Piece piece = pointwise_piece(a.result(), rank);
  piece.iterators.push_back("k");
  std::vector<Affine> element = iterator_forms(rank);
  element[axis] = iterator_affine(rank);
  piece.loads.push_back(make_access(a.tensor(0), element, a.tensor_span(0)));
  Constraint before;
  before.form = iterator_affine(axis) - iterator_affine(rank);
  before.hi = a.shape(0)[axis];
  piece.constraints.push_back(std::move(before));
  NodeId value = piece.body.load(0, a.type(0));
  piece.body.results = {piece.body.cast(value, accumulator_type(Aggregation::sum, type))};
  a.finish(type, a.shape(0), Aggregation::sum, std::move(piece));
}

void bind_uniform(const CallArguments& a) {
  if (element_count(a.shape(0)) != 1) {
    a.fail_at(a.tensor_span(0), "shape",
              "prng_uniform needs a scalar seed, but " + a.context.name(a.tensor(0)) +
                  " has shape " + shape_text(a.shape(0)));
  }
  Shape shape;
  for (size_t i = 0; i < a.size_count(); ++i) shape.push_back(a.size(i));
  Piece piece = pointwise_piece(a.result(), shape.size());
  std::vector<Affine> first(a.rank(0), constant_affine(0));
  piece.loads.push_back(make_access(a.tensor(0), first, a.tensor_span(0)));
  Body& body = piece.body;
  NodeId seed = body.cast(body.load(0, a.type(0)), DType::i64);
  NodeId counter = body.integer(0, DType::i64);
  for (size_t d = 0; d < shape.size(); ++d) {
    NodeId position = body.index(d, DType::i64);
    NodeId size = body.integer(shape[d], DType::i64);
    NodeId row = body.operation(Op::mul, {counter, size}, DType::i64);
    counter = d == 0 ? position : body.operation(Op::add, {row, position}, DType::i64);
  }
  body.results = {add_uniform(body, seed, counter)};
  body = tidied(body);
  a.finish(DType::f32, std::move(shape), Aggregation::assign, std::move(piece));
}

// Sums T down to the shape of L. A dimension of L that T repeats or lacks is repeated, so that T
// may be anything that broadcasts with L.
void bind_sum_to(const CallArguments& a) {
  Shape from = a.shape(0), to = a.shape(1);
  Piece piece = pointwise_piece(a.result(), to.size());
  Access& store = piece.stores[0];
  std::vector<Affine> element(from.size());
  bool reduces = false;
  for (size_t d = 0; d < from.size(); ++d) {
    size_t missing = from.size() - d;  // the dimension counted from the last, from 1
    bool kept = missing <= to.size() && to[to.size() - missing] != 1;
    size_t result_axis = to.size() - missing;
    if (missing <= to.size() && from[d] == 1 && to[result_axis] == 1) kept = true;
    if (kept) {
      bool repeats = from[d] == 1 && to[result_axis] != 1;
      element[d] = repeats ? constant_affine(0) : iterator_affine(result_axis);
      if (repeats || from[d] == to[result_axis]) continue;
      a.fail_at(a.tensor_span(0), "broadcast",
                "sum_to cannot sum " + a.context.name(a.tensor(0)) + " of shape " +
                    shape_text(from) + " to the shape " + shape_text(to) + " of " +
                    a.context.name(a.tensor(1)));
    }
    reduces = true;
    if (missing <= to.size()) {
      element[d] = iterator_affine(result_axis);
      store.index[result_axis].affine = constant_affine(0);
      continue;
    }
    element[d] = iterator_affine(piece.iterators.size());
    piece.iterators.push_back("k" + std::to_string(d));
  }
  Aggregation aggregation = reduces ? Aggregation::sum : Aggregation::assign;
  DType type = reduces ? arithmetic_type(a.type(0)) : a.type(0);
  piece.loads.push_back(make_access(a.tensor(0), element, a.tensor_span(0)));
  NodeId value = piece.body.load(0, a.type(0));
  piece.body.results = {piece.body.cast(value, accumulator_type(aggregation, type))};
  a.finish(type, std::move(to), aggregation, std::move(piece));
}

}  // namespace tile
