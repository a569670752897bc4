#include "core/language/lift/lower.h"

#include <algorithm>

#include "core/language/lift/boundaries.h"
#include "core/language/lift/statement_body.h"

namespace tile::lift {
namespace {

std::optional<Aggregation> aggregation_of(Op op) {
  switch (op) {
    case Op::add:
      return Aggregation::sum;
    case Op::mul:
      return Aggregation::product;
    case Op::max:
      return Aggregation::max;
    case Op::min:
      return Aggregation::min;
    default:
      return std::nullopt;
  }
}

std::string dimension_name(size_t d, size_t rank) {
  if (rank == 1) return "g";
  if (rank == 2) return d == 0 ? "y" : "x";
  if (rank == 3) return d == 0 ? "z" : d == 1 ? "y" : "x";
  return "d" + std::to_string(d);
}
std::string reduction_name(size_t r) {
  constexpr std::string_view kNames = "ijklmn";
  return r < kNames.size() ? std::string(1, kNames[r]) : "r" + std::to_string(r);
}

class StatementBuilder {
 public:
  StatementBuilder(Context& context, std::vector<ScalarPtr> results, const std::vector<Expr>& dims,
                   Span span)
      : context_(context), results_(std::move(results)), dims_(dims), span_(span) {}

  TensorId run(const std::string& name) {
    drop_unit_dimensions();
    output();
    if (results_.size() == 1) reductions();
    write_body();
    return add_statement(name);
  }

 private:
  // Loops of one trip need no index.
  void drop_unit_dimensions() {
    Substitution by;
    for (const Expr& dim : dims_) {
      Expr extent = context_.tidy(context_.extent(dim.name()));
      extents_.push_back(extent);
      if (extent.is_constant(1)) by.indices.emplace(dim.name(), Expr(0));
    }
    if (by.indices.empty()) return;
    for (ScalarPtr& s : results_) s = context_.substituted(s, by);
  }

  std::string unused(std::string name) const {
    auto taken = [&] {
      return context_.is_size(name) ||
             std::find(contraction_.indices.begin(), contraction_.indices.end(), name) !=
                 contraction_.indices.end();
    };
    while (taken()) name += "_";
    return name;
  }

  int add_index(const std::string& variable, const std::string& wanted) {
    auto slot = static_cast<int>(contraction_.indices.size());
    std::string name = unused(wanted);
    contraction_.indices.push_back(name);
    loops_.emplace(variable, LoopIndex{slot, Expr::variable(name)});
    return slot;
  }

  void output() {
    size_t rank = static_cast<size_t>(std::count_if(
        extents_.begin(), extents_.end(), [](const Expr& e) { return !e.is_constant(1); }));
    size_t counted = 0;
    for (size_t d = 0; d < dims_.size(); ++d) {
      contraction_.out_size.push_back(extents_[d]);
      if (extents_[d].is_constant(1)) {
        contraction_.out_index.push_back(0);
        continue;
      }
      int slot = add_index(dims_[d].name(), dimension_name(counted++, rank));
      contraction_.out_index.push_back(
          Expr::variable(contraction_.indices[static_cast<size_t>(slot)]));
    }
  }

  // Nested reductions by one operation are one contraction.
  void reductions() {
    contraction_.aggregation = Aggregation::assign;
    for (size_t r = 0; results_[0]->kind == ScalarKind::reduce; ++r) {
      const ScalarPtr s = results_[0];
      std::optional<Aggregation> aggregation = aggregation_of(s->op);
      internal_check(aggregation.has_value(), "lift: a reduction by another operation");
      if (r > 0 && aggregation != contraction_.aggregation) return;
      contraction_.aggregation = *aggregation;
      int slot = add_index(s->variable, reduction_name(r));
      Expr index = Expr::variable(contraction_.indices[static_cast<size_t>(slot)]);
      contraction_.constraints.push_back({index, context_.tidy(s->exprs[0]), s->span});
      if (s->exprs.size() > 1) {
        Expr last = context_.tidy(s->exprs[1]);
        std::map<std::string, Expr> names;
        for (const auto& [variable, loop] : loops_) names.emplace(variable, loop.name);
        contraction_.constraints.push_back(
            {substitute(last, names) - index, context_.tidy(s->exprs[0]), s->span});
      }
      results_[0] = s->args[0];
    }
  }

  void write_body() {
    if (results_.size() > 1) {
      contraction_.aggregation = Aggregation::assign;
      contraction_.components = static_cast<int>(results_.size());
    }
    StatementBody body(context_, loops_, contraction_.accesses);
    for (const ScalarPtr& s : results_) body.add_result(s);
    contraction_.body = std::move(body).finish();
    contraction_.typed = true;
    contraction_.out_span = span_;
  }

  TensorId add_statement(const std::string& name) {
    auto id = static_cast<TensorId>(context_.program.tensors.size());
    Tensor tensor;
    tensor.name = name;
    tensor.span = span_;
    context_.program.tensors.push_back(std::move(tensor));
    context_.shapes.resize(static_cast<size_t>(id));
    context_.shapes.push_back(extents_);
    Statement statement;
    statement.result = id;
    statement.span = span_;
    statement.what = std::move(contraction_);
    context_.program.statements.push_back(std::move(statement));
    return id;
  }

  Context& context_;
  std::vector<ScalarPtr> results_;
  std::vector<Expr> dims_, extents_;
  Span span_;
  std::map<std::string, LoopIndex> loops_;
  SymbolicContraction contraction_;
};

}  // namespace

TensorId lower(Context& context, std::vector<ScalarPtr> results, const std::vector<Expr>& dims,
               const std::string& name, Span span) {
  return StatementBuilder(context, std::move(results), dims, span).run(name);
}

}  // namespace tile::lift
