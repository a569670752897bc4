#include "runtime/cli/lsp/analysis.h"

#include <algorithm>
#include <new>

#include "core/autodiff/differentiate.h"
#include "core/support/checked.h"
#include "core/warnings/warnings.h"
#include "runtime/engine/concurrency/call_control.h"

namespace tile::lsp {
namespace {

// work() with an end; what fails otherwise than by a Failure becomes one.
template <class Work>
std::optional<Diagnostic> bounded(Stage stage, const Work& work) {
  CallControl control(stage, nullptr, kSeconds);
  Limits limits;
  Controlled now(&control, &limits);
  try {
    work();
    return std::nullopt;
  } catch (const Failure& failure) {
    return failure.diagnostic();
  } catch (const Overflow& overflow) {
    return Diagnostic{stage, "overflow", overflow.what(), "", {}};
  } catch (const InternalError& error) {
    return Diagnostic{stage, "internal", error.what(), "", {}};
  }
}

using Sizes = std::optional<std::vector<std::string>>;

// Symbolic shapes of a program's tensors, where they follow without knowing a size.
class Shapes {
 public:
  explicit Shapes(const Program& program) : program_(program) {
    shapes_.resize(program.tensors.size());
    for (TensorId id : program.inputs) {
      const Tensor& t = program.tensors[id];
      if (t.ranked || t.parameter) of(id) = texts(t.dims);
    }
    for (const Statement& s : program.statements) of(s.result) = shape_of(s);
  }
  Sizes& of(TensorId id) { return shapes_[id]; }

 private:
  static std::vector<std::string> texts(const std::vector<Expr>& sizes) {
    std::vector<std::string> out;
    for (const Expr& e : sizes) out.push_back(to_string(e));
    return out;
  }
  Sizes shape_of(const Statement& s) {
    if (const auto* contraction = std::get_if<SymbolicContraction>(&s.what)) {
      std::vector<std::string> sizes = texts(contraction->out_size);
      if (contraction->components > 0) sizes.push_back(std::to_string(contraction->components));
      return sizes;
    }
    if (const auto* literal = std::get_if<Literal>(&s.what)) {
      std::vector<std::string> sizes;
      for (int64_t n : literal->shape) sizes.push_back(std::to_string(n));
      return sizes;
    }
    if (const auto* elementwise = std::get_if<Elementwise>(&s.what)) {
      return broadcast(elementwise->operands);
    }
    if (const auto* repeat = std::get_if<Repeat>(&s.what)) return of(repeat->operands.at(0));
    return called(std::get<Call>(s.what));
  }
  // Two sizes that are written differently may be equal or 1: only bind knows.
  Sizes broadcast(const std::vector<TensorId>& operands) {
    std::vector<std::string> result;
    for (TensorId id : operands) {
      if (!of(id)) return std::nullopt;
      std::vector<std::string> shape = *of(id);
      if (shape.size() > result.size()) std::swap(shape, result);
      size_t shift = result.size() - shape.size();
      for (size_t d = 0; d < shape.size(); ++d) {
        std::string& mine = result[shift + d];
        if (mine == shape[d] || shape[d] == "1") continue;
        if (mine != "1") return std::nullopt;
        mine = shape[d];
      }
    }
    return result;
  }
  Sizes called(const Call& call) {
    switch (call.function) {
      case Function::reshape:
      case Function::prng_uniform:
        return texts(call.sizes);
      case Function::index:
      case Function::sort:
      case Function::argsort:
      case Function::cumsum:
        return of(call.tensors[0]);
      default:
        return std::nullopt;
    }
  }

  const Program& program_;
  IdVector<TensorId, Sizes> shapes_;
};

std::string shape_text(const Sizes& shape) {
  if (!shape) return "";
  if (shape->empty()) return "[] (scalar)";
  std::string out;
  for (const std::string& size : *shape) out += (out.empty() ? "" : ", ") + size;
  return "[" + out + "]";
}

// Of a typed statement, as MFG and Lift make them, the type of its results.
std::string type_text(const Program& program, TensorId id) {
  const Tensor& t = program.tensors[id];
  if (t.type) return std::string(to_string(*t.type));
  for (const Statement& s : program.statements) {
    if (s.result != id) continue;
    if (const auto* literal = std::get_if<Literal>(&s.what)) {
      return std::string(to_string(literal->type));
    }
    if (const auto* repeat = std::get_if<Repeat>(&s.what)) {
      return type_text(*repeat->step, repeat->step->outputs.at(0));
    }
    const auto* contraction = std::get_if<SymbolicContraction>(&s.what);
    if (contraction == nullptr || !contraction->typed || contraction->body.results.empty()) break;
    const Body& body = contraction->body;
    return std::string(to_string(body.nodes[body.results[0]].type));
  }
  return "";
}

}  // namespace

Analysis analyse(Language language, const std::string& name, const std::string& text) {
  Analysis result;
  auto source = std::make_shared<Source>(Source{name, text});
  std::optional<Diagnostic> failed = bounded(Stage::parse, [&] {
    auto program = std::make_shared<Program>(parse(language, source));
    for (Diagnostic& d : warnings_of(*program)) result.diagnostics.push_back(std::move(d));
    result.program = std::move(program);
  });
  if (failed) result.diagnostics = {std::move(*failed)};
  return result;
}

std::string describe_tensor(const Program& program, const std::string& name) {
  std::optional<TensorId> id = program.find(name);
  if (!id) return "";
  auto listed = [&](const std::vector<TensorId>& list) {
    return std::find(list.begin(), list.end(), *id) != list.end();
  };
  std::string kind = program.tensors[*id].parameter ? "parameter"
                     : listed(program.inputs)       ? "input"
                     : listed(program.outputs)      ? "output"
                                                    : "tensor";
  std::string text = "`" + name + shape_text(Shapes(program).of(*id)) + "`";
  std::string type = type_text(program, *id);
  return kind + " " + text + (type.empty() ? "" : " of `" + type + "`");
}

std::optional<std::string> gradient_text(const Program& program, std::string& why) {
  std::vector<std::string> inputs;
  for (TensorId id : program.inputs) {
    const Tensor& t = program.tensors[id];
    bool integer = t.type && is_integer(*t.type);
    if (!integer) inputs.push_back(t.name);
  }
  if (inputs.empty() || program.outputs.empty()) {
    why = "no input of it has a gradient";
    return std::nullopt;
  }
  std::optional<std::string> text;
  std::optional<Diagnostic> failed = bounded(Stage::bind, [&] {
    const std::string& of = program.tensors[program.outputs[0]].name;
    text = print(differentiate(program, of, inputs));
  });
  if (failed) why = failed->message;
  return failed ? std::nullopt : text;
}

}  // namespace tile::lsp
