// Tile registers of this machine's processor: whether the process may use them, and how fast they
// multiply.
#pragma once

#include <llvm/ADT/StringMap.h>

#include <cstdint>

#include "core/target/target.h"

namespace tile::cpu {

// Those of the host with the rates of such processors beside `fma_per_ns`; none where the processor
// has none or the system, which is asked once, does not let this process use them.
AmxTiles host_tiles(const llvm::StringMap<bool>& features, double fma_per_ns);

// Multiplies tiles of zeros, `kProductsPerCall` of them each call. Only where there are tiles.
constexpr int64_t kProductsPerCall = 1024;
void multiply_tiles_bf16(int64_t calls);
void multiply_tiles_i8(int64_t calls);

}  // namespace tile::cpu
