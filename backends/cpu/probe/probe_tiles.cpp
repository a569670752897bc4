#include "backends/cpu/probe/probe_tiles.h"

#if defined(__x86_64__) && defined(__linux__)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#define TILE_HAS_TILES 1
#else
#define TILE_HAS_TILES 0
#endif

namespace tile::cpu {

#if TILE_HAS_TILES
namespace {

// Linux keeps the state of tile registers only for processes that have asked for it.
bool granted() {
  constexpr long kAskForState = 0x1023, kTileData = 18;
  static const bool kGranted = syscall(SYS_arch_prctl, kAskForState, kTileData) == 0;
  return kGranted;
}

struct alignas(64) Configuration {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr Configuration kWhole;

constexpr int64_t kTogether = 4;  // products of the two halves of two operands

}  // namespace

__attribute__((target("amx-tile,amx-bf16"))) void multiply_tiles_bf16(int64_t calls) {
  _tile_loadconfig(&kWhole);
  for (int64_t i = 0; i < calls * (kProductsPerCall / kTogether); ++i) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
}

__attribute__((target("amx-tile,amx-int8"))) void multiply_tiles_i8(int64_t calls) {
  _tile_loadconfig(&kWhole);
  for (int64_t i = 0; i < calls * (kProductsPerCall / kTogether); ++i) {
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 4, 7);
    _tile_dpbssd(2, 5, 6);
    _tile_dpbssd(3, 5, 7);
  }
  _tile_release();
}
#else
namespace {
bool granted() { return false; }
}  // namespace
void multiply_tiles_bf16(int64_t) {}
void multiply_tiles_i8(int64_t) {}
#endif

AmxTiles host_tiles(const llvm::StringMap<bool>& features, double fma_per_ns) {
  constexpr double kPairs = 16, kFours = 32;  // of one instruction's time, in f32 multiply-adds
  AmxTiles tiles;
  bool bf16 = features.lookup("amx-bf16"), i8 = features.lookup("amx-int8");
  if (!features.lookup("amx-tile") || !(bf16 || i8) || !granted()) return tiles;
  tiles.count = 8;
  if (bf16) tiles.bf16_per_ns = kPairs * fma_per_ns;
  if (i8) tiles.i8_per_ns = kFours * fma_per_ns;
  return tiles;
}

}  // namespace tile::cpu
