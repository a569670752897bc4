// Symbolic contractions: sizes, rational index forms, bounded indices, types.
#include <algorithm>

#include "core/ir/scalar.h"
#include "core/passes/bind/bind_body.h"
#include "core/passes/bind/bind_context.h"
#include "core/passes/bind/flatten_access.h"
#include "core/passes/bind/index_node.h"
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

// Rule 4.6. The points are bounded exactly if the conditions' linear parts have full column rank:
// along a direction that they all leave at zero, a point can move without end.
class Boundedness {
 public:
  explicit Boundedness(size_t iterators) : n_(iterators) {}

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

  // An iterator that some unbounded direction moves: the last one, since outer indices come first.
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
  Boundedness boundedness(piece.iterators.size());
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
       "the index " + piece.iterators[*index] + " of " + context.name(output) +
           " is not bounded by the accesses and constraints",
       "add a constraint such as `" + piece.iterators[*index] + " < N`");
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
    find_ranges(shape);
    if (symbolic_.components != 0) shape.push_back(symbolic_.components);
    Piece piece = domain();
    DType type = symbolic_.typed ? typed_body(piece) : inferred_body(piece);
    context_.declare(output_, type, std::move(shape), symbolic_.out_span);
    check_bounded(context_, piece, output_, symbolic_.out_span);
    Contraction contraction = make_contraction(output_, symbolic_.aggregation,
                                               accumulator_type(symbolic_.aggregation, type),
                                               std::move(piece), symbolic_.out_span);
    contraction.outputs.assign(contraction.pieces[0].stores.size(), output_);
    contraction.promised_injective = symbolic_.no_defract;
    bind_default(contraction);
    context_.add(std::move(contraction));
  }

 private:
  Affine affine(Expr e, Span span) {
    if (!has_affine_form(e, symbolic_.indices)) {
      e = context_.with_sizes(e, symbolic_.indices, ranges_, output_, span);
      if (!has_affine_form(e, symbolic_.indices)) {
        fail(Stage::bind, "index", span,
             "the index " + to_string(e) + " of " + context_.name(output_) +
                 " is not linear: it cannot name the cell that a point writes");
      }
    }
    return context_.affine(e, symbolic_.indices, output_, span);
  }

  // What the domain says of single indices.
  void find_ranges(const Shape& shape) {
    auto note = [&](const Expr& e, int64_t size) {
      if (e.kind() != ExprKind::variable || size < 1) return;
      const std::vector<std::string>& names = symbolic_.indices;
      if (std::find(names.begin(), names.end(), e.name()) == names.end()) return;
      std::optional<Expr> known = ranges_.of[e.name()].hi;
      if (!known || known->value() >= size) ranges_.set(e.name(), 0, size - 1);
    };
    for (size_t d = 0; d < shape.size(); ++d) note(symbolic_.out_index[d], shape[d]);
    for (const SymbolicConstraint& k : symbolic_.constraints) {
      note(k.form, context_.integer(k.bound, output_, k.span));
    }
    for (const SymbolicAccess& a : symbolic_.accesses) {
      const Shape& read = context_.shape(a.tensor);
      check_rank(context_, a.tensor, a.index.size(), a.span);
      for (size_t d = 0; d < read.size(); ++d) {
        bool in_range = a.boundary.empty() || a.boundary[d] == Boundary::in_range;
        if (in_range && !is_value(a, d)) note(a.index[d], read[d]);
      }
    }
  }

  static bool is_value(const SymbolicAccess& a, size_t d) {
    return d < a.values.size() && a.values[d] >= 0;
  }

  Piece domain() {
    Piece piece;
    piece.iterators = IdVector<IteratorId, std::string>(symbolic_.indices);
    Access store;
    store.tensor = output_;
    store.span = symbolic_.out_span;
    for (const Expr& e : symbolic_.out_index) {
      Index index;
      index.affine = affine(e, symbolic_.out_span);
      store.index.push_back(std::move(index));
    }
    for (int c = 0; c < std::max(1, symbolic_.components); ++c) {
      piece.stores.push_back(store);
      if (symbolic_.components == 0) break;
      Index component;
      component.affine = constant_affine(c);
      piece.stores.back().index.push_back(std::move(component));
    }
    for (const SymbolicAccess& access : symbolic_.accesses) piece.loads.push_back(load(access));
    for (const SymbolicConstraint& constraint : symbolic_.constraints) {
      Constraint bound;
      bound.form = affine(constraint.form, constraint.span);
      bound.hi = std::max<int64_t>(0, context_.integer(constraint.bound, output_, constraint.span));
      piece.constraints.push_back(std::move(bound));
    }
    return piece;
  }

  Access load(const SymbolicAccess& given) {
    bool affine = true;
    for (size_t d = 0; d < given.index.size(); ++d) {
      affine = affine && (is_value(given, d) || has_affine_form(given.index[d], symbolic_.indices));
    }
    std::optional<SymbolicAccess> flat;
    if (!affine) {
      flat = flattened(context_, given, symbolic_.indices, ranges_);
    }
    const SymbolicAccess& symbolic = flat ? *flat : given;
    Access access;
    access.tensor = symbolic.tensor;
    access.span = symbolic.span;
    std::vector<Expr> computed;
    int operands = 0;
    for (int value : symbolic.values) operands = std::max(operands, value + 1);
    for (size_t d = 0; d < symbolic.index.size(); ++d) {
      Index index;
      if (d < symbolic.boundary.size()) index.boundary = symbolic.boundary[d];
      if (is_value(symbolic, d)) {
        index.value = symbolic.values[d];
      } else if (std::optional<Affine> form = affine_index(symbolic, d, index.boundary, computed)) {
        index.affine = std::move(*form);
      } else {
        index.value = operands + static_cast<int>(computed.size()) - 1;
      }
      access.index.push_back(std::move(index));
    }
    computed_.push_back(std::move(computed));
    return access;
  }

  // nullopt: no affine form; the expression is appended to `computed`.
  std::optional<Affine> affine_index(const SymbolicAccess& symbolic, size_t d, Boundary boundary,
                                     std::vector<Expr>& computed) {
    Expr e = symbolic.index[d];
    if (!has_affine_form(e, symbolic_.indices)) {
      e = context_.with_sizes(e, symbolic_.indices, ranges_, symbolic.tensor, symbolic.span);
      if (!has_affine_form(e, symbolic_.indices)) {
        computed.push_back(e);
        return std::nullopt;
      }
    }
    Affine form = context_.affine(e, symbolic_.indices, symbolic.tensor, symbolic.span);
    if (boundary != Boundary::in_range && !form.is_integral()) {
      fail(Stage::bind, "index", symbolic.span,
           "the index " + to_string(symbolic.index[d]) + " of " + context_.name(symbolic.tensor) +
               " is not a whole number for every point, which its boundary rule needs");
    }
    return form;
  }

  // The load with the values of its computed indices behind its own operands.
  NodeId complete_load(Body& body, Node load) {
    for (const Expr& e : computed_[load.slot]) {
      load.args.push_back(add_index_value(body, e, symbolic_.indices, ranges_, load.span));
    }
    return body.add(std::move(load));
  }

  // Returns the type of the result.
  DType inferred_body(Piece& piece) {
    internal_check(symbolic_.components == 0, "bind: components need a typed body");
    BodyTyping typing;
    for (const SymbolicAccess& access : symbolic_.accesses) {
      typing.load_types.push_back(context_.tensor(access.tensor).type);
    }
    typing.size = [&](const Expr& e, Span span) { return context_.integer(e, output_, span); };
    TypedBody typed = type_body(symbolic_.body, typing, [&](DType value) {
      return accumulator_type(symbolic_.aggregation, output_type(value));
    });
    piece.body = std::move(typed.body);
    bool computes = std::any_of(computed_.begin(), computed_.end(),
                                [](const std::vector<Expr>& list) { return !list.empty(); });
    if (computes) {
      piece.body = tidied(rewritten(piece.body, [&](Body& body, const Node& node) {
        return node.kind == NodeKind::load ? complete_load(body, node) : NodeId{-1};
      }));
    }
    return output_type(typed.value);
  }

  DType typed_body(Piece& piece) {
    const Body& given = symbolic_.body;
    internal_check(given.results.size() == piece.stores.size(), "bind: results and components");
    Body body = rewritten(given, [&](Body& to, const Node& node) -> NodeId {
      if (node.kind == NodeKind::size) {
        Scalar size = integer_scalar(context_.integer(node.expr, output_, node.span), node.type);
        return is_float(size.type) ? to.real(size.f, size.type, node.span)
                                   : to.integer(size.i, size.type, node.span);
      }
      if (node.kind != NodeKind::load) return NodeId();
      check_type(node);
      return complete_load(to, node);
    });
    DType type = given[given.results[0]].type;
    DType cells = accumulator_type(symbolic_.aggregation, type);
    for (NodeId& result : body.results) {
      internal_check(body[result].type == type, "bind: components of different types");
      result = body.cast(result, cells, body[result].span);
    }
    piece.body = tidied(body);
    return type;
  }

  void check_type(const Node& load) {
    const BoundTensor& t = context_.tensor(symbolic_.accesses[load.slot].tensor);
    if (t.type == load.type) return;
    fail(Stage::bind, "type", load.span,
         t.name + " is read as " + std::string(to_string(load.type)) + ", but it holds " +
             std::string(to_string(t.type)));
  }

  // Rule 4.8.
  DType output_type(DType value) const {
    bool adds =
        symbolic_.aggregation == Aggregation::sum || symbolic_.aggregation == Aggregation::product;
    return adds ? arithmetic_type(value) : value;
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
  Ranges ranges_;
  std::vector<std::vector<Expr>> computed_;  // for each load, indices that are not affine
};

}  // namespace

void bind_contraction(BindContext& context, const Statement& statement,
                      const SymbolicContraction& contraction) {
  ContractionBinder(context, statement, contraction).run();
}

}  // namespace tile
