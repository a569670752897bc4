// The functions of tile.h: argument checks, then the engine.
#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/api/handles.h"
#include "runtime/api/mesh_executable.h"
#include "runtime/api/options.h"
#include "runtime/api/run_call.h"
#include "runtime/engine/lean.h"
#include "runtime/engine/steps/time_steps.h"

using namespace tile;
using namespace tile::api;

namespace {

void run_views(const Executable& e, const std::vector<TensorView>& inputs,
               const std::vector<TensorView>& outputs, const tile_run_options* given) {
  check_tensors(e, inputs, outputs);
  run_as_asked(e, given, [&](const RunOptions& options) { run(e, inputs, outputs, options); });
}

const char* name_at(const Program& program, const std::vector<TensorId>& ids, size_t i) {
  return i < ids.size() ? program.tensors[ids[i]].name.c_str() : nullptr;
}

// All that a call may be, apart from the shortest way, which would pay for the objects' places on
// the stack.
[[gnu::noinline]] tile_error* run_executable(const LiveExecutable& live,
                                             const DLTensor* const* inputs, size_t input_count,
                                             DLTensor* const* outputs, size_t output_count,
                                             const tile_run_options* options) {
  return guarded(live.source()->source.get(), [&] {
    // A run of any length keeps its executable, but not what others retire meanwhile.
    std::shared_ptr<const Executable> kept = live.snapshot();
    const Executable& e = *kept;
    if (run_directly(e, inputs, input_count, outputs, output_count, given_options(options))) return;
    run_views(e, input_views(e, inputs, input_count), output_views(e, outputs, output_count),
              options);
  });
}

// A run that is cancelled compiles no longer either.
std::shared_ptr<const Executable> executable_for(LoadedProgram& loaded,
                                                 const std::vector<TensorView>& inputs,
                                                 const tile_run_options* options) {
  CallControl control(Stage::compile, cancelled_by(*loaded.engine(), given_options(options)));
  Controlled now(&control);
  return loaded.executable(std::span(inputs));
}

[[gnu::noinline]] tile_error* run_program(LoadedProgram& loaded, const DLTensor* const* inputs,
                                          size_t input_count, DLTensor* const* outputs,
                                          size_t output_count, const tile_run_options* options) {
  return guarded(loaded.program().source.get(), [&] {
    std::shared_ptr<const Executable> last = loaded.kept_last();
    if (last != nullptr &&
        run_directly(*last, inputs, input_count, outputs, output_count, given_options(options))) {
      loaded.engine()->statistics.executable_hits.add();
      return;
    }
    std::vector<TensorView> given = input_views(loaded, inputs, input_count, true);
    std::shared_ptr<const Executable> e = executable_for(loaded, given, options);
    run_views(*e, given, output_views(*e, outputs, output_count), options);
  });
}

}  // namespace

