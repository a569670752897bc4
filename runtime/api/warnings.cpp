// Warnings of programs and executables.
#include "core/warnings/warnings.h"

#include "runtime/api/handles.h"
#include "runtime/engine/inspect/program_warnings.h"

using namespace tile;
using namespace tile::api;

extern "C" {

tile_error* tile_program_warnings(const tile_program* program, char** json) {
  REQUIRE(json);
  *json = nullptr;
  REQUIRE(program);
  const Source* source = source_of(program);
  return guarded(source, [&] {
    *json = duplicate(warnings_json(warnings_of(program->loaded->program()), *source));
  });
}

tile_error* tile_executable_warnings(const tile_executable* executable, char** json) {
  REQUIRE(json);
  *json = nullptr;
  REQUIRE_ALONE(executable);
  std::shared_ptr<const Executable> current = executable->executable->snapshot();
  const Source* source = current->source->source.get();
  return timed(source, *current->engine, Stage::bind,
               [&] { *json = duplicate(warnings_json(warnings_of(*current), *source)); });
}

}  // extern "C"
