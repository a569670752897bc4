// The function of tile.h that tells the times of passes.
#include "runtime/engine/inspect/pass_times.h"

#include "runtime/api/handles.h"

using namespace tile;
using namespace tile::api;

extern "C" {

tile_error* tile_executable_pass_times(const tile_executable* executable, char** json) {
  REQUIRE(json);
  *json = nullptr;
  REQUIRE_ALONE(executable);
  return guarded(nullptr, [&] {
    std::shared_ptr<const Executable> e = executable->executable->snapshot();
    if (!e->pass_times) {
      fail(Stage::run, "argument", {}, "the engine does not measure passes",
           "create it with time_passes");
    }
    *json = duplicate(to_json(*e->pass_times));
  });
}

}  // extern "C"
