// The calls of the driver that the fake one has: those that the backend uses, by their names.
#pragma once

#include "backends/cuda/driver/driver.h"

namespace tile_fake {
#define TILE_FAKE_DECLARE(name) decltype(::name) fake_##name;
TILE_CUDA_FUNCTIONS(TILE_FAKE_DECLARE)
#undef TILE_FAKE_DECLARE
}  // namespace tile_fake
