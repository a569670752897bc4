// Tensors written out in the program become constants; one that the program returns is a copy.
#include "core/ir/scalar.h"
#include "core/passes/bind/bind_context.h"

namespace tile {
namespace {

std::shared_ptr<const std::vector<std::byte>> elements(const Literal& literal, size_t count) {
  bool real = is_float(literal.type);
  internal_check((real ? literal.reals.size() : literal.integers.size()) == count,
                 "bind: a literal with more or fewer elements than its shape");
  std::vector<std::byte> bytes(count * byte_size(literal.type));
  for (size_t i = 0; i < count; ++i) {
    Scalar value = real ? real_scalar(literal.reals[i], literal.type)
                        : integer_scalar(literal.integers[i], literal.type);
    store_element(&bytes[i * byte_size(literal.type)], value);
  }
  return std::make_shared<const std::vector<std::byte>>(std::move(bytes));
}

}  // namespace

void bind_literal(BindContext& context, const Statement& statement, const Literal& literal) {
  TensorId result = statement.result;
  context.declare(result, literal.type, literal.shape, statement.span);
  auto bytes = elements(literal, static_cast<size_t>(element_count(literal.shape)));
  if (context.tensor(result).role != TensorRole::output) {
    context.edit(result).constant = std::move(bytes);
    return;
  }
  TensorId value =
      context.temporary(result, "literal", literal.type, literal.shape, statement.span);
  context.edit(value).constant = std::move(bytes);
  size_t rank = literal.shape.size();
  Piece piece = pointwise_piece(result, rank);
  piece.loads.push_back(make_access(value, iterator_forms(rank), statement.span));
  DType cells = accumulator_type(Aggregation::assign, literal.type);
  piece.body.results = {piece.body.cast(piece.body.load(0, literal.type), cells)};
  context.add(
      make_contraction(result, Aggregation::assign, cells, std::move(piece), statement.span));
}

}  // namespace tile
