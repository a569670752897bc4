#include "core/language/mfg/elaborate.h"

#include <algorithm>
#include <utility>

#include "core/language/mfg/builtin_names.h"
#include "core/language/mfg/mfg.h"

namespace tile::mfg {
namespace {

bool is_input_name(std::string_view name) { return name.starts_with("input_"); }

// input_u8 and input_u16 hold B, G, R, A; other inputs one number of the type in the name's end.
Type input_element(std::string_view name) {
  if (name == "input_u8") return tuple_type(std::vector<DType>(4, DType::u8));
  if (name == "input_u16") return tuple_type(std::vector<DType>(4, DType::u16));
  std::string_view suffix = name.substr(name.rfind('_') + 1);
  return scalar_type(parse_scalar(suffix).value_or(DType::f32));
}

}  // namespace

Program Elaborator::program() {
  out_.source = source_;
  frames_.literal = [this](TensorId id, std::span<const int64_t> index) {
    return literal_element(id, index);
  };
  for (const DeclarationSyntax& d : syntax_.declarations) {
    if (d.kind == DeclarationKind::parameter) declare_parameter(d.parameter);
  }
  find_inputs();
  add_inputs();
  for (const DeclarationSyntax& d : syntax_.declarations) {
    if (d.kind == DeclarationKind::let) declare_let(d.statement);
    if (d.kind == DeclarationKind::function) declare_function(d);
    if (d.kind == DeclarationKind::definition) define(d.statement.definition);
  }
  choose_outputs();
  return std::move(out_);
}

// The inputs are the names that start with `input_`. The rank of one of our own follows from the
// number of indices that it, or a sampler of it, is given.
void Elaborator::find_inputs() {
  std::map<std::string_view, std::string_view> samplers;
  for (const DeclarationSyntax& d : syntax_.declarations) {
    if (d.kind != DeclarationKind::let || d.statement.value < 0) continue;
    const Syntax& value = at(d.statement.value);
    if (value.kind == SyntaxKind::sampler && d.statement.names.size() == 1) {
      samplers[d.statement.names[0].text] = value.text;
    }
  }
  for (const Syntax& node : syntax_.nodes) {
    std::string_view name = node.text;
    auto sampler = samplers.find(name);
    if (sampler != samplers.end()) name = sampler->second;
    if (!is_input_name(name)) continue;
    int rank = 0;
    bool splat = std::any_of(node.args.begin(), node.args.end(),
                             [&](SyntaxId a) { return at(a).kind == SyntaxKind::splat; });
    if (node.kind == SyntaxKind::call && !splat) rank = static_cast<int>(node.args.size());
    bool walks = node.member == "sum" || node.member == "for_each";
    if (node.kind == SyntaxKind::method && walks && node.block >= 0) {
      rank = static_cast<int>(block_at(node.block).parameters.size()) - 1;
    }
    bool names_tensor = node.kind == SyntaxKind::call || node.kind == SyntaxKind::method ||
                        node.kind == SyntaxKind::name || node.kind == SyntaxKind::sampler ||
                        node.kind == SyntaxKind::tensor_reduce;
    if (names_tensor) note_input(name, rank, node.span);
  }
  bool sized_by_input = std::any_of(
      syntax_.declarations.begin(), syntax_.declarations.end(), [](const DeclarationSyntax& d) {
        const DefinitionSyntax& def = d.statement.definition;
        return d.kind == DeclarationKind::definition && !def.bounds &&
               (def.name.text == "result_u8" || def.name.text == "result_u16");
      });
  if (sized_by_input && input_names_.empty()) note_input("input_u8", 2, {});
}

void Elaborator::note_input(std::string_view name, int rank, Span span) {
  if (!input_ranks_.contains(name)) input_names_.emplace_back(name, span);
  int& known = input_ranks_[name];
  if (known == 0 && (rank == 1 || rank == 2)) known = rank;
}

void Elaborator::add_inputs() {
  for (auto& [name, span] : input_names_) {
    bool picture = name == "input_u8" || name == "input_u16" || name == "input_f32";
    int rank = picture || input_ranks_[name] == 0 ? 2 : input_ranks_[name];
    add_input(name, rank, span);
  }
}

void Elaborator::add_input(std::string_view name, int rank, Span span) {
  TensorInfo info;
  info.name = name;
  info.rank = rank;
  info.element = input_element(name);
  if (rank > 0) info.extents.push_back(Expr::variable(info.name + ".width"));
  if (rank > 1) info.extents.push_back(Expr::variable(info.name + ".height"));
  TensorId id = add_tensor(info.name, span);
  Tensor& tensor = out_.tensors[id];
  tensor.ranked = true;
  tensor.dims.assign(info.extents.rbegin(), info.extents.rend());
  if (info.element.tuple) tensor.dims.emplace_back(static_cast<int>(info.element.size()));
  tensor.dim_spans.assign(tensor.dims.size(), span);
  tensor.type = info.element.parts[0];
  info.ids = {id};
  out_.inputs.push_back(id);
  globals_.emplace(name, std::move(info));
}

// A parameter is an input of rank 0, or of rank 1 for a vector.
void Elaborator::declare_parameter(const ParamSyntax& p) {
  TensorInfo info;
  info.name = p.name.text;
  info.rank = 0;
  auto count = static_cast<size_t>(std::max(1, p.components));
  info.element =
      p.components == 0 ? scalar_type(p.type) : tuple_type(std::vector<DType>(count, p.type));
  TensorId id = add_tensor(info.name, p.name.span);
  RuntimeParameter parameter;
  parameter.type = p.type;
  parameter.init = p.init;
  if (parameter.init.empty()) parameter.init.assign(count, p.min.value_or(0));
  if (parameter.init.size() != count) {
    fail(Stage::parse, "type", p.name.span,
         "the parameter '" + info.name + "' needs " + std::to_string(count) +
             " initial values, found " + std::to_string(parameter.init.size()));
  }
  parameter.min = p.min;
  parameter.max = p.max;
  parameter.label = p.label;
  Tensor& tensor = out_.tensors[id];
  tensor.ranked = true;
  if (p.components > 0) {
    tensor.dims.emplace_back(p.components);
    tensor.dim_spans.push_back(p.name.span);
  }
  tensor.type = p.type;
  tensor.parameter = std::move(parameter);
  info.ids = {id};
  out_.inputs.push_back(id);
  declare(p.name.text, p.name.span, std::move(info));
}

void Elaborator::declare_let(const StatementSyntax& s) {
  fresh_body();
  Binding value = let_value(s.value);  // checks it; uses evaluate it again where they stand
  if (s.pattern) {
    bind_let(s);
    for (size_t i = 0; i < s.names.size(); ++i) {
      if (s.names[i].text == "_") continue;
      declare(s.names[i].text, s.names[i].span, GlobalLet{&s, static_cast<int>(i)});
    }
    return;
  }
  declare(s.names[0].text, s.names[0].span, GlobalLet{&s, -1});
}

// Functions are written out where they are called; the declaration checks the block once.
void Elaborator::declare_function(const DeclarationSyntax& d) {
  Function function;
  function.block = d.block;
  const BlockSyntax& block = block_at(d.block);
  fresh_body();
  std::vector<Argument> arguments;
  for (const ParameterSyntax& p : block.parameters) {
    std::optional<Type> type = parse_type(p.type.text);
    if (!type) {
      fail(Stage::parse, "type", p.type.span,
           "expected a type such as i32 or f32v3, found '" + std::string(p.type.text) + "'",
           foreign_type_hint(p.type.text));
    }
    function.parameters.push_back(*type);
    // Stands for any value of the type: a size that no tensor has.
    Value any;
    any.type = *type;
    for (DType part : type->parts) {
      Ref unknown = frames_.size(Expr::variable(std::string(p.name.text) + ".any"));
      any.parts.push_back(frames_.cast(unknown, compute_type(part)));
    }
    arguments.push_back({p.name, std::move(any)});
  }
  function_ = d.name.text;
  run_block(d.block, arguments);
  function_ = {};
  declare(d.name.text, d.name.span, function);
}

void Elaborator::check_new_name(std::string_view name, Span span) const {
  std::string quoted = "'" + std::string(name) + "'";
  if (is_input_name(name)) {
    fail(Stage::parse, "name", span,
         quoted + " is an input: names that start with input_ are not defined");
  }
  if (globals_.contains(name)) {
    fail(Stage::parse, "name", span, quoted + " is defined already", "every name is defined once");
  }
}

void Elaborator::declare(std::string_view name, Span span, Global global) {
  check_new_name(name, span);
  if (std::holds_alternative<Function>(global) && is_builtin_function(name)) {
    fail(Stage::parse, "name", span, "'" + std::string(name) + "' is a built-in function");
  }
  globals_.emplace(name, std::move(global));
}

TensorId Elaborator::add_tensor(std::string name, Span span) {
  Tensor tensor;
  tensor.name = std::move(name);
  tensor.span = span;
  return out_.tensors.add(std::move(tensor));
}

// A new outermost body: values of the last one are gone.
void Elaborator::fresh_body() {
  auto literal = std::move(frames_.literal);
  frames_ = Frames();
  frames_.literal = std::move(literal);
  scopes_.clear();
  scopes_.emplace_back();
  global_values_.clear();
  pixel_.clear();
  extents_.clear();
  counters_.clear();
  calls_.clear();
  depth_ = 0;
}

// result_* where there is one, else every tensor; the others may be asked for by name.
void Elaborator::choose_outputs() {
  std::vector<TensorId> results, computed, all;
  for (const Statement& s : out_.statements) {
    const std::string& name = out_.tensors[s.result].name;
    if (name.starts_with("result_")) results.push_back(s.result);
    if (!std::holds_alternative<Literal>(s.what)) computed.push_back(s.result);
    all.push_back(s.result);
  }
  if (all.empty()) {
    fail(Stage::parse, "syntax", {}, "expected a tensor definition: the program has none",
         "write def result_u8 |x, y| {…}");
  }
  out_.outputs = !results.empty() ? results : !computed.empty() ? computed : all;
  for (TensorId id : out_.outputs) {
    out_.output_spans.push_back(out_.tensors[id].span);
  }
}

}  // namespace tile::mfg

namespace tile {

Program parse_mfg(SourcePtr source) {
  mfg::ProgramSyntax syntax = mfg::parse_syntax(source->text);
  return mfg::Elaborator(std::move(source), std::move(syntax)).program();
}

}  // namespace tile
