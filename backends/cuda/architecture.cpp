#include "backends/cuda/architecture.h"

#include <array>
#include <charconv>
#include <string>

#include "core/support/diagnostic.h"

namespace tile::cuda {
namespace {

// Limits that differ within a generation; the rest is that of the nearest data-centre part.
struct Limits {
  int capability;
  int64_t shared_per_block;
  int64_t shared_per_multiprocessor;
  int threads_per_multiprocessor;
};
constexpr std::array kLimits = {
    Limits{75, 65536, 65536, 1024},    Limits{80, 166912, 167936, 2048},
    Limits{86, 101376, 102400, 1536},  Limits{87, 166912, 167936, 1536},
    Limits{89, 101376, 102400, 1536},  Limits{90, 232448, 233472, 2048},
    Limits{100, 232448, 233472, 2048}, Limits{103, 232448, 233472, 2048},
    Limits{110, 232448, 233472, 1536}, Limits{120, 101376, 102400, 1536},
    Limits{121, 101376, 102400, 1536}};

const Limits* limits_of(std::string_view name) {
  if (name.substr(0, 3) != "sm_") return nullptr;
  name.remove_prefix(3);
  int capability = 0;
  auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), capability);
  std::string_view suffix(end, static_cast<size_t>(name.data() + name.size() - end));
  bool plain = suffix.empty() || (suffix == "a" && capability >= 90);
  if (error != std::errc() || !plain) return nullptr;
  for (const Limits& limits : kLimits) {
    if (limits.capability == capability) return &limits;
  }
  return nullptr;
}

}  // namespace

Target target_of_architecture(std::string_view name) {
  const Limits* limits = limits_of(name);
  if (limits == nullptr) {
    fail(Stage::compile, "target", {}, "unknown GPU architecture '" + std::string(name) + "'",
         "one of: sm_75, sm_80, sm_86, sm_87, sm_89, sm_90, sm_90a, sm_100a, sm_103a, sm_110a, "
         "sm_120a, sm_121a");
  }
  Target target = limits->capability >= 90 ? h200_target() : a100_target();
  target.features = name;
  target.gpu.capability = limits->capability;
  target.gpu.shared_per_block = limits->shared_per_block;
  target.gpu.shared_per_multiprocessor = limits->shared_per_multiprocessor;
  target.gpu.threads_per_multiprocessor = limits->threads_per_multiprocessor;
  return target;
}

std::string architecture_name(int major, int minor) {
  int capability = major * 10 + minor;
  return "sm_" + std::to_string(capability) + (capability >= 90 ? "a" : "");
}

}  // namespace tile::cuda
