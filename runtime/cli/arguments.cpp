#include "runtime/cli/arguments.h"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "core/ir/text.h"
#include "core/passes/bind/bind.h"
#include "core/support/nearest_name.h"
#include "runtime/cli/tensor_file.h"

namespace tile::cli {

namespace {

std::string lower_case(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::string trimmed(const std::string& text) {
  size_t begin = text.find_first_not_of(' ');
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

// "A=2x3,B=3x3" is taken for A alone: B would be missed, and A's value not understood.
void require_one_each(const std::map<std::string, std::string>& given,
                      const std::vector<std::string>& inputs, const std::string& flag) {
  for (const auto& [name, value] : given) {
    for (const std::string& item : items_of(value)) {
      std::string other = item.substr(0, item.find('='));
      bool is_input =
          other != item && std::find(inputs.begin(), inputs.end(), other) != inputs.end();
      if (is_input && !given.contains(other)) fail_for_several(name, value, other, flag);
    }
  }
}

// Of "OUTPUT:INPUT,…".
std::string output_of(const std::string& gradient) {
  return trimmed(gradient.substr(0, gradient.find(':')));
}

// As --in and --shape write it: "2x3".
std::string shape_text(const Shape& shape) {
  std::string text;
  for (int64_t extent : shape) text += (text.empty() ? "" : "x") + std::to_string(extent);
  return text.empty() ? "scalar" : text;
}

std::string seed_hint(const std::string& seed, const std::string& output,
                      const std::string& shape = "SHAPE") {
  return "the seed has the shape of " + output +
         ": the gradient of the final result with respect to each cell of " + output +
         "; ones where the final result is the sum of these cells: --in " + seed + "=ones:" + shape;
}

// How an input that is not given is: of what its declaration tells.
std::string missing_hint(const Program& program, TensorId input, const std::string& flag) {
  const Tensor& tensor = program.tensors[input];
  std::string start = "add " + flag + " " + tensor.name + "=";
  bool of_shape = flag == "--shape";
  if (!tensor.ranked) return start + "...";
  if (tensor.dims.empty()) return start + (of_shape ? "scalar" : "0.5, a number");
  std::string shape, names;
  for (const Expr& dim : tensor.dims) {
    shape += (shape.empty() ? "" : "x") + to_string(dim);
    if (!dim.is_constant()) names += (names.empty() ? "" : ", ") + to_string(dim);
  }
  std::string numbers = names.empty() ? "" : ", with numbers for " + names;
  return start + (of_shape ? shape : "FILE.npy or =random:" + shape) + numbers;
}

}  // namespace

std::vector<std::string> items_of(const std::string& list) {
  std::vector<std::string> items;
  std::istringstream rest(list);
  for (std::string item; std::getline(rest, item, ',');) items.push_back(trimmed(item));
  return items;
}

std::vector<std::string> feed_pairs(const std::vector<std::string>& given) {
  std::vector<std::string> pairs;
  for (const std::string& several : given) {
    for (std::string& pair : items_of(several)) pairs.push_back(std::move(pair));
  }
  return pairs;
}

void fail_for_several(const std::string& name, const std::string& value, const std::string& other,
                      const std::string& flag) {
  fail(Stage::run, "argument", {},
       "\"" + name + "=" + value + "\" is of several inputs: each has its own " + flag,
       flag + " " + name + "=... " + flag + " " + other + "=...");
}

std::string suggestion(const std::string& name, const std::vector<std::string>& known,
                       const std::string& prefix) {
  auto said = [&](std::string_view meant) {
    return "; did you mean " + prefix + std::string(meant) + "?";
  };
  for (const std::string& other : known) {
    if (lower_case(other) == lower_case(name)) return said(other);
  }
  std::optional<std::string_view> nearest = nearest_name(name, {known.begin(), known.end()});
  return nearest ? said(*nearest) : "";
}

[[noreturn]] void unknown_name(const std::string& what, const std::string& name,
                               const std::vector<std::string>& known) {
  fail(Stage::run, "argument", {},
       "the program has no " + what + " " + name + suggestion(name, known),
       "it has " + listed(known));
}

std::vector<std::string> input_names(const LoadedProgram& p) {
  std::vector<std::string> names;
  for (size_t i = 0; i < p.program().inputs.size(); ++i) names.push_back(input_name(p, i));
  return names;
}
std::vector<std::string> output_names(const LoadedProgram& p) {
  std::vector<std::string> names;
  for (size_t i = 0; i < p.program().outputs.size(); ++i) names.push_back(output_name(p, i));
  return names;
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

std::vector<std::string> values_by_input(const LoadedProgram& program,
                                         const std::vector<std::string>& pairs, const char* flag,
                                         const std::string& gradient) {
  std::map<std::string, std::string> given = named(pairs);
  std::vector<std::string> names = input_names(program), values;
  for (const auto& [name, value] : given) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      unknown_name("input", name, names);
    }
  }
  require_one_each(given, names, flag);
  for (size_t i = 0; i < program.program().inputs.size(); ++i) {
    auto it = given.find(input_name(program, i));
    if (it == given.end() && program.defaults()[i]) {
      values.emplace_back();
      continue;
    }
    if (it == given.end()) {
      bool seed = !gradient.empty() && i + 1 == program.program().inputs.size();
      fail(Stage::run, "argument", {},
           "input " + input_name(program, i) + (seed ? ", the seed," : "") + " is not given",
           seed ? seed_hint(input_name(program, i), output_of(gradient))
                : missing_hint(program.program(), program.program().inputs[i], flag));
    }
    values.push_back(it->second);
  }
  return values;
}

std::vector<std::optional<HostTensor>> parameters_of(const LoadedProgram& program,
                                                     const std::vector<std::string>& pairs) {
  std::vector<std::optional<HostTensor>> values = program.defaults();
  std::map<std::string, std::string> given = named(pairs);
  std::vector<std::string> names;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i]) continue;
    names.push_back(input_name(program, i));
    auto it = given.find(input_name(program, i));
    if (it == given.end()) continue;
    values[i] = parameter_value(input_tensor(program, i), it->second);
    given.erase(it);
  }
  if (!given.empty()) unknown_name("parameter", given.begin()->first, names);
  return values;
}

