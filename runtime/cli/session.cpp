#include "runtime/cli/session.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "backends/trace.h"
#include "core/language/program_text.h"
#include "core/warnings/warnings.h"
#include "runtime/cli/files.h"
#include "runtime/cli/tensor_file.h"
#include "runtime/engine/arguments/memory_errors.h"
#include "runtime/engine/inspect/pass_times.h"
#include "runtime/engine/inspect/program_warnings.h"

namespace tile::cli {

namespace {

// The first engine starts the trace that the environment asks for; where it cannot, it runs on.
bool warn_of_no_trace() {
  const char* path = std::getenv("TILE_TRACE");
  if (path == nullptr || *path == 0 || trace::is_kept()) return false;
  std::fprintf(stderr, "warning: TILE_TRACE: no trace can be written to %s\n", path);
  return true;
}

}  // namespace

std::shared_ptr<Engine> make_engine(const Options& options) {
  EngineOptions o;
  o.backend = options.backend;
  o.features = options.features;
  o.threads = options.threads;
  o.strict_skip = options.strict_skip;
  o.precision = options.precision;
  o.memory_limit = options.memory_limit;
  o.measure = options.measure;
  o.skip_passes = options.skip_passes;
  o.time_passes = !options.time_passes.empty();
  if (options.verbose) {
    o.log = [](LogLevel, const std::string& message) {
      std::fprintf(stderr, "tile: %s\n", message.c_str());
    };
  }
  std::shared_ptr<Engine> engine = Engine::create(std::move(o));
  static const bool told = warn_of_no_trace();
  static_cast<void>(told);
  return engine;
}

Language language_for(const std::string& file, const std::string& asked) {
  std::optional<Language> language =
      asked.empty() ? language_of_suffix(file) : parse_language(asked);
  if (language) return *language;
  if (!asked.empty()) {
    fail(Stage::run, "argument", {}, "unknown language " + asked, "tile, mfg or lift");
  }
  fail(Stage::run, "argument", {}, "cannot tell the language of " + file,
       "use the suffix .tile, .mfg or .lift, or --lang");
}

std::shared_ptr<LoadedProgram> load(const std::shared_ptr<Engine>& engine, const std::string& path,
                                    const Options& options) {
  auto source = std::make_shared<Source>(Source{path, read_text(path, kMaxTextBytes)});
  return located(source,
                 [&] { return parsed(engine, language_for(path, options.language), source); });
}

namespace {

bool holds(const std::vector<Diagnostic>& list, const Diagnostic& d) {
  return std::any_of(list.begin(), list.end(), [&](const Diagnostic& other) {
    return other.code == d.code && other.span.begin == d.span.begin && other.message == d.message;
  });
}

}  // namespace

// With --verbose the log has those of executables already.
void print_warnings(const LoadedProgram& program, const Executable* executable,
                    const Options& options, const LoadedProgram* written) {
  if (!options.warnings || (options.verbose && executable != nullptr)) return;
  std::vector<Diagnostic> list =
      executable != nullptr ? warnings_of(*executable) : warnings_of(program.program());
  if (written != nullptr && written != &program) {
    std::vector<Diagnostic> own = warnings_of(written->program());
    std::erase_if(list, [&](const Diagnostic& d) { return d.code == "unread" && !holds(own, d); });
  }
  const Source& source = *program.program().source;
  for (const Diagnostic& d : list) {
    std::string text = options.json_diagnostics ? render_json(d, source) + "\n" : render(d, source);
    std::fputs(text.c_str(), stderr);
  }
}

void report_passes(const Executable& executable, const Options& options) {
  if (options.print_changed) {
    std::string text = located(executable.source->source, [&] { return changes(executable); });
    std::fputs(text.c_str(), stderr);
  }
  if (!executable.pass_times) return;
  const PassTimes& times = *executable.pass_times;
  std::string text = options.time_passes == "json" ? to_json(times) + "\n" : to_text(times);
  std::fputs(text.c_str(), stderr);
}

std::map<std::string, std::string> named(const std::vector<std::string>& pairs) {
  std::map<std::string, std::string> result;
  for (const std::string& pair : pairs) {
    size_t at = pair.find('=');
    if (at == std::string::npos || at == 0) {
      fail(Stage::run, "argument", {}, "\"" + pair + "\" is not NAME=VALUE",
           "as in --in A=iota:2x3, --shape A=2x3, --out O=o.npy and --out O=-");
    }
    if (!result.emplace(pair.substr(0, at), pair.substr(at + 1)).second) {
      fail(Stage::run, "argument", {}, pair.substr(0, at) + " is given twice");
    }
  }
  return result;
}

const Tensor& input_tensor(const LoadedProgram& program, size_t i) {
  const Program& p = program.program();
  return p.tensors[p.inputs[i]];
}
const std::string& input_name(const LoadedProgram& program, size_t i) {
  return input_tensor(program, i).name;
}
const std::string& output_name(const LoadedProgram& program, size_t i) {
  const Program& p = program.program();
  return p.tensors[p.outputs[i]].name;
}

std::shared_ptr<LoadedProgram> asking_for(const std::shared_ptr<LoadedProgram>& program,
                                          const std::vector<std::string>& names) {
  bool there = std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    for (size_t i = 0; i < program->program().outputs.size(); ++i) {
      if (output_name(*program, i) == name) return true;
    }
    return false;
  });
  if (there) return program;
  return std::make_shared<LoadedProgram>(
      program->engine(), std::make_shared<Program>(with_outputs(program->program(), names)));
}

