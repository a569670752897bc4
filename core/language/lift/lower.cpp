#include "core/language/lift/lower.h"

#include <algorithm>

#include "core/language/lift/boundaries.h"
#include "core/language/lift/statement_body.h"

namespace tile::lift {
namespace {

bool is_size_expression(const Expr& e) {
  std::vector<std::string> used;
  collect_variables(e, used);
  return std::none_of(used.begin(), used.end(), [](const std::string& s) { return s[0] == '$'; });
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
  StatementBuilder(Context& context, std::vector<ScalarPtr> results,
                   const std::vector<ResultDimension>& dims, Span span)
      : context_(context), results_(std::move(results)), dims_(dims), span_(span) {}

  TensorId run(const std::string& name) {
    drop_unit_loops();
    output();
    if (results_.size() == 1) reductions();
    write_body();
    return add_statement(name);
  }

 private:
  // Loops of one trip need no index.
  void drop_unit_loops() {
    Substitution by;
    for (const ResultDimension& dim : dims_) {
      extents_.push_back(context_.tidy(dim.size));
      for (const Expr& loop : dim.loops) {
        if (is_unit(loop)) by.indices.emplace(loop.name(), Expr(0));
      }
    }
    if (by.indices.empty()) return;
    for (ScalarPtr& s : results_) s = context_.substituted(s, by);
  }
  Expr trips(const Expr& loop) const { return context_.tidy(context_.extent(loop.name())); }
  bool is_unit(const Expr& loop) const { return trips(loop).is_constant(1); }

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
    std::vector<Expr> loops;
    for (const ResultDimension& dim : dims_) {
      for (const Expr& loop : dim.loops) {
        if (!is_unit(loop)) loops.push_back(loop);
      }
    }
    for (size_t l = 0; l < loops.size(); ++l) {
      add_index(loops[l].name(), dimension_name(l, loops.size()));
    }
    for (const ResultDimension& dim : dims_) output_dimension(dim);
    contraction_.out_size = extents_;
  }

  void output_dimension(const ResultDimension& dim) {
    std::map<std::string, Expr> names;
    for (const Expr& loop : dim.loops) {
      auto found = loops_.find(loop.name());
      names.emplace(loop.name(), found == loops_.end() ? Expr(0) : found->second.name);
      // A position made of several loops does not bound them.
      bool bounded = dim.loops.size() == 1 || found == loops_.end();
      if (!bounded) contraction_.constraints.push_back({found->second.name, trips(loop), span_});
    }
    contraction_.out_index.push_back(context_.tidy(substitute(dim.index, names)));
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
      Expr index = Expr::variable(contraction_.indices[slot]);
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
    auto id = TensorId(context_.program.tensors.size());
    Tensor tensor;
    tensor.name = name;
    tensor.span = span_;
    context_.program.tensors.push_back(std::move(tensor));
    context_.shapes.resize(id.index());
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
  std::vector<ResultDimension> dims_;
  std::vector<Expr> extents_;
  Span span_;
  std::map<std::string, LoopIndex> loops_;
  SymbolicContraction contraction_;
};

}  // namespace

ResultDimension plain_dimension(const Context& context, const Expr& loop) {
  return {{loop}, loop, context.extent(loop.name())};
}

ResultDimension row_dimension(Context& context, const Value& array) {
  ResultDimension dim;
  dim.size = array.length();
  Expr outer = array.length();
  for (const Expr& length : array.array->rows) outer = exact_div(outer, length);
  std::vector<Expr> counts = {context.tidy(outer)};
  counts.insert(counts.end(), array.array->rows.begin(), array.array->rows.end());
  for (const Expr& count : counts) {
    dim.loops.push_back(context.fresh(count));
    dim.index = dim.index * count + dim.loops.back();
  }
  return dim;
}

namespace {

bool has_quotient(const Expr& e) {
  bool own = e.kind() == ExprKind::trunc_div || e.kind() == ExprKind::trunc_mod ||
             e.kind() == ExprKind::floor_div || e.kind() == ExprKind::floor_mod;
  if (own && !is_size_expression(e)) return true;
  return std::any_of(e.args().begin(), e.args().end(), has_quotient);
}

// Bind joins dimensions that the index runs through in a row; then no quotient is left.
bool load_needs_quotients(const Context& context, const Scalar& s) {
  const std::vector<Expr>& shape = context.shapes[s.tensor];
  Expr flat = 0;
  bool bounded = false, quotient = false;
  for (size_t d = 0; d < s.exprs.size(); ++d) {
    std::optional<BoundedIndex> rule = find_bounded_index(s.exprs[d], shape[d]);
    Expr index = context.tidy(rule ? rule->raw : s.exprs[d]);
    bounded = bounded || rule.has_value();
    quotient = quotient || has_quotient(index);
    flat = flat * shape[d] + index;
  }
  return quotient && (bounded || has_quotient(context.tidy(flat)));
}

bool search_quotients(const Context& context, const Scalar& s, std::set<const Scalar*>& seen) {
  if (s.free.empty() || !seen.insert(&s).second) return false;
  if (s.kind == ScalarKind::load && load_needs_quotients(context, s)) return true;
  if (s.kind == ScalarKind::index && has_quotient(context.tidy(s.exprs[0]))) return true;
  return std::any_of(s.args.begin(), s.args.end(),
                     [&](const ScalarPtr& arg) { return search_quotients(context, *arg, seen); });
}

}  // namespace

bool needs_quotients(const Context& context, const Scalar& s) {
  std::set<const Scalar*> seen;
  return search_quotients(context, s, seen);
}

TensorId lower(Context& context, std::vector<ScalarPtr> results,
               const std::vector<ResultDimension>& dims, const std::string& name, Span span) {
  return StatementBuilder(context, std::move(results), dims, span).run(name);
}

}  // namespace tile::lift
