// Blocks in space and time for runs of several steps of an executable: made where such a run turns
// out to be long, and kept for the next ones.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "runtime/engine/steps/steps_in_blocks.h"

namespace tile {

// Thread safe.
class KnownBlocks {
 public:
  using Feeds = std::vector<std::pair<size_t, size_t>>;  // output, input
  // What is kept for the feeds; `known`: whether something is, be it that there are no blocks.
  std::shared_ptr<const StepsInBlocks> find(const Feeds& feeds, bool& known) const;
  // The first for the same feeds stays, and is returned.
  std::shared_ptr<const StepsInBlocks> keep(const Feeds& feeds,
                                            std::shared_ptr<const StepsInBlocks> blocks);

 private:
  mutable std::mutex mutex_;
  std::map<Feeds, std::shared_ptr<const StepsInBlocks>> of_;
};

// Whether steps of this executable may be run in blocks at all: there is a program to make them of.
bool may_have_blocks(const Executable& executable);
// What is kept with the executable for the feeds; null: nothing is, or there are no blocks.
std::shared_ptr<const StepsInBlocks> known_blocks(const Executable& executable,
                                                  std::span<const Feed> feeds, bool& known);
// Makes them, for about so many steps, and keeps them; null: there are none. Whatever fails leaves
// steps as they are, but for memory that is not there.
std::shared_ptr<const StepsInBlocks> make_blocks(const Executable& executable,
                                                 std::span<const Feed> feeds, int64_t steps);

}  // namespace tile
