// Symbolic contractions: sizes, rational index forms, bounded indices, types.
#include <algorithm>

#include "core/passes/bind_body.h"
#include "core/passes/bind_context.h"
#include "core/support/checked.h"

namespace tile {
namespace {

void check_rank(BindContext& context, TensorId tensor, size_t given, Span span) {
  const Shape& shape = context.shape(tensor);
  if (shape.size() == given) return;
  fail(Stage::bind, "rank", span,
       context.name(tensor) + " has " + std::to_string(shape.size()) + " dimensions, shape " +
           shape_text(shape) + ", but is accessed with " + std::to_string(given) + " indices");
}

Access bind_access(BindContext& context, const SymbolicAccess& symbolic,
                   const std::vector<std::string>& indices) {
  check_rank(context, symbolic.tensor, symbolic.index.size(), symbolic.span);
  Access access;
  access.tensor = symbolic.tensor;
  access.span = symbolic.span;
  for (size_t d = 0; d < symbolic.index.size(); ++d) {
    Index index;
    index.affine = context.affine(symbolic.index[d], indices, symbolic.tensor, symbolic.span);
    if (d < symbolic.boundary.size()) index.boundary = symbolic.boundary[d];
    if (index.boundary != Boundary::in_range && !index.affine.is_integral()) {
      fail(Stage::bind, "index", symbolic.span,
           "the index " + to_string(symbolic.index[d]) + " of " + context.name(symbolic.tensor) +
               " is not a whole number for every point, which its boundary rule needs");
    }
    access.index.push_back(std::move(index));
  }
  return access;
}

// Rule 4.6. The points are bounded exactly if the conditions' linear parts have full column rank:
// along a direction that they all leave at zero, a point can move without end.
class Boundedness {
 public:
  explicit Boundedness(size_t unknowns) : n_(unknowns) {}

  void add(const Affine& form) {
    std::vector<Rational> row(n_);
    for (size_t i = 0; i < n_; ++i) row[i] = form.coefficient(i);
    for (const Row& known : rows_) eliminate(row, known);
    auto first =
        std::find_if(row.begin(), row.end(), [](const Rational& c) { return !c.is_zero(); });
    if (first == row.end()) return;
    Row fresh{static_cast<size_t>(first - row.begin()), std::move(row)};
    Rational lead = fresh.values[fresh.pivot];
    for (Rational& c : fresh.values) c = c / lead;
    for (Row& known : rows_) eliminate(known.values, fresh);
    rows_.push_back(std::move(fresh));
  }

  // An unknown that some unbounded direction moves: the last one, since outer indices come first.
  std::optional<size_t> unbounded() const {
    for (size_t i = n_; i-- > 0;) {
      bool pivot =
          std::any_of(rows_.begin(), rows_.end(), [&](const Row& r) { return r.pivot == i; });
      if (!pivot) return i;
    }
    return std::nullopt;
  }

 private:
  struct Row {
    size_t pivot;
    std::vector<Rational> values;
  };
  static void eliminate(std::vector<Rational>& row, const Row& by) {
    Rational factor = row[by.pivot];
    if (factor.is_zero()) return;
    for (size_t i = 0; i < row.size(); ++i) row[i] = row[i] - factor * by.values[i];
  }
  size_t n_;
  std::vector<Row> rows_;
};

void check_bounded(BindContext& context, const Piece& piece, TensorId output, Span span) {
  Boundedness boundedness(piece.unknowns.size());
  auto add_access = [&](const Access& access) {
    for (const Index& index : access.index) {
      if (index.value < 0 && index.boundary == Boundary::in_range) boundedness.add(index.affine);
    }
  };
  for (const Access& access : piece.stores) add_access(access);
  for (const Access& access : piece.loads) add_access(access);
  for (const Constraint& constraint : piece.constraints) boundedness.add(constraint.form);
  std::optional<size_t> index = boundedness.unbounded();
  if (!index) return;
  fail(Stage::bind, "unbounded", span,
       "the index " + piece.unknowns[*index] + " of " + context.name(output) +
           " is not bounded by the accesses and constraints",
       "add a constraint such as `" + piece.unknowns[*index] + " < N`");
}

class ContractionBinder {
 public:
  ContractionBinder(BindContext& context, const Statement& statement,
                    const SymbolicContraction& symbolic)
      : context_(context), symbolic_(symbolic), output_(statement.result) {}

