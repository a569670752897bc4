// Calls on whole tensors (rule 6.4) that place or move elements.
#include "core/passes/bind/bind_call.h"

#include <algorithm>

#include "core/support/checked.h"

namespace tile {

TensorId CallArguments::tensor(size_t i) const {
  if (i < call.tensors.size()) return call.tensors[i];
  fail_at(statement.span, "arity", function() + " needs more tensors");
}

int64_t CallArguments::integer(size_t i) const {
  if (i >= call.sizes.size()) {
    fail_at(statement.span, "arity", function() + " needs more integer arguments");
  }
  return context.integer(call.sizes[i], result(), size_span(i));
}

int64_t CallArguments::size(size_t i) const {
  int64_t value = integer(i);
  if (value < 0) context.size(call.sizes[i], result(), size_span(i));
  return value;
}

Shape CallArguments::all_sizes() const {
  Shape shape;
  for (size_t i = 0; i < size_count(); ++i) shape.push_back(size(i));
  return shape;
}

size_t CallArguments::axis(size_t i, size_t rank) const {
  int64_t value = integer(i);
  if (value >= 0 && value < static_cast<int64_t>(rank)) return static_cast<size_t>(value);
  fail_at(size_span(i), "axis",
          function() + " has axis " + std::to_string(value) + ", but " + context.name(tensor(0)) +
              " of shape " + shape_text(shape(0)) + " has axes 0 to " +
              std::to_string(static_cast<int64_t>(rank) - 1),
          value < 0 ? "axes are counted from the first, which is 0" : "");
}

void CallArguments::finish(DType type, Shape shape, Aggregation aggregation, Piece piece) const {
  context.declare(result(), type, std::move(shape), statement.span);
  context.add(make_contraction(result(), aggregation, accumulator_type(aggregation, type),
                               std::move(piece), statement.span));
}

void CallArguments::fail_at(Span where, const char* code, const std::string& message,
                            std::string hint) const {
  fail(Stage::bind, code, where, message, std::move(hint));
}

namespace {

// The piece's body: its first load in the type of the cells.
void copy_first_load(Piece& piece, DType loaded, DType cells) {
  NodeId value = piece.body.load(0, loaded);
  piece.body.results = {piece.body.cast(value, cells)};
}

// result = source, element for element, at the forms `index` in the result's iterators.
void bind_moved(const CallArguments& a, Shape shape, const std::vector<Affine>& index) {
  Piece piece = pointwise_piece(a.result(), shape.size());
  piece.loads.push_back(make_access(a.tensor(0), index, a.tensor_span(0)));
  copy_first_load(piece, a.type(0), accumulator_type(Aggregation::assign, a.type(0)));
  a.finish(a.type(0), std::move(shape), Aggregation::assign, std::move(piece));
}

void bind_shape(const CallArguments& a) {
  const Shape& shape = a.shape(0);
  Contraction contraction;
  contraction.outputs = {a.result()};
  contraction.accumulator = DType::i64;
  contraction.span = a.statement.span;
  for (size_t d = 0; d < shape.size(); ++d) {
    Piece piece;
    piece.stores.push_back(make_access(a.result(), {constant_affine(static_cast<int64_t>(d))}));
    piece.body.results = {piece.body.integer(shape[d], DType::i64)};
    contraction.pieces.push_back(std::move(piece));
  }
  a.context.declare(a.result(), DType::i64, {static_cast<int64_t>(shape.size())}, a.statement.span);
  a.context.add(std::move(contraction));
}

void bind_index(const CallArguments& a) {
  Shape shape = a.shape(0);
  size_t axis = a.axis(0, shape.size());
  Piece piece = pointwise_piece(a.result(), shape.size());
  piece.body.results = {piece.body.index(axis, DType::i64)};
  a.finish(DType::i64, std::move(shape), Aggregation::assign, std::move(piece));
}

// A view; a result that the program returns is a copy through the view.
void bind_reshape(const CallArguments& a, Shape shape) {
  BindContext& context = a.context;
  TensorId source = a.tensor(0);
  TensorId result = a.result();
  bool returned = context.tensor(result).role == TensorRole::output;
  context.declare(result, a.type(0), shape, a.statement.span);
  if (element_count(shape) != element_count(a.shape(0))) {
    a.fail_at(a.statement.span, "size",
              "reshape cannot make " + context.name(result) + " of shape " + shape_text(shape) +
                  " from " + context.name(source) + " of shape " + shape_text(a.shape(0)));
  }
  TensorId viewed = context.tensor(source).view_of.value_or(source);
  TensorId view =
      returned ? context.temporary(result, "view", a.type(0), shape, a.statement.span) : result;
  context.edit(view).view_of = viewed;
  if (!returned) return;
  Piece piece = pointwise_piece(result, shape.size());
  piece.loads.push_back(make_access(view, iterator_forms(shape.size()), a.tensor_span(0)));
  DType cells = accumulator_type(Aggregation::assign, a.type(0));
  copy_first_load(piece, a.type(0), cells);
  context.add(
      make_contraction(result, Aggregation::assign, cells, std::move(piece), a.statement.span));
}

void check_indices(const CallArguments& a, const std::string& source) {
  if (is_integer(a.type(1))) return;
  a.fail_at(a.tensor_span(1), "type",
            a.function() + " of " + source + " needs integer indices, but " +
                a.context.name(a.tensor(1)) + " is " + std::string(to_string(a.type(1))),
            "give it as integers, as in --shape I=4:i32, or convert it with as_int(…, 32)");
}

// A 64-bit index clamped into [0, size).
NodeId clamped_index(Body& body, NodeId index, DType type, int64_t size) {
  if (type == DType::u64) {
    NodeId top = body.integer(size - 1, DType::u64);
    return body.cast(body.operation(Op::min, {index, top}, DType::u64), DType::i64);
  }
  NodeId wide = body.cast(index, DType::i64);
  NodeId low = body.operation(Op::max, {wide, body.integer(0, DType::i64)}, DType::i64);
  return body.operation(Op::min, {low, body.integer(size - 1, DType::i64)}, DType::i64);
}

void bind_gather(const CallArguments& a) {
  const std::string& source = a.context.name(a.tensor(0));
  if (a.rank(0) == 0) {
    a.fail_at(a.tensor_span(0), "rank", "gather needs a leading axis, but " + source + " has none");
  }
  check_indices(a, source);
  size_t outer = a.rank(1);
  Shape shape = a.shape(1);
  shape.insert(shape.end(), a.shape(0).begin() + 1, a.shape(0).end());
  int64_t rows = a.shape(0)[0];
  if (rows == 0 && element_count(shape) != 0) {
    a.fail_at(a.tensor_span(0), "size", "gather reads from " + source + ", which has no rows");
  }
  Piece piece = pointwise_piece(a.result(), shape.size());
  std::vector<Affine> all = iterator_forms(shape.size());
  auto middle = all.begin() + static_cast<std::ptrdiff_t>(outer);
  piece.loads.push_back(make_access(a.tensor(1), {all.begin(), middle}, a.tensor_span(1)));
  NodeId index = clamped_index(piece.body, piece.body.load(0, a.type(1)), a.type(1),
                               std::max<int64_t>(rows, 1));
  Access rest = make_access(a.tensor(0), {middle, all.end()}, a.tensor_span(0));
  Index row;
  row.value = 0;
  rest.index.insert(rest.index.begin(), row);
  piece.loads.push_back(std::move(rest));
  NodeId value = piece.body.load(1, a.type(0), {}, {index});
  piece.body.results = {piece.body.cast(value, accumulator_type(Aggregation::assign, a.type(0)))};
  a.finish(a.type(0), std::move(shape), Aggregation::assign, std::move(piece));
}

void bind_scatter(const CallArguments& a) {
  const std::string& updates = a.context.name(a.tensor(0));
  check_indices(a, updates);
  size_t outer = a.rank(1);
  const Shape& from = a.shape(0);
  bool prefix =
      outer <= from.size() && std::equal(a.shape(1).begin(), a.shape(1).end(), from.begin());
  if (!prefix) {
    a.fail_at(a.tensor_span(1), "shape",
              "scatter needs the shape of " + a.context.name(a.tensor(1)) + ", " +
                  shape_text(a.shape(1)) + ", to begin that of " + updates + ", " +
                  shape_text(from));
  }
  Shape shape{a.size(0)};
  shape.insert(shape.end(), from.begin() + static_cast<std::ptrdiff_t>(outer), from.end());
  DType type = arithmetic_type(a.type(0));
  a.context.declare(a.result(), type, std::move(shape), a.statement.span);
  a.context.add(Scatter{a.tensor(0), a.tensor(1), a.result(), a.statement.span});
}

void bind_transpose(const CallArguments& a) {
  size_t rank = a.rank(0);
  std::vector<size_t> axes;
  for (size_t i = 0; i < a.size_count(); ++i) axes.push_back(a.axis(i, rank));
  if (axes.empty()) {
    for (size_t d = rank; d-- > 0;) axes.push_back(d);
  }
  std::vector<bool> seen(rank);
  for (size_t axis : axes) seen[axis] = true;
  if (axes.size() != rank || std::count(seen.begin(), seen.end(), true) != std::ssize(seen)) {
    a.fail_at(a.statement.span, "axis",
              "transpose of " + a.context.name(a.tensor(0)) + " needs each of its " +
                  std::to_string(rank) + " axes once",
              "dimension d of the result is dimension axes[d] of the tensor; without axes all are "
              "reversed");
  }
  Shape shape;
  std::vector<Affine> index(rank);
  for (size_t d = 0; d < rank; ++d) {
    shape.push_back(a.shape(0)[axes[d]]);
    index[axes[d]] = iterator_affine(d);
  }
  bind_moved(a, std::move(shape), index);
}

// The result's shape and type; the pieces are one for each part.
std::pair<Shape, DType> concat_type(const CallArguments& a, size_t axis) {
  Shape shape = a.shape(0);
  DType type = a.type(0);
  for (size_t t = 1; t < a.tensor_count(); ++t) {
    Shape part = a.shape(t), like = shape;
    bool fits = part.size() == shape.size();
    if (fits) {
      part[axis] = like[axis] = 0;
      fits = part == like;
    }
    std::optional<DType> common = promote(type, a.type(t));
    if (!fits || !common) {
      a.fail_at(a.tensor_span(t), fits ? "type" : "shape",
                "concat along axis " + std::to_string(axis) + " cannot join " +
                    a.context.name(a.tensor(t)) + ", " + std::string(to_string(a.type(t))) +
                    shape_text(a.shape(t)) + ", to " + a.context.name(a.tensor(0)) + ", " +
                    std::string(to_string(a.type(0))) + shape_text(a.shape(0)));
    }
    shape[axis] = checked_add(shape[axis], a.shape(t)[axis]);
    type = *common;
  }
  return {shape, type};
}

void bind_concat(const CallArguments& a) {
  size_t axis = a.axis(0, a.rank(0));
  auto [shape, type] = concat_type(a, axis);
  DType cells = accumulator_type(Aggregation::assign, type);
  Contraction contraction;
  contraction.outputs = {a.result()};
  contraction.accumulator = cells;
  contraction.span = a.statement.span;
  int64_t offset = 0;
  for (size_t t = 0; t < a.tensor_count(); ++t) {
    Piece piece = pointwise_piece(a.result(), shape.size());
    piece.stores[0].index[axis].affine.constant = offset;
    piece.loads.push_back(make_access(a.tensor(t), iterator_forms(shape.size()), a.tensor_span(t)));
    copy_first_load(piece, a.type(t), cells);
    contraction.pieces.push_back(std::move(piece));
    offset += a.shape(t)[axis];
  }
  a.context.declare(a.result(), type, shape, a.statement.span);
  a.context.add(std::move(contraction));
}

// Positions start, start + step, … before stop (after it, if step is negative); both are positions
// from the front, and a stop past the end is the end. The place before the front is where a
// negative step stops; starting there reads nothing, as the last position of an empty dimension
// does.
void bind_slice(const CallArguments& a) {
  size_t axis = a.axis(0, a.rank(0));
  int64_t size = a.shape(0)[axis], start = a.integer(1), stop = a.integer(2), step = a.integer(3);
  bool forward = step > 0;
  int64_t least = forward ? 0 : -1;
  if (step == 0 || start < least || stop < least || (!forward && start >= size)) {
    a.fail_at(a.statement.span, "slice",
              "slice of " + a.context.name(a.tensor(0)) + " along axis " + std::to_string(axis) +
                  " from " + std::to_string(start) + " to " + std::to_string(stop) + " by " +
                  std::to_string(step) + " is not inside its size " + std::to_string(size));
  }
  int64_t distance = forward ? std::min(stop, size) - start : start - stop;
  int64_t stride = forward ? step : checked_neg(step);
  Shape shape = a.shape(0);
  shape[axis] = distance <= 0 ? 0 : (distance - 1) / stride + 1;
  std::vector<Affine> index = iterator_forms(shape.size());
  index[axis] = index[axis] * Rational(step) + constant_affine(start);
  bind_moved(a, std::move(shape), index);
}

// The cells that slice would read from a tensor of the second one's shape.
void bind_unslice(const CallArguments& a) {
  size_t axis = a.axis(0, a.rank(1));
  Shape shape = a.shape(1);
  Piece piece = pointwise_piece(a.result(), shape.size());
  std::vector<Affine> cells = iterator_forms(shape.size());
  cells[axis] = cells[axis] * Rational(a.integer(3)) + constant_affine(a.integer(1));
  piece.stores = {make_access(a.result(), cells)};
  piece.loads.push_back(make_access(a.tensor(0), iterator_forms(a.rank(0)), a.tensor_span(0)));
  if (a.rank(0) != shape.size()) {
    a.fail_at(a.statement.span, "rank", "unslice needs two tensors of one rank");
  }
  copy_first_load(piece, a.type(0), accumulator_type(Aggregation::assign, a.type(0)));
  a.finish(a.type(0), std::move(shape), Aggregation::assign, std::move(piece));
}

void bind_permute_along(const CallArguments& a) {
  check_indices(a, a.context.name(a.tensor(0)));
  size_t axis = a.axis(0, a.rank(0));
  Shape shape = a.shape(0);
  if (a.shape(1) != shape) {
    a.fail_at(a.statement.span, "size",
              "permute_along needs two tensors of one shape, not " + shape_text(shape) + " and " +
                  shape_text(a.shape(1)));
  }
  Piece piece = pointwise_piece(a.result(), shape.size());
  std::vector<Affine> all = iterator_forms(shape.size());
  piece.loads.push_back(make_access(a.tensor(1), all, a.tensor_span(1)));
  NodeId place = clamped_index(piece.body, piece.body.load(0, a.type(1)), a.type(1),
                               std::max<int64_t>(shape[axis], 1));
  Access source = make_access(a.tensor(0), all, a.tensor_span(0));
  source.index[axis] = Index{};
  source.index[axis].value = 0;
  piece.loads.push_back(std::move(source));
  NodeId value = piece.body.load(1, a.type(0), {}, {place});
  piece.body.results = {piece.body.cast(value, accumulator_type(Aggregation::assign, a.type(0)))};
  a.finish(a.type(0), std::move(shape), Aggregation::assign, std::move(piece));
}

void bind_sort(const CallArguments& a, bool indices) {
  size_t axis = a.axis(0, a.rank(0));
  a.context.declare(a.result(), indices ? DType::i64 : a.type(0), a.shape(0), a.statement.span);
  a.context.add(
      Sort{a.tensor(0), a.result(), static_cast<int64_t>(axis), indices, a.statement.span});
}

void dispatch(const CallArguments& a) {
  switch (a.call.function) {
    case Function::shape:
      return bind_shape(a);
    case Function::index:
      return bind_index(a);
    case Function::reshape:
      return bind_reshape(a, a.all_sizes());
    case Function::reshape_like:
      return bind_reshape(a, a.shape(1));
    case Function::unslice:
      return bind_unslice(a);
    case Function::permute_along:
      return bind_permute_along(a);
    case Function::gather:
      return bind_gather(a);
    case Function::scatter:
      return bind_scatter(a);
    case Function::transpose:
      return bind_transpose(a);
    case Function::concat:
      return bind_concat(a);
    case Function::slice:
      return bind_slice(a);
    case Function::argmax:
      return bind_arg_extreme(a, Aggregation::max);
    case Function::argmin:
      return bind_arg_extreme(a, Aggregation::min);
    case Function::sort:
      return bind_sort(a, false);
    case Function::argsort:
      return bind_sort(a, true);
    case Function::cumsum:
      return bind_cumsum(a);
    case Function::prng_uniform:
      return bind_uniform(a);
    case Function::sum_to:
      return bind_sum_to(a);
  }
}

}  // namespace

void bind_call(BindContext& context, const Statement& statement, const Call& call) {
  dispatch(CallArguments{context, statement, call});
}

}  // namespace tile
