#include "core/target/rates.h"

#include <algorithm>

namespace tile {
namespace {

// Of the first-level bandwidth, what the second gives while the core computes.
constexpr double kUsefulBandwidth = 2.0 / 3;

}  // namespace

void apply(const MachineRates& rates, Target& target) {
  auto fma = rates.fma_per_ns.find(target.vector_bits);
  if (fma != rates.fma_per_ns.end() && fma->second > 0) {
    double change = fma->second / target.fma_per_ns;
    target.fma_per_ns = fma->second;
    target.dot_bf16_per_ns *= change;
    target.dot_i16_per_ns *= change;
    target.dot_i8_per_ns *= change;
  }
  auto take = [](double measured, double& constant) {
    if (measured > 0) constant = measured;
  };
  if (target.tiles.bf16_per_ns > 0) take(rates.tile_bf16_per_ns, target.tiles.bf16_per_ns);
  if (target.tiles.i8_per_ns > 0) take(rates.tile_i8_per_ns, target.tiles.i8_per_ns);
  take(kUsefulBandwidth * rates.l2_bytes_per_ns, target.l2_bytes_per_ns);
  take(kUsefulBandwidth * rates.l3_bytes_per_ns, target.l3_bytes_per_ns);
  take(rates.dram_bytes_per_ns, target.dram_bytes_per_ns);
  if (rates.l3_bytes > 0) target.l3_bytes = std::max(rates.l3_bytes, target.l2_bytes);
}

Target without_rates(const Target& target) {
  Target plain = target;
  const Target defaults;
  plain.fma_per_ns = defaults.fma_per_ns;
  plain.dot_bf16_per_ns = defaults.dot_bf16_per_ns;
  plain.dot_i16_per_ns = defaults.dot_i16_per_ns;
  plain.dot_i8_per_ns = defaults.dot_i8_per_ns;
  plain.tiles.bf16_per_ns = defaults.tiles.bf16_per_ns;
  plain.tiles.i8_per_ns = defaults.tiles.i8_per_ns;
  plain.l2_bytes_per_ns = defaults.l2_bytes_per_ns;
  plain.l3_bytes_per_ns = defaults.l3_bytes_per_ns;
  plain.dram_bytes_per_ns = defaults.dram_bytes_per_ns;
  plain.l3_bytes = defaults.l3_bytes;
  return plain;
}

}  // namespace tile
