#include "runtime/cli/commands.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <sstream>

#include "core/distribute/explain_ranks.h"
#include "core/language/lift/views.h"
#include "runtime/cli/filter_picture.h"
#include "runtime/cli/tensor_file.h"
#include "runtime/engine/cache/disk_cache.h"
#include "runtime/engine/inspect/explain.h"
#include "runtime/engine/inspect/pass_list.h"
#include "runtime/engine/inspect/profile.h"
#include "runtime/engine/tuning/machine_rates.h"

namespace tile::cli {
namespace {

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

template <class NameAt>
std::string list_names(size_t count, NameAt name_at) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += (i == 0 ? "" : ", ") + name_at(i);
  return out.empty() ? "none" : out;
}
std::string input_names(const LoadedProgram& p) {
  return list_names(p.program().inputs.size(), [&](size_t i) { return input_name(p, i); });
}
std::string output_names(const LoadedProgram& p) {
  return list_names(p.program().outputs.size(), [&](size_t i) { return output_name(p, i); });
}

// One value per input, in the program's order, from NAME=VALUE pairs; empty for a parameter that is
// left out.
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

// The values of parameters: the defaults, or what is given.
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

// The numbers of inputs that are named.
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

// What --shape says of each input.
std::vector<InputLayout> given_layouts(const LoadedProgram& program, const Inputs& inputs) {
  std::vector<InputLayout> layouts;
  std::vector<std::string> given = values_by_input(program, inputs.shapes, "--shape");
  for (size_t i = 0; i < given.size(); ++i) {
    const std::optional<HostTensor>& value = program.defaults()[i];
    bool left_out = given[i].empty() && value;
    layouts.push_back(
        {left_out ? InputType{value->type, value->shape} : parse_shape(given[i]), {}});
  }
  return layouts;
}

// The elements of constants are zeros.
std::shared_ptr<const Executable> compiled(LoadedProgram& program, const Inputs& inputs) {
  std::vector<InputLayout> layouts = given_layouts(program, inputs);
  if (inputs.constants.empty()) {
    return located(program.program().source, [&] { return program.executable(layouts); });
  }
  std::vector<HostTensor> zeros;
  for (size_t i = 0; i < layouts.size(); ++i) {
    const std::optional<HostTensor>& value = program.defaults()[i];
    zeros.push_back(value ? *value : HostTensor(layouts[i].type.type, layouts[i].type.shape));
  }
  std::vector<size_t> constants = numbers_of(program, inputs.constants);
  return located(program.program().source,
                 [&] { return executable_for(program, zeros, constants); });
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

void report_times(std::vector<double>& ms) {
  if (ms.size() < 2) return;
  std::sort(ms.begin(), ms.end());
  std::cerr << "least " << ms.front() << " ms, median " << ms[ms.size() / 2] << " ms of "
            << ms.size() << " runs\n";
}

// Of each launch the least nanoseconds of a few runs on random inputs, after one that warms caches
// and pages.
std::vector<double> measured(const LoadedProgram& program, const Executable& executable,
                             const Inputs& inputs) {
  constexpr int kRuns = 9;
  std::vector<std::string> given = values_by_input(program, inputs.shapes, "--shape");
  std::vector<HostTensor> values;
  for (size_t i = 0; i < given.size(); ++i) {
    const std::optional<HostTensor>& value = program.defaults()[i];
    values.push_back(given[i].empty() && value ? *value : read_tensor("random:" + given[i]));
  }
  std::vector<double> least;
  for (int i = 0; i <= kRuns; ++i) {
    std::vector<double> ns;
    RunOptions options;
    options.profile = &ns;
    located(program.program().source, [&] { run_once(executable, values, options); });
    if (i == 0) continue;
    if (i == 1) least = ns;
    for (size_t l = 0; l < least.size(); ++l) least[l] = std::min(least[l], ns[l]);
  }
  return least;
}

// A run of its own: timing each launch makes them wait for each other.
void report_profile(const Executable& executable, const std::vector<HostTensor>& inputs) {
  std::vector<double> ns;
  RunOptions options;
  options.profile = &ns;
  located(executable.source->source, [&] { run_once(executable, inputs, options); });
  std::cerr << to_text(profile(executable, ns));
}

}  // namespace

int command_check(const std::string& file, const Inputs& inputs, const Options& options) {
  std::shared_ptr<LoadedProgram> program = load(make_engine(options), file, options);
  if (!inputs.shapes.empty()) {
    std::shared_ptr<const Executable> e = compiled(*program, inputs);
    print_warnings(*program, e.get(), options);
    report_passes(*e, options);
    for (size_t i = 0; i < e->bound.outputs.size(); ++i) {
      const BoundTensor& t = e->output(i);
      std::cout << t.name << ": " << to_string(t.type);
      for (int64_t extent : t.shape) std::cout << " " << extent;
      std::cout << "\n";
    }
  } else {
    print_warnings(*program, nullptr, options);
  }
  std::cout << file << ": inputs " << input_names(*program) << "; outputs "
            << output_names(*program) << "\n";
  return 0;
}

int command_run(const RunArguments& arguments, const Options& options) {
  std::shared_ptr<LoadedProgram> program = load(make_engine(options), arguments.file, options);
  if (!arguments.gradient_of.empty()) program = with_gradient(program, arguments.gradient_of);
  std::map<std::string, std::string> wanted = named(arguments.out);
  std::vector<std::string> names;
  for (const auto& [name, target] : wanted) {
    std::optional<TensorId> id = program->program().find(name);
    const std::vector<Statement>& all = program->program().statements;
    bool known = id && std::any_of(all.begin(), all.end(),
                                   [&](const Statement& s) { return s.result == *id; });
    if (!known) unknown_name("output", name, output_names(*program));
    names.push_back(name);
  }
  program = asking_for(program, names);
  std::vector<HostTensor> inputs;
  std::vector<std::optional<HostTensor>> parameters = parameters_of(*program, arguments.param);
  std::vector<std::string> given = values_by_input(*program, arguments.in, "--in");
  for (size_t i = 0; i < given.size(); ++i) {
    bool parameter = given[i].empty() && parameters[i];
    HostTensor value = parameter ? *parameters[i] : read_tensor(given[i]);
    bool picture = !parameter && is_picture(given[i]);
    if (picture) value = picture_for_input(std::move(value), input_name(*program, i));
    inputs.push_back(std::move(value));
  }
  std::vector<size_t> constants = numbers_of(*program, arguments.constants);
  std::shared_ptr<const Executable> executable;
  std::optional<LocalMesh> mesh;
  if (!arguments.mesh.mesh.empty()) {
    if (!constants.empty() || arguments.profile) {
      fail(Stage::run, "argument", {}, "--constant and --profile are of programs without a mesh");
    }
    mesh.emplace(mesh_for(*program, inputs, arguments.mesh));
  }
  std::vector<HostTensor> outputs;
  std::vector<double> ms;
  for (int i = 0; i < std::max(1, arguments.repeat); ++i) {
    auto start = std::chrono::steady_clock::now();
    outputs = located(program->program().source, [&] {
      if (mesh) return mesh->run(inputs);
      if (!executable) executable = executable_for(*program, inputs, constants);
      return run_once(*executable, inputs);
    });
    auto end = std::chrono::steady_clock::now();
    ms.push_back(std::chrono::duration<double, std::milli>(end - start).count());
  }
  print_warnings(*program, executable.get(), options);
  if (executable) report_passes(*executable, options);
  for (size_t i = 0; i < outputs.size(); ++i) {
    auto it = wanted.find(output_name(*program, i));
    if (it == wanted.end()) continue;
    bool picture = is_picture(it->second);
    write_tensor(it->second, picture ? picture_of_output(outputs[i], it->first) : outputs[i]);
  }
  if (arguments.profile) report_profile(*executable, inputs);
  report_times(ms);
  return 0;
}

int command_emit(const std::string& file, const Inputs& inputs, const std::string& stage,
                 const MeshArguments& mesh, const Options& options) {
  std::shared_ptr<LoadedProgram> program = load(make_engine(options), file, options);
  if (!mesh.mesh.empty()) {
    Divided parts = divided(*program, given_layouts(*program, inputs), mesh);
    for (size_t r = 0; r < parts.parts.ranks.size(); ++r) {
      std::cout << "# rank " << r << "\n" << print(parts.parts.ranks[r]);
    }
    return 0;
  }
  if (stage == "program") {
    std::cout << program->text();
    return 0;
  }
  if (stage == "views") {
    std::cout << print_views(program->program());
    return 0;
  }
  std::shared_ptr<const Executable> e = compiled(*program, inputs);
  report_passes(*e, options);
  std::cout << located(program->program().source, [&] { return emit(*e, stage); });
  return 0;
}

int command_explain(const std::string& file, const Inputs& inputs,
                    const ExplainArguments& arguments, const Options& options) {
  std::shared_ptr<LoadedProgram> program = load(make_engine(options), file, options);
  if (!arguments.mesh.mesh.empty()) {
    Divided parts = divided(*program, given_layouts(*program, inputs), arguments.mesh);
    std::cout << explain(parts.program, parts.parts);
    return 0;
  }
  std::shared_ptr<const Executable> e = compiled(*program, inputs);
  ExplainOptions how;
  how.json = arguments.json;
  if (arguments.measure) how.measured_ns = measured(*program, *e, inputs);
  report_passes(*e, options);
  std::cout << located(program->program().source, [&] { return explain(*e, how); });
  return 0;
}

int command_grad(const std::string& file, const std::string& of, const std::string& wrt,
                 const Options& options) {
  std::shared_ptr<LoadedProgram> program = load(make_engine(options), file, options);
  std::cout << with_gradient(program, of + ":" + wrt)->text();
  return 0;
}

int command_passes() {
  std::cout << pass_table();
  return 0;
}

int command_cache(const std::string& action) {
  std::string path = default_cache_directory(), why = "no home directory";
  std::error_code none;
  bool missing =
      !path.empty() && !std::filesystem::exists(std::filesystem::symlink_status(path, none));
  if (missing) {
    std::cout << path << ": 0 entries, 0 bytes (it is made when it is needed)\n";
    return 0;
  }
  std::shared_ptr<const PrivateDirectory> directory;
  if (!path.empty()) directory = PrivateDirectory::open(path, false, why);
  if (!directory) {
    std::cout << "the disk cache is not used: " << why << "\n";
    return 1;
  }
  if (action == "clear") {
    std::cout << clear_cache(*directory) << " entries removed from " << path << "\n";
    return 0;
  }
  CacheSummary summary = summarize_cache(*directory);
  std::cout << path << ": " << summary.entries << " entries, " << summary.bytes << " bytes";
  if (summary.leftovers != 0) std::cout << ", " << summary.leftovers << " of unfinished writes";
  std::cout << ", limit " << default_cache_limit().value_or(kCacheLimit) << "\n";
  return 0;
}

namespace {

// The engine's device in two lines; what is missing where there is none.
std::string described(const std::string& backend, Options options, bool& available) {
  options.backend = backend;
  try {
    std::shared_ptr<Engine> engine = make_engine(options);
    available = true;
    std::string text = backend + ": " + engine->device() + "\n";
    if (engine->is_reference()) return text;
    text += "  " + to_string(engine->target()) + "\n";
    return engine->rates() ? text + "  " + describe(*engine->rates()) + "\n" : text;
  } catch (const Failure& failure) {  // no GPU, or nothing to compile for it with
    available = false;
    return backend + ": not available: " + failure.what() + "\n";
  }
}

}  // namespace

int command_devices(const Options& options) {
  bool available = false;
  std::cout << described("cuda", options, available);
  for (int ordinal = 1; available; ++ordinal) {
    std::string text = described("cuda:" + std::to_string(ordinal), options, available);
    if (available) std::cout << text;
  }
  for (const char* name : {"cpu", "reference"}) std::cout << described(name, options, available);
  return 0;
}

}  // namespace tile::cli
