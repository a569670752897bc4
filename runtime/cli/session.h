// What the subcommands share: loading a program, naming its inputs, reporting errors.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/ir/scalar.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/steps/time_steps.h"
#include "runtime/ranks/division.h"

namespace tile::cli {

struct Options {
  std::string backend = "auto";
  std::string features;
  int threads = 0;
  std::string language;  // empty: by the file's suffix
  bool json_diagnostics = false;
  bool verbose = false;
  bool strict_skip = false;
  std::string precision = "f32";
  size_t memory_limit = 0;  // bytes; 0: the engine's default
  bool warnings = true;
  bool measure = false;  // the rates of this CPU, where none are stored
  std::vector<std::string> skip_passes;
  std::string time_passes;     // "text" or "json": the times of the passes; empty: none
  bool print_changed = false;  // what each pass made
};

// An engine made from the options; its log goes to standard error with --verbose.
std::shared_ptr<Engine> make_engine(const Options& options);

// The language that is asked for; where that is empty, the one of the file's suffix. Throws Failure
// (code "argument").
Language language_for(const std::string& file, const std::string& asked);
// The program of a file. Errors in it are thrown as Located.
std::shared_ptr<LoadedProgram> load(const std::shared_ptr<Engine>& engine, const std::string& path,
                                    const Options& options);

// Prints a program's warnings to standard error: those of its text, or with the executable those of
// its shapes too. `written`: the program with the outputs of its text, where `program` may have
// others; what only these leave unread is not warned about.
void print_warnings(const LoadedProgram& program, const Executable* executable,
                    const Options& options, const LoadedProgram* written = nullptr);

// Prints to standard error what the options ask for of the executable's passes.
void report_passes(const Executable& executable, const Options& options);

// A failure with the text that it is about.
class Located : public std::exception {
 public:
  Located(Diagnostic what_failed, SourcePtr text)
      : diagnostic(std::move(what_failed)), source(std::move(text)) {}
  Diagnostic diagnostic;
  SourcePtr source;
  const char* what() const noexcept override { return diagnostic.message.c_str(); }
};

// Runs `work`, giving failures that name no text the program's.
template <class Work>
auto located(const SourcePtr& source, Work&& work) {
  try {
    return work();
  } catch (const FailureInText&) {
    throw;
  } catch (const Failure& failure) {
    throw Located(failure.diagnostic(), source);
  } catch (const Overflow& overflow) {
    throw Located({Stage::compile, "overflow", overflow.what(), "", {}}, source);
  }
}

// "NAME=VALUE" pairs by name. Throws Failure for a text without '=' or a repeated name.
std::map<std::string, std::string> named(const std::vector<std::string>& pairs);

const Tensor& input_tensor(const LoadedProgram& program, size_t i);
const std::string& input_name(const LoadedProgram& program, size_t i);
const std::string& output_name(const LoadedProgram& program, size_t i);

// The program with the named tensors as its outputs where it has other ones: any tensor that it
// defines may be asked for. Throws Failure for an unknown name.
std::shared_ptr<LoadedProgram> asking_for(const std::shared_ptr<LoadedProgram>& program,
                                          const std::vector<std::string>& names);

// Layouts of dense inputs, in the program's order.
std::vector<InputLayout> layouts_of(const std::vector<HostTensor>& inputs);
// The executable for dense tensors, of which those with the numbers `constants` stay the same.
std::shared_ptr<const Executable> executable_for(LoadedProgram& program,
                                                 const std::vector<HostTensor>& inputs,
                                                 const std::vector<size_t>& constants);
// Runs on dense tensors.
std::vector<HostTensor> run_once(const Executable& executable,
                                 const std::vector<HostTensor>& inputs,
                                 const RunOptions& options = {});
// The same into outputs that an earlier run of the executable left, or has made here: making them
// takes time of its own, as the system gives pages of zeros.
void run_into(std::vector<HostTensor>& outputs, const Executable& executable,
              const std::vector<HostTensor>& inputs, const RunOptions& options = {});
// So many runs, outputs of a step being inputs of the next.
void run_steps_into(std::vector<HostTensor>& outputs, const Executable& executable,
                    const std::vector<HostTensor>& inputs, const std::vector<Feed>& feeds,
                    uint64_t steps);
// Compiles and runs on dense tensors.
std::vector<HostTensor> run_once(LoadedProgram& program, const std::vector<HostTensor>& inputs,
                                 const RunOptions& options = {});

}  // namespace tile::cli
