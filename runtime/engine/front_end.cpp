// From texts to loaded programs, with the times of what that takes.
#include "backends/trace.h"
#include "core/pipeline/pipeline.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/inspect/pass_times.h"

namespace tile {
namespace {

// The program that make() gives. `before`: the times of what it was made of; may be null.
template <class Make>
std::shared_ptr<LoadedProgram> loaded(const std::shared_ptr<Engine>& engine, const PassInfo& pass,
                                      const PassTimes* before, const Make& make) {
  trace::Scope span("pass", pass.name);
  if (!engine->options().time_passes) {
    return std::make_shared<LoadedProgram>(engine, std::make_shared<Program>(make()));
  }
  auto times = std::make_shared<PassTimes>();
  if (before != nullptr) times->add(*before);
  std::shared_ptr<const Program> program;
  double ns = timed_ns([&] {
    PassClock clock(*times);
    run_pass(pass, &clock, [&] { program = std::make_shared<Program>(make()); });
  });
  times->add_total(ns);
  return std::make_shared<LoadedProgram>(engine, std::move(program), std::move(times));
}

}  // namespace

std::shared_ptr<LoadedProgram> parsed(const std::shared_ptr<Engine>& engine, Language language,
                                      const SourcePtr& source) {
  return loaded(engine, kParse, nullptr, [&] { return parse(language, source); });
}

std::shared_ptr<LoadedProgram> differentiated(const LoadedProgram& program, const std::string& of,
                                              const std::vector<std::string>& wrt,
                                              const GivenGradients& given) {
  return loaded(program.engine(), kDifferentiate, program.times_before().get(),
                [&] { return differentiate(program.program(), of, wrt, given); });
}

}  // namespace tile