std::vector<size_t> numbers_of(const LoadedProgram& program,
                               const std::vector<std::string>& names) {
  std::vector<size_t> numbers;
  for (const std::string& name : names) {
    size_t i = 0;
    while (i < program.program().inputs.size() && input_name(program, i) != name) ++i;
    if (i == program.program().inputs.size()) unknown_name("input", name, input_names(program));
    numbers.push_back(i);
  }
  return numbers;
}

std::shared_ptr<LoadedProgram> with_gradient(const std::shared_ptr<LoadedProgram>& program,
                                             const std::string& request) {
  size_t colon = request.find(':');
  if (colon == std::string::npos) {
    fail(Stage::run, "argument", {}, "\"" + request + "\" is not OUTPUT:INPUT,...",
         "as in --grad O:A,B, which adds DA and DB");
  }
  const std::string output = output_of(request);
  std::vector<std::string> inputs = items_of(request.substr(colon + 1));
  for (std::string& input : inputs) {  // "O:A,O:B": the option is given twice
    size_t other = input.find(':');
    if (other == std::string::npos) continue;
    if (output_of(input) != output) {
      fail(Stage::run, "argument", {},
           "gradients are asked for of " + output + " and of " + output_of(input) +
               ": one call has those of one output");
    }
    input = trimmed(input.substr(other + 1));
  }
  return located(program->program().source,
                 [&] { return differentiated(*program, output, inputs); });
}

void check_seed(const LoadedProgram& program, const std::string& request,
                const std::vector<InputType>& inputs) {
  const std::string output = output_of(request);
  std::vector<InputType> own(inputs.begin(), inputs.end() - 1);
  BoundProgram bound =
      located(program.program().source, [&] { return tile::bind(program.program(), own); });
  auto found = std::find_if(bound.outputs.begin(), bound.outputs.end(),
                            [&](TensorId id) { return bound.tensors[id].name == output; });
  if (found == bound.outputs.end()) return;
  const Shape &expected = bound.tensors[*found].shape, &given = inputs.back().shape;
  if (given == expected) return;
  fail(Stage::run, "argument", {},
       "the seed D" + output + " has shape " + print_integers(given) + ", but " + output +
           " has shape " + print_integers(expected),
       seed_hint("D" + output, output, shape_text(expected)));
}

std::vector<HostTensor> random_inputs(const LoadedProgram& program,
                                      const std::vector<std::string>& shapes) {
  std::vector<std::string> given = values_by_input(program, shapes, "--shape");
  std::vector<HostTensor> values;
  for (size_t i = 0; i < given.size(); ++i) {
    const std::optional<HostTensor>& value = program.defaults()[i];
    bool left_out = given[i].empty() && value;
    values.push_back(left_out ? *value : read_tensor("random:" + given[i], input_name(program, i)));
  }
  return values;
}

std::vector<double> launch_times(const LoadedProgram& program, const Executable& executable,
                                 const std::vector<HostTensor>& inputs) {
  constexpr int kRuns = 9;
  std::vector<double> least;
  for (int i = 0; i <= kRuns; ++i) {
    std::vector<double> ns;
    RunOptions options;
    options.profile = &ns;
    located(program.program().source, [&] { run_once(executable, inputs, options); });
    if (i == 0) continue;
    if (i == 1) least = ns;
    for (size_t l = 0; l < least.size(); ++l) least[l] = std::min(least[l], ns[l]);
  }
  return least;
}

}  // namespace tile::cli
