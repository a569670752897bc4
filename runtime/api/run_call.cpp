#include "runtime/api/run_call.h"

#include "runtime/api/handles.h"
#include "runtime/api/options.h"

namespace tile::api {

std::function<bool()> cancelled_by(const Engine& engine, const tile_run_options& o) {
  return o.cancel != nullptr ? polled(o.cancel, o.cancel_user) : engine.options().cancelled;
}

void run_as_asked(const Executable& e, const tile_run_options* given,
                  const std::function<void(const RunOptions&)>& work) {
  tile_run_options o = given_options(given);
  const EngineOptions& engine = e.engine->options();
  RunOptions options;
  options.stream = o.stream;
  options.memory = workspace_of(e, o);
  bool asked = o.cancel != nullptr || engine.cancels_runs();
  if (!asked && current_control() == nullptr) return work(options);
  CallControl control(Stage::run, asked ? cancelled_by(*e.engine, o) : nullptr);
  Controlled now(&control, &engine.limits);
  options.control = &control;
  work(options);
}

}  // namespace tile::api
