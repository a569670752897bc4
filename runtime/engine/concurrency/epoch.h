// Epoch-based reclamation: runs read what a program or an executable shows without a lock or a
// locked instruction, and what was replaced there is freed once no thread is left that may have
// read it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace tile {

// What retire() takes: room for its place among the retired ones, so that retiring cannot fail.
class Retirable {
 public:
  Retirable() = default;
  // Its place belongs to no copy.
  Retirable(const Retirable&) {}
  Retirable& operator=(const Retirable&) { return *this; }

 private:
  friend struct RetiredList;
  mutable std::shared_ptr<const Retirable> self_;
  mutable const Retirable* next_ = nullptr;
  mutable uint64_t epoch_ = 0;

 protected:
  ~Retirable() = default;
};

namespace epoch {

// What one thread tells those who reclaim; nobody else writes its line.
struct alignas(64) Reader {
  std::atomic<uint64_t> since{0};  // the epoch when its outermost section began; 0: it is in none
  std::atomic<bool> taken{false};
  Reader* next = nullptr;
};

extern std::atomic<uint64_t> now;  // never 0
// The thread's reader, where the system can make other threads' stores visible (membarrier), so
// that sections need no fence. One word of the storage that the loader keeps for every thread: an
// access is one instruction.
[[gnu::tls_model("initial-exec")]] extern constinit thread_local Reader* mine;

// The same for the first section of a thread, and for all where there is no such call of the system
// or no memory for a reader. The reader may be null.
struct Slow {
  Reader* reader = nullptr;
  uint64_t outer = 0;
};
Slow enter_slowly() noexcept;
void leave_slowly(const Slow& section) noexcept;

// The shortest section, of a thread that has `mine` and is in no other section.
inline void enter(Reader& reader) {
  // No later read may come before this store: the other half of the barrier is in reclaim().
  reader.since.store(now.load(std::memory_order_acquire), std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
}
inline void leave(Reader& reader) { reader.since.store(0, std::memory_order_release); }

}  // namespace epoch

// While a thread has one, nothing is freed that was visible when it began. Sections nest; what is
// read in one is not kept beyond it. A long section keeps everything that is retired meanwhile.
class ReadSection {
 public:
  ReadSection() noexcept : reader_(epoch::mine) {
    if (reader_ == nullptr) {
      slow_ = epoch::enter_slowly();
      return;
    }
    slow_.outer = reader_->since.load(std::memory_order_relaxed);
    if (slow_.outer == 0) epoch::enter(*reader_);
  }
  ~ReadSection() {
    if (reader_ == nullptr) {
      epoch::leave_slowly(slow_);
    } else {
      reader_->since.store(slow_.outer, std::memory_order_release);
    }
  }
  ReadSection(const ReadSection&) = delete;
  ReadSection& operator=(const ReadSection&) = delete;

 private:
  epoch::Reader* reader_;
  epoch::Slow slow_;
};

// Frees the value, which no thread can come to any more, once the sections are over that it may be
// read in: now, or in a later call of retire() or reclaim().
void retire(std::shared_ptr<const Retirable> value) noexcept;
// Frees what was retired and can be freed by now.
void reclaim() noexcept;

}  // namespace tile