std::vector<InputLayout> layouts_of(const std::vector<HostTensor>& inputs) {
  std::vector<InputLayout> layouts;
  for (const HostTensor& t : inputs) {
    layouts.push_back({{t.type, t.shape}, {}});
    // Used where the input is a parameter that sets a size.
    bool integer = t.shape.empty() && is_integer(t.type);
    if (integer) layouts.back().type.value = t.at(0).i;
  }
  return layouts;
}

namespace {

std::vector<TensorView> views(const std::vector<HostTensor>& list) {
  std::vector<TensorView> result;
  for (const HostTensor& t : list) {
    // A run only reads its inputs; the view type has no const.
    result.push_back({const_cast<std::byte*>(t.bytes.data()), t.type, t.shape, {}});
  }
  return result;
}

}  // namespace

std::shared_ptr<const Executable> executable_for(LoadedProgram& program,
                                                 const std::vector<HostTensor>& inputs,
                                                 const std::vector<size_t>& constants) {
  if (constants.empty()) return program.executable(layouts_of(inputs));
  return program.executable(std::span<const TensorView>(views(inputs)), constants);
}

namespace {

std::vector<HostTensor> outputs_of(const Executable& e) {
  check_output_memory(e);
  std::vector<HostTensor> outputs;
  for (size_t i = 0; i < e.bound.outputs.size(); ++i) {
    outputs.emplace_back(e.output(i).type, e.output(i).shape);
  }
  return outputs;
}

}  // namespace

void run_steps_into(std::vector<HostTensor>& outputs, const Executable& e,
                    const std::vector<HostTensor>& inputs, const std::vector<Feed>& feeds,
                    uint64_t steps) {
  if (outputs.empty()) outputs = outputs_of(e);
  check_feeds(e, feeds);
  run_steps(e, views(inputs), views(outputs), feeds, steps);
}

void run_into(std::vector<HostTensor>& outputs, const Executable& e,
              const std::vector<HostTensor>& inputs, const RunOptions& options) {
  if (outputs.empty()) outputs = outputs_of(e);
  run(e, views(inputs), views(outputs), options);
}

std::vector<HostTensor> run_once(const Executable& e, const std::vector<HostTensor>& inputs,
                                 const RunOptions& options) {
  std::vector<HostTensor> outputs;
  run_into(outputs, e, inputs, options);
  return outputs;
}

std::vector<HostTensor> run_once(LoadedProgram& program, const std::vector<HostTensor>& inputs,
                                 const RunOptions& options) {
  return run_once(*program.executable(layouts_of(inputs)), inputs, options);
}

}  // namespace tile::cli
