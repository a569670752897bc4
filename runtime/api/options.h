// The structs of options of tile.h, as the engine has them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <vector>

#include "runtime/engine/engine.h"
#include "tile/tile.h"

namespace tile::api {

// Fields beyond what the caller's struct has stay zero.
template <class Options>
Options given_options(const Options* options) {
  Options copy{};
  if (options == nullptr) return copy;
  if (options->struct_size < sizeof(size_t)) {
    fail(Stage::run, "argument", {}, "struct_size is not set", "set it to sizeof the struct");
  }
  std::memcpy(&copy, options, std::min(options->struct_size, sizeof copy));
  return copy;
}

// A callback's answer; empty for none.
std::function<bool()> polled(tile_cancel_callback cancel, void* user);
// Throws Failure (code "argument"), as the next ones.
EngineOptions engine_options(const tile_engine_options& options);
// Numbers of inputs, of which the program has `inputs`.
std::vector<size_t> constants_of(const tile_compile_options& options, size_t inputs);
// The memory for the temporaries of a run; null: the caller gives none.
std::byte* workspace_of(const Executable& executable, const tile_run_options& options);

}  // namespace tile::api
