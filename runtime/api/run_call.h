// What calls that run something share: their tensors, and what ends them.
#pragma once

#include <functional>

#include "runtime/engine/engine.h"
#include "tile/tile.h"

namespace tile::api {

// The callback that a call is given, else the engine's.
std::function<bool()> cancelled_by(const Engine& engine, const tile_run_options& options);
// Does `work` with what the call asks for; under a control where anything may end it.
void run_as_asked(const Executable& executable, const tile_run_options* given,
                  const std::function<void(const RunOptions&)>& work);

}  // namespace tile::api
