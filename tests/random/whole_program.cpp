#include "tests/random/whole_program.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "core/autodiff/differentiate.h"
#include "core/interpret/interpret.h"
#include "core/language/tile/tile.h"
#include "core/passes/bind/bind.h"
#include "core/simplify/expr.h"

namespace tile::test {
namespace {

bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_name(const std::string& text) {
  return !text.empty() && std::isupper(static_cast<unsigned char>(text[0])) != 0 &&
         std::all_of(text.begin(), text.end(), in_word);
}

// Calls `word` with each word of a text and `rest` with what lies between.
template <class Word, class Rest>
void split_words(const std::string& text, const Word& word, const Rest& rest) {
  size_t at = 0;
  while (at < text.size()) {
    size_t end = at;
    while (end < text.size() && in_word(text[end]) == in_word(text[at])) ++end;
    std::string part = text.substr(at, end - at);
    bool named = std::isalpha(static_cast<unsigned char>(part[0])) != 0;
    named ? word(part) : rest(part);
    at = end;
  }
}

std::set<std::string> declared(const WholeProgram& program) {
  std::set<std::string> names;
  for (const WholeInput& input : program.inputs) {
    for (const std::string& dim : input.dims) {
      if (is_name(dim)) names.insert(dim);
    }
  }
  return names;
}

std::string declaration(const WholeInput& input) {
  std::string text = input.name;
  for (size_t d = 0; d < input.dims.size(); ++d) {
    bool named = is_name(input.dims[d]);
    text += (d == 0 ? "[" : ", ");
    text += named ? input.dims[d] : std::to_string(input.values.shape[d]);
  }
  return text + (input.dims.empty() ? "[]" : "]");
}

HostTensor repeated(const HostTensor& from, const Shape& shape) {
  HostTensor t(from.type, shape);
  for (int64_t i = 0; i < t.count(); ++i) {
    int64_t rest = i, at = 0, stride = 1;
    for (size_t d = shape.size(); d-- > 0;) {
      int64_t size = std::max<int64_t>(1, from.shape[d]);
      at += rest % shape[d] % size * stride;
      stride *= size;
      rest /= shape[d];
    }
    t.set(i, at < from.count() ? from.at(at) : integer_scalar(1, t.type));
  }
  return t;
}

SourcePtr source_of(const std::string& text) {
  return std::make_shared<const Source>(Source{"whole.tile", text});
}

// Small whole numbers, the same for the same shape.
HostTensor seed_values(DType type, const Shape& shape) {
  HostTensor t(type, shape);
  for (int64_t i = 0; i < t.count(); ++i) t.set(i, integer_scalar((i * 5 + 1) % 4 - 1, type));
  return t;
}

}  // namespace

const WholeInput* WholeProgram::input(const std::string& name) const {
  auto at =
      std::find_if(inputs.begin(), inputs.end(), [&](const auto& i) { return i.name == name; });
  return at == inputs.end() ? nullptr : &*at;
}
const WholeStatement* WholeProgram::statement(const std::string& name) const {
  auto at = std::find_if(statements.begin(), statements.end(),
                         [&](const auto& s) { return s.result == name; });
  return at == statements.end() ? nullptr : &*at;
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  split_words(
      text, [&](const std::string& word) { words.push_back(word); }, [](const std::string&) {});
  return words;
}

std::string with_words(const std::string& text, const std::map<std::string, std::string>& words) {
  std::string result;
  split_words(
      text,
      [&](const std::string& word) {
        auto at = words.find(word);
        result += at == words.end() ? word : at->second;
      },
      [&](const std::string& rest) { result += rest; });
  return result;
}

std::string text_of(const WholeProgram& program) {
  std::set<std::string> names = declared(program);
  std::map<std::string, std::string> numbers;
  for (const auto& [name, size] : program.sizes) {
    if (!names.contains(name)) numbers[name] = std::to_string(size);
  }
  std::string text = "function (", outputs;
  for (const WholeInput& input : program.inputs) {
    text += (&input == program.inputs.data() ? "" : ", ") + declaration(input);
  }
  for (const std::string& name : program.outputs) {
    outputs += (outputs.empty() ? "" : ", ") + name;
  }
  text += ") -> (" + outputs + ") {\n";
  for (const WholeStatement& s : program.statements) {
    text += "  " + with_words(s.text, numbers) + ";\n";
  }
  return text + "}\n";
}

std::optional<int64_t> size_of(const std::string& dim, const Sizes& sizes) {
  return evaluate(parse_expr(dim), [&](std::string_view name) {
    auto at = sizes.find(name);
    return at == sizes.end() ? std::nullopt : std::optional<int64_t>(at->second);
  });
}

WholeProgram resized(const WholeProgram& program, const Sizes& sizes) {
  WholeProgram result = program;
  result.sizes = sizes;
  for (WholeInput& input : result.inputs) {
    Shape shape;
    for (const std::string& dim : input.dims) {
      std::optional<int64_t> size = size_of(dim, sizes);
      if (!size || *size < 0) fail(Stage::bind, "size", {}, "no size: " + dim);
      shape.push_back(*size);
    }
    if (shape != input.values.shape) input.values = repeated(input.values, shape);
  }
  return result;
}

WholeCase case_of(Program program, std::vector<HostTensor> inputs) {
  WholeCase c;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& t = program.tensors[program.inputs[i]];
    InputType type{inputs[i].type, inputs[i].shape, std::nullopt};
    if (t.parameter && is_integer(type.type)) type.value = inputs[i].at(0).i;
    c.drawn.types.push_back(type);
    c.names.push_back(t.name);
  }
  c.drawn.inputs = std::move(inputs);
  c.drawn.exact = false;
  c.exact.assign(program.outputs.size(), false);
  c.program = std::make_shared<const Program>(std::move(program));
  return c;
}

void differentiate(WholeCase& c, const WholeGradient& gradient) {
  BoundProgram bound =
      tile::bind(with_outputs(*c.program, std::vector{gradient.of}), c.drawn.types);
  const BoundTensor& of = bound.tensors[bound.outputs[0]];
  auto derived =
      std::make_shared<const Program>(tile::differentiate(*c.program, gradient.of, gradient.wrt));
  c.drawn.inputs.push_back(seed_values(of.type, of.shape));
  c.drawn.types.push_back({of.type, of.shape, std::nullopt});
  c.names.push_back("D" + gradient.of);
  c.exact.resize(derived->outputs.size(), false);
  c.drawn.exact = false;
  c.program = std::move(derived);
}

WholeCase case_of(const WholeProgram& program) {
  std::vector<HostTensor> inputs;
  for (const WholeInput& input : program.inputs) inputs.push_back(input.values);
  WholeCase c = case_of(parse_tile(source_of(text_of(program))), std::move(inputs));
  for (size_t o = 0; o < program.outputs.size(); ++o) {
    const WholeStatement* s = program.statement(program.outputs[o]);
    c.exact[o] = s != nullptr && s->exact;
  }
  c.drawn.exact = std::find(c.exact.begin(), c.exact.end(), false) == c.exact.end();
  for (const WholeGradient& gradient : program.gradients) differentiate(c, gradient);
  c.drawn.text = program.gradients.empty() ? text_of(program) : print(*c.program);
  return c;
}

}  // namespace tile::test
