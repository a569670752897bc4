#include "runtime/cli/run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <sstream>

#include "backends/trace.h"
#include "runtime/cli/arguments.h"
#include "runtime/cli/commands.h"
#include "runtime/cli/filter_picture.h"
#include "runtime/cli/ranks/rank_commands.h"
#include "runtime/cli/tensor_file.h"
#include "runtime/engine/inspect/profile.h"

namespace tile::cli {
namespace {

// The program with the outputs that are asked for: any tensor that it defines may be, and what the
// next step is fed is.
std::shared_ptr<LoadedProgram> asked_for(const std::shared_ptr<LoadedProgram>& program,
                                         const std::map<std::string, std::string>& wanted,
                                         const std::vector<std::string>& feeds) {
  std::vector<std::string> names, all;
  for (const auto& [name, target] : wanted) all.push_back(name);
  for (const std::string& feed : feeds) {
    std::string output = feed.substr(0, feed.find('='));
    if (std::find(all.begin(), all.end(), output) == all.end()) all.push_back(output);
  }
  for (const std::string& name : all) {
    std::optional<TensorId> id = program->program().find(name);
    const std::vector<Statement>& statements = program->program().statements;
    bool known = id && std::any_of(statements.begin(), statements.end(),
                                   [&](const Statement& s) { return s.result == *id; });
    if (!known) unknown_name("output", name, output_names(*program));
    names.push_back(name);
  }
  return asking_for(program, names);
}

// Without a feed all steps are the same.
void require_feeds(const LoadedProgram& program, const RunArguments& arguments) {
  if (!arguments.steps || !arguments.feeds.empty()) return;
  fail(Stage::run, "argument", {},
       "each of the steps would read the same: no output feeds an input",
       "add --feed OUTPUT=INPUT; outputs are " + listed(output_names(program)) + ", inputs " +
           listed(input_names(program)));
}

// OUTPUT=INPUT by their numbers.
Feed feed_of(const LoadedProgram& program, const std::string& pair) {
  size_t at = pair.find('=');
  if (at == std::string::npos || at == 0) {
    fail(Stage::run, "argument", {}, "\"" + pair + "\" is not OUTPUT=INPUT");
  }
  std::string output = pair.substr(0, at);
  Feed feed{0, numbers_of(program, {pair.substr(at + 1)}).at(0)};
  while (output_name(program, feed.output) != output) ++feed.output;  // asked for
  return feed;
}

std::vector<Feed> feeds_of(const LoadedProgram& program, const std::vector<std::string>& pairs) {
  std::vector<Feed> feeds;
  for (const std::string& pair : pairs) feeds.push_back(feed_of(program, pair));
  return feeds;
}

std::vector<HostTensor> inputs_of(const LoadedProgram& program, const RunArguments& arguments) {
  std::vector<HostTensor> inputs;
  std::vector<std::optional<HostTensor>> parameters = parameters_of(program, arguments.param);
  std::vector<std::string> given =
      values_by_input(program, arguments.in, "--in", arguments.gradient_of);
  for (size_t i = 0; i < given.size(); ++i) {
    bool parameter = given[i].empty() && parameters[i];
    const std::string& name = input_name(program, i);
    HostTensor value = parameter ? *parameters[i] : read_tensor(given[i], name);
    bool picture = !parameter && gives_picture(given[i]);
    if (picture) value = picture_for_input(std::move(value), name);
    inputs.push_back(std::move(value));
  }
  return inputs;
}

std::vector<InputType> types_of(const std::vector<HostTensor>& inputs) {
  std::vector<InputType> types;
  for (const InputLayout& layout : layouts_of(inputs)) types.push_back(layout.type);
  return types;
}

// Runs of their own: timing each launch makes them wait for each other.
void report_profile(const Ran& ran) {
  std::vector<double> ns = launch_times(*ran.program, *ran.executable, ran.inputs);
  std::cerr << to_text(profile(*ran.executable, ns));
}

// Before anything is computed.
void check_shapes(const BoundProgram& program, const RunArguments& arguments) {
  for (TensorId id : program.outputs) {
    check_output_shape(program.tensors[id].name, program.tensors[id].shape, arguments);
  }
}

// Null where none is asked for.
std::optional<LocalMesh> asked_mesh(const Ran& ran, const RunArguments& arguments) {
  if (arguments.mesh.mesh.empty()) return std::nullopt;
  if (!arguments.constants.empty() || arguments.profile) {
    fail(Stage::run, "argument", {}, "--constant and --profile are of programs without a mesh");
  }
  Division parts = divided(*ran.program, layouts_of(ran.inputs), arguments.mesh);
  check_shapes(parts.program, arguments);
  return mesh_for(*ran.program, std::move(parts), arguments.mesh);
}

std::string number(double value) {
  std::ostringstream text;
  text.precision(6);
  text << value;
  return text.str();
}

}  // namespace

void report_times(std::vector<double> ms) {
  if (ms.size() < 2) return;
  std::sort(ms.begin(), ms.end());
  std::cerr << "least " << ms.front() << " ms, median " << ms[ms.size() / 2] << " ms of "
            << ms.size() << " runs\n";
}

Asked program_of(const RunArguments& arguments, const Options& options) {
  Asked asked;
  asked.written = load(make_engine(options), arguments.file, options);
  if (!arguments.gradient_of.empty()) {
    asked.forward = asked.written;
    asked.written = with_gradient(asked.written, arguments.gradient_of);
  }
  asked.program = asked_for(asked.written, named(arguments.out), feed_pairs(arguments.feeds));
  check_outputs(*asked.program, arguments);
  return asked;
}

Ran run_program(const RunArguments& arguments, const Options& options) {
  Ran ran;
  Asked asked = program_of(arguments, options);
  ran.program = asked.program;
  require_feeds(*ran.program, arguments);
  std::vector<Feed> feeds = feeds_of(*ran.program, feed_pairs(arguments.feeds));
  ran.inputs = inputs_of(*ran.program, arguments);
  std::vector<size_t> constants = numbers_of(*ran.program, arguments.constants);
  if (asked.forward) check_seed(*asked.forward, arguments.gradient_of, types_of(ran.inputs));
  std::optional<LocalMesh> mesh = asked_mesh(ran, arguments);
  for (int i = 0; i < std::max(1, arguments.repeat); ++i) {
    auto start = std::chrono::steady_clock::now();
    located(ran.program->program().source, [&] {
      if (mesh) {
        ran.outputs = mesh->run(ran.inputs);
        return;
      }
      if (!ran.executable) {
        ran.executable = executable_for(*ran.program, ran.inputs, constants);
        check_shapes(ran.executable->bound, arguments);
      }
      if (arguments.steps) {
        run_steps_into(ran.outputs, *ran.executable, ran.inputs, feeds, *arguments.steps);
      } else {
        run_into(ran.outputs, *ran.executable, ran.inputs);
      }
    });
    auto end = std::chrono::steady_clock::now();
    ran.ms.push_back(std::chrono::duration<double, std::milli>(end - start).count());
  }
  print_warnings(*ran.program, ran.executable.get(), options, asked.written.get());
  if (ran.executable) report_passes(*ran.executable, options);
  return ran;
}

std::string kind_text(DType type, const Shape& shape) {
  std::string sizes;
  for (int64_t extent : shape) sizes += (sizes.empty() ? "" : ", ") + std::to_string(extent);
  return std::string(to_string(type)) + (shape.empty() ? " scalar" : " [" + sizes + "]");
}

std::string summary(const HostTensor& t) {
  std::string text = kind_text(t.type, t.shape);
  double least = INFINITY, most = -INFINITY;
  int64_t nans = 0, count = t.count();
  for (int64_t i = 0; i < count; ++i) {
    double value = convert(t.at(i), DType::f64).f;
    if (std::isnan(value)) ++nans;
    least = std::fmin(least, value);
    most = std::fmax(most, value);
  }
  if (count == 0) return text + ", no elements";
  if (nans < count && count == 1) text += ", " + number(least);
  if (nans < count && count > 1) text += ", from " + number(least) + " to " + number(most);
  if (nans > 0) text += ", " + std::to_string(nans) + (nans == 1 ? " is" : " are") + " NaN";
  return text;
}

int command_run(const RunArguments& arguments, const Options& options) {
  if (!arguments.mesh.transport.empty()) return run_on_processes(arguments, options);
  bool traced = !arguments.trace.empty();
  if (traced && !trace::start(arguments.trace)) {
    fail(Stage::run, "file", {}, "cannot write a trace to " + arguments.trace);
  }
  Ran ran = run_program(arguments, options);
  if (traced && !trace::finish()) {
    fail(Stage::run, "file", {}, "the trace could not be written to " + arguments.trace);
  }
  write_outputs(ran, arguments, options);
  for (size_t i = 0; arguments.out.empty() && i < ran.outputs.size(); ++i) {
    std::cout << output_name(*ran.program, i) << ": " << summary(ran.outputs[i]) << "\n";
  }
  if (arguments.profile) report_profile(ran);
  report_times(ran.ms);
  return 0;
}

}  // namespace tile::cli
