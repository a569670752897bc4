#include "runtime/ranks/kept.h"

#include <mutex>
#include <utility>
#include <vector>

namespace tile {

void keep_for_ever(std::shared_ptr<void> memory) {
  static std::mutex mutex;
  static auto* kept = new std::vector<std::shared_ptr<void>>;  // outlives static objects
  std::lock_guard lock(mutex);
  kept->push_back(std::move(memory));
}

}  // namespace tile