extern "C" {

uint32_t tile_version(void) {
  return TILE_VERSION_MAJOR * 10000 + TILE_VERSION_MINOR * 100 + TILE_VERSION_PATCH;
}

tile_error* tile_engine_create(const tile_engine_options* options, tile_engine** engine) {
  REQUIRE(engine);
  *engine = nullptr;
  return guarded(nullptr, [&] {
    auto made = std::make_unique<tile_engine>();
    made->engine = Engine::create(engine_options(given_options(options)));
    *engine = made.release();
  });
}
void tile_engine_free(tile_engine* engine) { freed(engine); }
const char* tile_engine_device(const tile_engine* engine) {
  return engine == nullptr ? "" : engine->engine->device().c_str();
}

tile_error* tile_engine_statistics_get(const tile_engine* engine,
                                       tile_engine_statistics* statistics) {
  REQUIRE(engine);
  REQUIRE(statistics);
  return guarded(nullptr, [&] {
    Engine& e = *engine->engine;
    tile_engine_statistics s{};
    s.struct_size = statistics->struct_size;
    s.binds = e.statistics.binds;
    s.executable_hits = e.statistics.executable_hits.value();
    s.temporary_bytes = e.statistics.temporary_bytes;
    s.constant_bytes = e.statistics.constant_bytes;
    s.cached_bytes = e.budget().bytes();
    s.evictions = e.budget().evictions();
    if (!e.is_reference()) {
      s.kernels_compiled = e.kernels().compiled;
      s.kernel_hits = e.kernels().hits;
      s.kernel_disk_hits = e.kernels().disk_hits;
    }
    if (s.struct_size < sizeof(size_t)) fail(Stage::run, "argument", {}, "struct_size is not set");
    std::memcpy(statistics, &s, std::min(s.struct_size, sizeof s));
  });
}

tile_error* tile_engine_synchronize(tile_engine* engine, void* stream) {
  REQUIRE(engine);
  return guarded(nullptr, [&] {
    if (DeviceSession* session = engine->engine->session()) session->synchronize(stream);
  });
}

tile_error* tile_program_parse(tile_engine* engine, const char* language, const char* name,
                               const char* text, size_t text_size, tile_program** program) {
  REQUIRE(program);
  *program = nullptr;
  REQUIRE(engine);
  REQUIRE(language);
  if (text_size != 0) REQUIRE(text);
  SourcePtr source;
  tile_error* error = guarded(nullptr, [&] {
    source = std::make_shared<Source>(Source{name == nullptr ? "<text>" : name,
                                             std::string(text == nullptr ? "" : text, text_size)});
  });
  if (error != nullptr) return error;
  return timed(source.get(), *engine->engine, Stage::parse, [&] {
    std::optional<Language> known = parse_language(language);
    if (!known) {
      fail(Stage::run, "argument", {}, std::string("unknown language \"") + language + "\"",
           "tile, mfg or lift");
    }
    auto made = std::make_unique<tile_program>();
    made->loaded = tile::parsed(engine->engine, *known, source);
    *program = made.release();
  });
}
void tile_program_free(tile_program* program) { freed(program); }

size_t tile_program_input_count(const tile_program* program) {
  return program == nullptr ? 0 : program->loaded->program().inputs.size();
}
size_t tile_program_output_count(const tile_program* program) {
  return program == nullptr ? 0 : program->loaded->program().outputs.size();
}
const char* tile_program_input_name(const tile_program* program, size_t i) {
  if (program == nullptr) return nullptr;
  return name_at(program->loaded->program(), program->loaded->program().inputs, i);
}
const char* tile_program_output_name(const tile_program* program, size_t i) {
  if (program == nullptr) return nullptr;
  return name_at(program->loaded->program(), program->loaded->program().outputs, i);
}
int tile_program_input_rank(const tile_program* program, size_t i) {
  if (program == nullptr || i >= program->loaded->program().inputs.size()) return -1;
  const Program& p = program->loaded->program();
  const Tensor& t = p.tensors[p.inputs[i]];
  return t.ranked ? static_cast<int>(t.dims.size()) : -1;
}
const char* tile_program_text(const tile_program* program) {
  return program == nullptr ? "" : program->loaded->text().c_str();
}

tile_error* tile_program_differentiate(tile_program* program, const char* of,
                                       const char* const* wrt, size_t wrt_count,
                                       tile_program** gradient) {
  REQUIRE(gradient);
  *gradient = nullptr;
  REQUIRE(program);
  REQUIRE(of);
  if (wrt_count != 0) REQUIRE(wrt);
  return timed(source_of(program), *program->loaded->engine(), Stage::compile, [&] {
    std::vector<std::string> names;
    for (size_t i = 0; i < wrt_count; ++i) names.emplace_back(wrt[i] == nullptr ? "" : wrt[i]);
    auto made = std::make_unique<tile_program>();
    made->loaded = differentiated(*program->loaded, of, names, program->given);
    made->given = program->given;
    *gradient = made.release();
  });
}

tile_error* tile_program_with_gradient(tile_program* program, const char* of,
                                       tile_program* gradient, tile_program** result) {
  REQUIRE(result);
  *result = nullptr;
  REQUIRE(program);
  REQUIRE(of);
  REQUIRE(gradient);
  return timed(source_of(program), *program->loaded->engine(), Stage::compile, [&] {
    check_given_gradient(program->loaded->program(), of, gradient->loaded->program());
    auto made = std::make_unique<tile_program>(*program);
    // Shares the ownership of the handle's program.
    made->given[of] =
        std::shared_ptr<const Program>(gradient->loaded, &gradient->loaded->program());
    *result = made.release();
  });
}

tile_error* tile_program_with_outputs(tile_program* program, const char* const* names, size_t count,
                                      tile_program** result) {
  REQUIRE(result);
  *result = nullptr;
  REQUIRE(program);
  if (count != 0) REQUIRE(names);
  return timed(source_of(program), *program->loaded->engine(), Stage::compile, [&] {
    std::vector<std::string> wanted;
    for (size_t i = 0; i < count; ++i) wanted.emplace_back(names[i] == nullptr ? "" : names[i]);
    auto made = std::make_unique<tile_program>();
    made->loaded = std::make_shared<LoadedProgram>(
        program->loaded->engine(),
        std::make_shared<Program>(with_outputs(program->loaded->program(), wanted)));
    made->given = program->given;
    *result = made.release();
  });
}

tile_error* tile_program_compile(tile_program* program, const DLTensor* const* inputs,
                                 size_t input_count, tile_executable** executable) {
  return tile_program_compile_with(program, inputs, input_count, nullptr, executable);
}
tile_error* tile_program_compile_with(tile_program* program, const DLTensor* const* inputs,
                                      size_t input_count, const tile_compile_options* options,
                                      tile_executable** executable) {
  REQUIRE(executable);
  *executable = nullptr;
  REQUIRE(program);
  return watched(source_of(program), *program->loaded->engine(), Stage::compile, [&] {
    LoadedProgram& loaded = *program->loaded;
    tile_compile_options given = given_options(options);
    std::vector<size_t> constants = constants_of(given, loaded.program().inputs.size());
    std::vector<TensorView> views = input_views(loaded, inputs, input_count, false);
    auto made = std::make_unique<tile_executable>();
    if (given.mesh != nullptr) {
      made->on_mesh = compiled_on_mesh(loaded, views, given);
    } else {
      made->executable = loaded.live(std::span<const TensorView>(views), constants);
    }
    *executable = made.release();
  });
}
tile_error* tile_executable_run(const tile_executable* executable, const DLTensor* const* inputs,
                                size_t input_count, DLTensor* const* outputs, size_t output_count,
                                const tile_run_options* options) {
  REQUIRE(executable);
  if (executable->on_mesh) [[unlikely]] {
    return run_on_mesh(*executable->on_mesh, inputs, input_count, outputs, output_count, options);
  }
  const LiveExecutable& live = *executable->executable;
  // A thread's first call takes the longer way, and notes the thread.
  epoch::Reader* reader = epoch::mine;
  if (options == nullptr && reader != nullptr) {
    epoch::enter(*reader);
    bool done = run_at_once(live.current().call, inputs, input_count, outputs, output_count);
    epoch::leave(*reader);
    if (done) return nullptr;
  }
  return run_executable(live, inputs, input_count, outputs, output_count, options);
}

tile_error* tile_executable_run_steps(const tile_executable* executable, uint64_t steps,
                                      const tile_feed* feeds, size_t feed_count,
                                      const DLTensor* const* inputs, size_t input_count,
                                      DLTensor* const* outputs, size_t output_count,
                                      const tile_run_options* options) {
  REQUIRE(executable);
  if (feed_count != 0) REQUIRE(feeds);
  const LiveExecutable& live = *executable->executable;
  return guarded(live.source()->source.get(), [&] {
    std::shared_ptr<const Executable> kept = live.snapshot();
    const Executable& e = *kept;
    std::vector<Feed> all;
    for (size_t i = 0; i < feed_count; ++i) all.push_back({feeds[i].output, feeds[i].input});
    check_feeds(e, all);
    std::vector<TensorView> from = input_views(e, inputs, input_count);
    std::vector<TensorView> to = output_views(e, outputs, output_count);
    check_tensors(e, from, to);
    run_as_asked(e, options, [&](const RunOptions& o) { run_steps(e, from, to, all, steps, o); });
  });
}

tile_error* tile_program_run(tile_program* program, const DLTensor* const* inputs,
                             size_t input_count, DLTensor* const* outputs, size_t output_count,
                             const tile_run_options* options) {
  REQUIRE(program);
  LoadedProgram& loaded = *program->loaded;
  epoch::Reader* reader = epoch::mine;
  if (options == nullptr && reader != nullptr) {
    epoch::enter(*reader);
    const Executable* last = loaded.last();
    bool done =
        last != nullptr && run_at_once(last->call, inputs, input_count, outputs, output_count);
    epoch::leave(*reader);
    if (done) {
      loaded.engine()->statistics.executable_hits.add();
      return nullptr;
    }
  }
  return run_program(loaded, inputs, input_count, outputs, output_count, options);
}

tile_error* tile_executable_emit(const tile_executable* executable, const char* stage,
                                 char** text) {
  REQUIRE(text);
  *text = nullptr;
  REQUIRE_ALONE(executable);
  REQUIRE(stage);
  const LiveExecutable& live = *executable->executable;
  return watched(live.source()->source.get(), *live.snapshot()->engine, Stage::compile,
                 [&] { *text = duplicate(emit(*live.snapshot(), stage)); });
}
tile_error* tile_executable_explain(const tile_executable* executable, char** text) {
  REQUIRE(text);
  *text = nullptr;
  REQUIRE_ALONE(executable);
  const LiveExecutable& live = *executable->executable;
  return watched(live.source()->source.get(), *live.snapshot()->engine, Stage::compile,
                 [&] { *text = duplicate(explain(*live.snapshot())); });
}
void tile_string_free(char* text) { std::free(text); }

}  // extern "C"
