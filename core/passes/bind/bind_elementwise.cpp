// Elementwise statements: NumPy broadcasting (rule 6.1); each becomes one `=` contraction.
#include <algorithm>

#include "core/passes/bind/bind_body.h"
#include "core/passes/bind/bind_context.h"

namespace tile {
namespace {

Span span_of_operand(const Elementwise& what, size_t slot, Span otherwise) {
  for (const Node& node : what.body.nodes) {
    if (node.kind == NodeKind::load && node.slot == slot) return node.span;
  }
  return otherwise;
}

// A dimension of a shape counted from the last; 1 where there is none.
int64_t size_from_end(const Shape& shape, size_t d) {
  return d < shape.size() ? shape[shape.size() - 1 - d] : 1;
}

class Broadcast {
 public:
  Broadcast(BindContext& context, const Statement& statement, const Elementwise& what)
      : context_(context), statement_(statement), what_(what) {}

  Shape shape() {
    size_t rank = 0;
    for (TensorId id : what_.operands) rank = std::max(rank, context_.shape(id).size());
    Shape result(rank, 1);
    for (size_t slot = 0; slot < what_.operands.size(); ++slot) {
      for (size_t d = 0; d < rank; ++d) join(slot, d, result[rank - 1 - d]);
    }
    return result;
  }

 private:
  void join(size_t slot, size_t d, int64_t& size) {
    int64_t other = size_from_end(context_.shape(what_.operands[slot]), d);
    if (other == size || other == 1) return;
    if (size != 1) impossible(slot, d, size);
    size = other;
  }

  [[noreturn]] void impossible(size_t slot, size_t d, int64_t size) {
    TensorId bad = what_.operands[slot], earlier = what_.operands[0];
    for (size_t s = 0; s < slot; ++s) {
      if (size_from_end(context_.shape(what_.operands[s]), d) == size) earlier = what_.operands[s];
    }
    fail(Stage::bind, "broadcast", span_of_operand(what_, slot, statement_.span),
         "the shapes " + shape_text(context_.shape(earlier)) + " of " + context_.name(earlier) +
             " and " + shape_text(context_.shape(bad)) + " of " + context_.name(bad) +
             " do not broadcast: " + std::to_string(size) + " against " +
             std::to_string(size_from_end(context_.shape(bad), d)),
         hint(context_.shape(earlier), context_.shape(bad)));
  }

  // What was summed over its last dimension lacks it.
  static std::string hint(const Shape& a, const Shape& b) {
    const Shape &shorter = a.size() < b.size() ? a : b, &longer = a.size() < b.size() ? b : a;
    bool leading = !shorter.empty() && shorter.size() < longer.size() &&
                   std::equal(shorter.begin(), shorter.end(), longer.begin());
    if (!leading) return "";
    return "shapes are aligned at their last dimensions: a sum over the last one that keeps its "
           "place is S[i, 0: M, 1] = +(A[i, j])";
  }

  BindContext& context_;
  const Statement& statement_;
  const Elementwise& what_;
};

// The operand's element for the result's cell (i0, i1, …).
Access broadcast_load(BindContext& context, TensorId operand, const Shape& result, Span span) {
  const Shape& shape = context.shape(operand);
  size_t missing = result.size() - shape.size();
  std::vector<Affine> index;
  for (size_t d = 0; d < shape.size(); ++d) {
    bool repeats = shape[d] == 1 && result[missing + d] != 1;
    index.push_back(repeats ? constant_affine(0) : iterator_affine(missing + d));
  }
  return make_access(operand, index, span);
}

}  // namespace

void bind_elementwise(BindContext& context, const Statement& statement, const Elementwise& what) {
  Shape shape = Broadcast(context, statement, what).shape();
  Piece piece = pointwise_piece(statement.result, shape.size());
  BodyTyping typing;
  typing.wraps_narrow = true;
  typing.size = [&](const Expr& e, Span span) {
    return context.integer(e, statement.result, span);
  };
  for (size_t slot = 0; slot < what.operands.size(); ++slot) {
    TensorId id = what.operands[slot];
    typing.load_types.push_back(context.tensor(id).type);
    piece.loads.push_back(
        broadcast_load(context, id, shape, span_of_operand(what, slot, statement.span)));
  }
  TypedBody typed = type_body(
      what.body, typing, [](DType value) { return accumulator_type(Aggregation::assign, value); });
  piece.body = std::move(typed.body);
  context.declare(statement.result, typed.value, std::move(shape), statement.span);
  context.add(make_contraction(statement.result, Aggregation::assign,
                               accumulator_type(Aggregation::assign, typed.value), std::move(piece),
                               statement.span));
}

}  // namespace tile
