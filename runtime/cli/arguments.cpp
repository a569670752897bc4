#include "runtime/cli/arguments.h"

#include <algorithm>
#include <sstream>

#include "runtime/cli/tensor_file.h"

namespace tile::cli {

namespace {

template <class NameAt>
std::string list_names(size_t count, NameAt name_at) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += (i == 0 ? "" : ", ") + name_at(i);
  return out.empty() ? "none" : out;
}

}  // namespace

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  std::string part;
  while (std::getline(stream, part, separator)) parts.push_back(part);
  return parts;
}

[[noreturn]] void unknown_name(const std::string& what, const std::string& name,
                               const std::string& known) {
  fail(Stage::run, "argument", {}, "the program has no " + what + " " + name, "it has " + known);
}

std::string input_names(const LoadedProgram& p) {
  return list_names(p.program().inputs.size(), [&](size_t i) { return input_name(p, i); });
}
std::string output_names(const LoadedProgram& p) {
  return list_names(p.program().outputs.size(), [&](size_t i) { return output_name(p, i); });
}

std::vector<std::string> values_by_input(const LoadedProgram& program,
                                         const std::vector<std::string>& pairs, const char* flag) {
  std::map<std::string, std::string> given = named(pairs);
  std::vector<std::string> values;
  for (size_t i = 0; i < program.program().inputs.size(); ++i) {
    auto it = given.find(input_name(program, i));
    if (it == given.end() && program.defaults()[i]) {
      values.emplace_back();
      continue;
    }
    if (it == given.end()) {
      fail(Stage::run, "argument", {}, "input " + input_name(program, i) + " is not given",
           std::string("add ") + flag + " " + input_name(program, i) + "=...");
    }
    values.push_back(it->second);
    given.erase(it);
  }
  if (!given.empty()) unknown_name("input", given.begin()->first, input_names(program));
  return values;
}

std::vector<std::optional<HostTensor>> parameters_of(const LoadedProgram& program,
                                                     const std::vector<std::string>& pairs) {
  std::vector<std::optional<HostTensor>> values = program.defaults();
  std::map<std::string, std::string> given = named(pairs);
  std::string names;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i]) continue;
    names += (names.empty() ? "" : ", ") + input_name(program, i);
    auto it = given.find(input_name(program, i));
    if (it == given.end()) continue;
    values[i] = parameter_value(input_tensor(program, i), it->second);
    given.erase(it);
  }
  if (!given.empty()) {
    unknown_name("parameter", given.begin()->first, names.empty() ? "none" : names);
  }
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
    fail(Stage::run, "argument", {}, "\"" + request + "\" is not OUTPUT:INPUT,...");
  }
  return located(program->program().source, [&] {
    return differentiated(*program, request.substr(0, colon),
                          split(request.substr(colon + 1), ','));
  });
}

std::vector<HostTensor> random_inputs(const LoadedProgram& program,
                                      const std::vector<std::string>& shapes) {
  std::vector<std::string> given = values_by_input(program, shapes, "--shape");
  std::vector<HostTensor> values;
  for (size_t i = 0; i < given.size(); ++i) {
    const std::optional<HostTensor>& value = program.defaults()[i];
    values.push_back(given[i].empty() && value ? *value : read_tensor("random:" + given[i]));
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
