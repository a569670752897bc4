#include "core/language/tile/elaborate.h"

#include <utility>

#include "core/language/tile/tile.h"
#include "core/support/control.h"

namespace tile {

std::string Elaborator::quoted(Span span) const {
  constexpr size_t kMaxShown = 60;
  std::string_view text = text_of(source_->text, span);
  std::string shown(text.substr(0, kMaxShown));
  if (text.size() > kMaxShown) shown += "…";
  return "'" + shown + "'";
}

Program Elaborator::program() {
  out_.source = source_;
  inputs();
  for (const StatementSyntax& s : syntax_.statements) statement(s);
  outputs();
  return std::move(out_);
}

void Elaborator::inputs() {
  for (const InputSyntax& input : syntax_.inputs) {
    if (input.dims.size() > kMostDimensions) {
      fail(Stage::parse, "limit", input.name.span,
           "input '" + std::string(input.name.text) + "' has more than " +
               std::to_string(kMostDimensions) + " dimensions");
    }
    auto id = TensorId(out_.tensors.size());
    Tensor tensor;
    tensor.name = input.name.text;
    tensor.span = input.name.span;
    tensor.ranked = input.ranked;
    int rank = input.ranked ? static_cast<int>(input.dims.size()) : -1;
    names_.declare_tensor(input.name.text, {Symbol::Kind::input, id, rank, input.name.span});
    for (const DimensionSyntax& dim : input.dims) {
      if (!dim.name.empty()) names_.declare_dimension(dim.name, dim.span);
      tensor.dims.push_back(dim.name.empty() ? Expr(dim.size)
                                             : Expr::variable(std::string(dim.name)));
      tensor.dim_spans.push_back(dim.span);
    }
    out_.tensors.push_back(std::move(tensor));
    out_.inputs.push_back(id);
    ranks_.push_back(rank);
    following_ranks_.push_back(rank);
  }
}

// Rule 2.3: every output is assigned by a statement.
void Elaborator::outputs() {
  for (const NameSyntax& output : syntax_.outputs) {
    const Symbol* symbol = names_.find(output.text);
    std::string name = "'" + std::string(output.text) + "'";
    if (symbol == nullptr) {
      fail(Stage::parse, "name", output.span, "output " + name + " is never assigned");
    }
    if (symbol->kind == Symbol::Kind::dimension) {
      fail(Stage::parse, "name", output.span, "output " + name + " is a dimension, not a tensor");
    }
    if (symbol->kind == Symbol::Kind::input) {
      fail(Stage::parse, "name", output.span,
           "output " + name + " is an input and is never assigned",
           "assign it to a new tensor, as in O = " + std::string(output.text) + ";");
    }
    out_.outputs.push_back(symbol->tensor);
    out_.output_spans.push_back(output.span);
  }
}

void Elaborator::statement(const StatementSyntax& s) {
  checkpoint_at(s.span);
  base_ = s.result.text;
  Result result{std::string(s.result.text), s.result.span, s.span, s.attributes};
  if (s.contraction) {
    contraction(std::move(result), *s.contraction);
  } else {
    assign(std::move(result), s.value);
  }
}

TensorId Elaborator::emit(Result result, StatementKind what, int rank) {
  auto id = TensorId(out_.tensors.size());
  if (result.name.empty()) result.name = names_.fresh(base_);
  names_.declare_tensor(result.name, {Symbol::Kind::assigned, id, rank, result.span});
  Tensor tensor;
  tensor.name = std::move(result.name);
  tensor.span = result.span;
  out_.tensors.push_back(std::move(tensor));
  ranks_.push_back(rank);
  following_ranks_.push_back(rank >= 0 ? rank : following_rank(what));
  out_.statements.push_back({id, result.statement, std::move(result.attributes), std::move(what)});
  return id;
}

// TENSOR = expr
TensorId Elaborator::assign(Result result, SyntaxId value) {
  if (is_tensor_call(at(value))) return assign_call(std::move(result), value);
  ScalarScope scope{.kind = ScalarScope::Kind::elementwise};
  NodeId root = scalar(scope, value);
  scope.body.results = {root};
  return emit(std::move(result), Elementwise{std::move(scope.operands), tidied(scope.body)}, -1);
}

// Rule 2.4 for the output, and rule 2.1: sizes may be left out for rank 0 only.
void Elaborator::check_out_ranks(const ContractionSyntax& s, std::string_view name) const {
  std::string tensor = "'" + std::string(name) + "'";
  auto count = [](size_t n, std::string_view one, std::string_view many) {
    return std::to_string(n) + " " + std::string(n == 1 ? one : many);
  };
  if (!s.index.empty() && !s.sized) {
    fail(Stage::parse, "rank", s.out_span, "the output " + tensor + " has indices but no sizes",
         "sizes follow the indices after a colon, as in O[i: N]");
  }
  if (s.index.size() != s.size.size()) {
    fail(Stage::parse, "rank", s.out_span,
         "the output " + tensor + " has " + count(s.index.size(), "index", "indices") + " but " +
             count(s.size.size(), "size", "sizes"));
  }
  if (s.index.size() > kMostDimensions) {
    fail(Stage::parse, "limit", s.out_span,
         "the output " + tensor + " has more than " + std::to_string(kMostDimensions) +
             " dimensions");
  }
}

TensorId Elaborator::contraction(Result result, const ContractionSyntax& s) {
  check_out_ranks(s, result.name);
  SymbolicContraction c;
  contraction_ = &c;
  slot_of_index_.clear();
  c.aggregation = s.aggregation;
  c.no_defract = s.no_defract;
  c.out_span = s.out_span;
  for (SyntaxId index : s.index) c.out_index.push_back(index_expression(index));
  for (SyntaxId size : s.size) c.out_size.push_back(size_expression(size));
  ScalarScope scope{.kind = ScalarScope::Kind::contraction};
  NodeId root = scalar(scope, s.body);
  scope.body.results = {root};
  c.body = tidied(scope.body);
  for (const ConstraintSyntax& constraint : s.constraints) {
    Expr form = index_expression(constraint.form);
    Expr bound = size_expression(constraint.bound);
    c.constraints.push_back(
        {form, bound, {at(constraint.form).span.begin, at(constraint.bound).span.end}});
  }
  if (s.default_tensor) {
    c.default_tensor = names_.tensor(s.default_tensor->text, s.default_tensor->span).tensor;
    c.default_span = s.default_tensor->span;
  }
  contraction_ = nullptr;
  return emit(std::move(result), std::move(c), static_cast<int>(s.index.size()));
}

Program parse_tile(SourcePtr source) {
  ProgramSyntax syntax = parse_syntax(source->text);
  return Elaborator(std::move(source), std::move(syntax)).program();
}

Body parse_scalar_expression(std::string_view text, std::span<const std::string_view> operands) {
  auto source = std::make_shared<const Source>(Source{"<expression>", std::string(text)});
  ProgramSyntax syntax = parse_expression_syntax(source->text);
  return Elaborator(std::move(source), std::move(syntax)).scalar_expression(operands);
}

}  // namespace tile
