#include "core/nest/races.h"

#include "core/support/diagnostic.h"

namespace tile::nest {

void Races::begin_tasks(bool outermost) {
  if (outermost) first_task_ = last_task_ + 1;
}

void Races::end_tasks(bool outermost) {
  if (outermost) task_ = 0;
}

// Null: of a buffer that each thread has for itself.
Races::Cell* Races::cell(BufferId buffer, int64_t at) {
  Scope scope = nest_.buffers[buffer].scope;
  bool common = scope == Scope::argument || scope == Scope::workspace || scope == Scope::shared;
  if (!common || task_ == 0) return nullptr;
  auto place = static_cast<size_t>(at);
  std::vector<Cell>& cells = cells_[buffer];
  if (cells.size() <= place) cells.resize(2 * place + 16);
  return &cells[place];
}

bool Races::unordered(const Event& e) const {
  if (e.task < first_task_) return false;
  return e.task != task_ || (e.time == time_ && e.thread != thread_);
}

void Races::wrong(BufferId buffer, int64_t at, const std::string& what) const {
  throw InternalError("nest " + nest_.name + ": element " + std::to_string(at) + " of " +
                      nest_.buffers[buffer].name + " " + what);
}

void Races::check(const Event& earlier, BufferId buffer, int64_t at, const char* what) const {
  if (!unordered(earlier)) return;
  std::string by = earlier.task != task_ ? " of another iteration" : "";
  wrong(buffer, at,
        std::string(what) + " thread " + std::to_string(earlier.thread) + by + " and thread " +
            std::to_string(thread_) + " with no barrier between");
}

void Races::load(BufferId buffer, int64_t at) {
  Cell* c = cell(buffer, at);
  if (c == nullptr) return;
  if (c->on_its_way) wrong(buffer, at, "is loaded before the store to it has been waited for");
  check(c->stored, buffer, at, "is stored and loaded by");
  bool same = c->loaded.task == task_ && c->loaded.thread == thread_;
  if (!same) c->loaded_before = c->loaded;
  c->loaded = now();
}

void Races::store(BufferId buffer, int64_t at) {
  Cell* c = cell(buffer, at);
  if (c == nullptr) return;
  if (c->on_its_way) wrong(buffer, at, "is stored before another store to it has been waited for");
  check(c->stored, buffer, at, "is stored twice, by");
  check(c->loaded, buffer, at, "is loaded and stored by");
  check(c->loaded_before, buffer, at, "is loaded and stored by");
  c->stored = now();
}

void Races::begin_store(BufferId buffer, int64_t at) {
  store(buffer, at);
  if (Cell* c = cell(buffer, at)) c->on_its_way = true;
}

void Races::end_store(BufferId buffer, int64_t at, uint32_t thread) {
  uint32_t before = thread_;
  thread_ = thread;
  if (Cell* c = cell(buffer, at)) {
    c->on_its_way = false;
    c->stored = now();
  }
  thread_ = before;
}

}  // namespace tile::nest
