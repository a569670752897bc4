// Finds accesses of a nest's threads to one element, at least one a store, that no barrier orders:
// those of two iterations of a parallel or grid loop, and those of two threads of a block between
// two barriers. A nest without such pairs does the same whatever the order of its threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/nest/nest.h"

namespace tile::nest {

class Races {
 public:
  explicit Races(const Nest& nest) : nest_(nest), cells_(nest.buffers.size()) {}

  // Iterations of a loop whose iterations are independent; `outermost`: of the first such loop.
  void begin_tasks(bool outermost);
  void begin_task() { task_ = ++last_task_; }
  void end_tasks(bool outermost);
  void barrier() { ++time_; }
  void be_thread(uint32_t thread) { thread_ = thread; }  // 0: what the whole block does
  uint32_t thread() const { return thread_; }

  // Of a buffer that is not a thread's own. Throw InternalError.
  void load(BufferId buffer, int64_t at);
  void store(BufferId buffer, int64_t at);
  // A store that may happen between now and its end: until then the element belongs to nobody.
  void begin_store(BufferId buffer, int64_t at);
  void end_store(BufferId buffer, int64_t at, uint32_t thread);
  // The contents of a buffer are gone.
  void forget(BufferId buffer) { cells_[buffer].clear(); }

 private:
  struct Event {
    uint32_t task = 0, time = 0, thread = 0;
  };
  struct Cell {
    Event stored;
    Event loaded, loaded_before;  // the last, and the last of another thread
    bool on_its_way = false;
  };
  Cell* cell(BufferId buffer, int64_t at);
  bool unordered(const Event& e) const;
  Event now() const { return {task_, time_, thread_}; }
  void check(const Event& earlier, BufferId buffer, int64_t at, const char* what) const;
  [[noreturn]] void wrong(BufferId buffer, int64_t at, const std::string& what) const;

  const Nest& nest_;
  IdVector<BufferId, std::vector<Cell>> cells_;
  uint32_t task_ = 0, last_task_ = 0, first_task_ = 1;
  uint32_t time_ = 1, thread_ = 0;
};

}  // namespace tile::nest
