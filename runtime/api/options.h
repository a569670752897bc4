// The structs of options of tile.h, as the engine has them.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "runtime/engine/engine.h"
#include "tile/tile.h"

namespace tile::api {

// A callback's answer; empty for none.
std::function<bool()> polled(tile_cancel_callback cancel, void* user);
// Throws Failure (code "argument"), as the next ones.
EngineOptions engine_options(const tile_engine_options& options);
// Numbers of inputs, of which the program has `inputs`.
std::vector<size_t> constants_of(const tile_compile_options& options, size_t inputs);
// The memory for the temporaries of a run; null: the caller gives none.
std::byte* workspace_of(const Executable& executable, const tile_run_options& options);

}  // namespace tile::api