  void run() {
    Shape shape;
    for (const Expr& size : symbolic_.out_size) {
      shape.push_back(context_.size(size, output_, symbolic_.out_span));
    }
    if (shape.size() != symbolic_.out_index.size()) {
      fail(Stage::bind, "rank", symbolic_.out_span,
           context_.name(output_) + " has " + std::to_string(symbolic_.out_index.size()) +
               " indices and " + std::to_string(shape.size()) + " sizes");
    }
    Piece piece = domain();
    TypedBody typed = body();
    piece.body = std::move(typed.body);
    DType type = output_type(typed.value);
    context_.declare(output_, type, std::move(shape), symbolic_.out_span);
    check_bounded(context_, piece, output_, symbolic_.out_span);
    Contraction contraction = make_contraction(output_, symbolic_.aggregation,
                                               accumulator_type(symbolic_.aggregation, type),
                                               std::move(piece), symbolic_.out_span);
    contraction.promised_injective = symbolic_.no_defract;
    bind_default(contraction);
    context_.add(std::move(contraction));
  }

 private:
  Piece domain() {
    Piece piece;
    piece.unknowns = symbolic_.indices;
    Access store;
    store.tensor = output_;
    store.span = symbolic_.out_span;
    for (const Expr& e : symbolic_.out_index) {
      Index index;
      index.affine = context_.affine(e, symbolic_.indices, output_, symbolic_.out_span);
      store.index.push_back(std::move(index));
    }
    piece.stores.push_back(std::move(store));
    for (const SymbolicAccess& access : symbolic_.accesses) {
      piece.loads.push_back(bind_access(context_, access, symbolic_.indices));
    }
    for (const SymbolicConstraint& constraint : symbolic_.constraints) {
      Constraint bound;
      bound.form = context_.affine(constraint.form, symbolic_.indices, output_, constraint.span);
      bound.hi = std::max<int64_t>(0, context_.integer(constraint.bound, output_, constraint.span));
      piece.constraints.push_back(std::move(bound));
    }
    return piece;
  }

  TypedBody body() {
    BodyTyping typing;
    for (const SymbolicAccess& access : symbolic_.accesses) {
      typing.load_types.push_back(context_.tensor(access.tensor).type);
    }
    typing.size = [&](const Expr& e, Span span) { return context_.integer(e, output_, span); };
    return type_body(symbolic_.body, typing, [&](DType value) {
      return accumulator_type(symbolic_.aggregation, output_type(value));
    });
  }

  // Rule 4.8.
  DType output_type(DType value) const {
    bool adds =
        symbolic_.aggregation == Aggregation::sum || symbolic_.aggregation == Aggregation::product;
    return adds && value == DType::bool_ ? DType::i32 : value;
  }

  // Rule 4.4.
  void bind_default(Contraction& contraction) {
    if (!symbolic_.default_tensor) return;
    const BoundTensor& fill = context_.tensor(*symbolic_.default_tensor);
    const BoundTensor& output = context_.tensor(output_);
    if (fill.type != output.type || fill.shape != output.shape) {
      fail(Stage::bind, "default", symbolic_.default_span,
           "the default " + fill.name + " is " + std::string(to_string(fill.type)) +
               shape_text(fill.shape) + ", but " + output.name + " is " +
               std::string(to_string(output.type)) + shape_text(output.shape));
    }
    contraction.fill = symbolic_.default_tensor;
  }

  BindContext& context_;
  const SymbolicContraction& symbolic_;
  TensorId output_;
};

}  // namespace

void bind_contraction(BindContext& context, const Statement& statement,
                      const SymbolicContraction& contraction) {
  ContractionBinder(context, statement, contraction).run();
}

}  // namespace tile
