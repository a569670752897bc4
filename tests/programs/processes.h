// Work in processes of its own, so that a crash, a hang or a lost GPU takes one item only.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace tile::test {

// What one item gave: lines for the caller, and whether its process must end after it.
struct ItemResult {
  std::string line;
  bool last = false;
};

struct Processes {
  int jobs = 1;      // 0: all in the calling process, for tools that watch one
  int seconds = 60;  // an item may take before its process is killed
  uint64_t items_of_a_process = 200;
};

// Does the items first, first + 1, …, each by `work` in some forked process, in no order; calls
// `done` here with each one's line, or with nothing and what ended its process ("signal 11",
// "more than 60 s"). The calling process must have one thread only.
void in_processes(const Processes& how, uint64_t first, uint64_t count,
                  const std::function<ItemResult(uint64_t)>& work,
                  const std::function<void(uint64_t item, const std::string& line,
                                           const std::string& ended)>& done);

}  // namespace tile::test
