#include "backends/cuda/architecture.h"

#include <string>

#include "core/support/diagnostic.h"

namespace tile::cuda {

Target target_of_architecture(std::string_view name) {
  std::optional<Target> target = gpu_target(name);
  if (!target || target->gpu.capability < 75) {
    fail(Stage::compile, "target", {}, "unknown GPU architecture '" + std::string(name) + "'",
         "one of: sm_75, sm_80, sm_86, sm_87, sm_89, sm_90a, sm_100a, sm_103a, sm_120a, sm_121a");
  }
  return *target;
}

std::string architecture_name(int major, int minor) {
  int capability = major * 10 + minor;
  return "sm_" + std::to_string(capability) + (capability >= 90 ? "a" : "");
}

}  // namespace tile::cuda
