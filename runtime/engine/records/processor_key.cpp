#include "runtime/engine/records/processor_key.h"

#include <unistd.h>

namespace tile {

std::string processor_key(const Backend& backend, const Target& target,
                          const std::string& skipped_passes) {
  std::string key = target.device;
  auto add = [&](const std::string& word) {
    if (!word.empty()) key += " " + word;
  };
  auto number = [&](const char* name, int64_t value) { add(name + std::to_string(value)); };
  add("[" + backend.processor() + "]");
  // Of a CPU the name that LLVM gives it, or the level that code is limited to.
  add(target.features.substr(0, target.features.find(' ')));
  number("threads=", target.threads);
  if (is_gpu(target)) {
    number("multiprocessors=", target.gpu.multiprocessors);
    number("shared=", target.gpu.shared_per_multiprocessor);
    number("l2=", target.l2_bytes);
    add("precision=" + std::string(to_string(target.precision)));
    number("strict_skip=", target.strict_skip ? 1 : 0);
  } else {
    number("vectors=", target.vector_bits);
    number("tiles=", target.tiles.count);
    number("l1=", target.l1_bytes);
    number("l2=", target.l2_bytes);
  }
  if (!skipped_passes.empty()) add("without=" + skipped_passes);
  return key;
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

}  // namespace tile
