#include "runtime/engine/concurrency/epoch.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <new>

#include "backends/fork.h"

namespace tile {

// The values retired and not yet freed, the latest first.
struct RetiredList {
  void add(std::shared_ptr<const Retirable> value, uint64_t epoch) {
    const Retirable& r = *value;
    r.epoch_ = epoch;
    r.next_ = first;
    r.self_ = std::move(value);
    first = &r;
  }
  // Those retired before the epoch.
  RetiredList taken_before(uint64_t epoch) {
    RetiredList old;
    for (const Retirable** at = &first; *at != nullptr;) {
      const Retirable* r = *at;
      if (r->epoch_ < epoch) {
        *at = r->next_;
        r->next_ = old.first;
        old.first = r;
      } else {
        at = &r->next_;
      }
    }
    return old;
  }
  void free() {
    while (first != nullptr) {
      const Retirable* r = first;
      first = r->next_;
      r->next_ = nullptr;
      std::shared_ptr<const Retirable> last = std::move(r->self_);
    }
  }
  const Retirable* first = nullptr;
};

namespace epoch {

constinit std::atomic<uint64_t> now{1};
constinit thread_local Reader* mine = nullptr;

namespace {

// Sections of threads without a reader: while there are any, nothing is freed.
constinit std::atomic<uint64_t> unlisted{0};
// Never freed, as threads may end after everything else. Readers of threads that have ended serve
// others.
constinit std::atomic<Reader*> readers{nullptr};
constinit std::mutex mutex;  // of `retired`
constinit RetiredList retired;
constinit std::atomic<bool> any_retired{false};

bool barrier(int command) { return syscall(SYS_membarrier, command, 0, 0) == 0; }

// Whether reclaim() can make every thread's stores visible, so that sections need no fence.
bool has_barrier() {
  static const bool known = barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
  return known;
}

void end_of_thread(void* reader) {
  mine = nullptr;
  static_cast<Reader*>(reader)->taken.store(false, std::memory_order_release);
}

// Calls end_of_thread() when a thread ends. (A thread_local object would do it too, but where the C
// library has no memory to note its destructor, it ends the process.)
pthread_key_t* key_of_threads() {
  static pthread_key_t key;
  static const bool made = pthread_key_create(&key, end_of_thread) == 0;
  return made ? &key : nullptr;
}

Reader* free_reader() {
  for (Reader* r = readers.load(std::memory_order_acquire); r != nullptr; r = r->next) {
    bool taken = false;
    if (r->taken.compare_exchange_strong(taken, true, std::memory_order_acq_rel)) return r;
  }
  auto* r = new (std::nothrow) Reader;
  if (r == nullptr) return nullptr;
  r->taken.store(true, std::memory_order_relaxed);
  r->next = readers.load(std::memory_order_relaxed);
  while (!readers.compare_exchange_weak(r->next, r, std::memory_order_acq_rel)) {
  }
  return r;
}

// The calling thread's; null: there is no memory for one.
Reader* enrolled() noexcept {
  pthread_key_t* key = key_of_threads();
  if (key == nullptr) return nullptr;
  if (auto* known = static_cast<Reader*>(pthread_getspecific(*key))) return known;
  Reader* r = free_reader();
  if (r == nullptr) return nullptr;
  if (pthread_setspecific(*key, r) != 0) {
    r->taken.store(false, std::memory_order_release);
    return nullptr;
  }
  if (has_barrier()) mine = r;
  return r;
}

// The epoch that began before every section under way.
uint64_t oldest_section() {
  if (has_barrier() && !barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) return 0;
  if (unlisted.load() != 0) return 0;
  uint64_t oldest = UINT64_MAX;
  for (Reader* r = readers.load(std::memory_order_acquire); r != nullptr; r = r->next) {
    uint64_t since = r->since.load(std::memory_order_seq_cst);
    if (since != 0) oldest = std::min(oldest, since);
  }
  return oldest;
}

}  // namespace

Slow enter_slowly() noexcept {
  Slow section;
  section.reader = enrolled();
  if (section.reader == nullptr) {
    unlisted.fetch_add(1);
    return section;
  }
  section.outer = section.reader->since.load(std::memory_order_relaxed);
  // The fence that a system with the barrier does without.
  if (section.outer == 0) section.reader->since.store(now.load(), std::memory_order_seq_cst);
  return section;
}

void leave_slowly(const Slow& section) noexcept {
  if (section.reader == nullptr) {
    unlisted.fetch_sub(1);
  } else {
    section.reader->since.store(section.outer, std::memory_order_release);
  }
}

}  // namespace epoch

void retire(std::shared_ptr<const Retirable> value) noexcept {
  if (!value) return;
  if (locks_are_lost()) {  // in a forked child, which keeps it
    static_cast<void>(new (std::nothrow) std::shared_ptr<const Retirable>(std::move(value)));
    return;
  }
  LockingCall call;
  {
    std::lock_guard lock(epoch::mutex);
    epoch::retired.add(std::move(value), epoch::now.fetch_add(1, std::memory_order_seq_cst));
    epoch::any_retired.store(true, std::memory_order_relaxed);
  }
  reclaim();
}

void reclaim() noexcept {
  if (!epoch::any_retired.load(std::memory_order_relaxed) || locks_are_lost()) return;
  LockingCall call;
  RetiredList old;
  {
    std::lock_guard lock(epoch::mutex);
    old = epoch::retired.taken_before(epoch::oldest_section());
    epoch::any_retired.store(epoch::retired.first != nullptr, std::memory_order_relaxed);
  }
  old.free();  // without the lock: destructors may retire
}

}  // namespace tile
