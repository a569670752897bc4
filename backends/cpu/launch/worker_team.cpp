#include "backends/cpu/launch/worker_team.h"

#include <tbb/task_arena.h>
#include <tbb/task_group.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <mutex>
#include <utility>

#include "backends/cpu/launch/spin.h"
#include "backends/cpu/launch/thread_supply.h"
#include "backends/fork.h"
#include "backends/host_calls.h"
#include "backends/thread_exit.h"

namespace tile::cpu {
namespace {

constexpr int kLooks = 32;  // of a watching helper, between two looks at the clock
constexpr std::chrono::microseconds kStay{20};

// The word of an open job; workers fit, as do the numbers of a century's jobs.
constexpr int kWorkersBits = 16;
uint64_t opened(uint64_t number, int64_t workers) {
  return number << kWorkersBits | static_cast<uint64_t>(workers);
}
int64_t workers_of(uint64_t word) {
  return static_cast<int64_t>(word & ((uint64_t{1} << kWorkersBits) - 1));
}

// WorkerTeams of threads that have ended, for those that begin.
struct Pool {
  constexpr Pool() = default;
  std::mutex mutex;
  WorkerTeam* first = nullptr;
};
constinit Pool pool;  // without a destructor: threads may end after all else has

}  // namespace

// One place for a helper. The owner asks and withdraws, the helper comes and goes: each step is the
// exchange of one state for another, which only one of them can win.
struct alignas(64) WorkerTeam::Helper {
  enum State { away, asked, here, lost };
  explicit Helper(int64_t number) : worker(number) {}
  bool change(State from, State to) { return state.compare_exchange_strong(from, to); }
  // Whether the job is for this helper, which has not been at it.
  bool is_wanted(uint64_t word) const {
    return workers_of(word) > worker && done.load(std::memory_order_relaxed) != word;
  }

  const int64_t worker;
  std::atomic<State> state{away};
  // A group of tasks that lives on must not belong to the host's group in which it was first run:
  // that one may be cancelled, and ends.
  tbb::task_group_context context{tbb::task_group_context::isolated};
  tbb::task_group task{context};
  // Only the helper writes this line: the jobs that it begins, and those that it has done.
  alignas(64) std::atomic<uint64_t> begun{0};
  std::atomic<uint64_t> done{0};
};

// Giving back takes no memory.
struct WorkerTeam::Lease : ThreadExit {
  WorkerTeam* team = nullptr;
  // In a forked child another thread may have held the pool's lock for ever.
  void take() {
    at_thread_exit(*this, [](ThreadExit& self) { static_cast<Lease&>(self).give_back(); });
    if (helpers_are_lost()) {
      team = new WorkerTeam;
      return;
    }
    std::lock_guard lock(pool.mutex);
    team = pool.first != nullptr ? std::exchange(pool.first, pool.first->next_) : new WorkerTeam;
  }
  void give_back() {
    if (team == nullptr || helpers_are_lost()) return;
    std::lock_guard lock(pool.mutex);
    team->next_ = std::exchange(pool.first, team);
    team = nullptr;
  }
};

WorkerTeam& WorkerTeam::mine() {
  [[gnu::tls_model("initial-exec")]] constinit thread_local Lease lease;
  if (lease.team == nullptr) lease.take();
  return *lease.team;
}

// Fewer where there is no memory for more.
size_t WorkerTeam::make_helpers(size_t wanted) {
  try {
    while (helpers_.size() < wanted) {
      helpers_.push_back(std::make_unique<Helper>(static_cast<int64_t>(helpers_.size()) + 1));
    }
  } catch (const std::exception&) {
  }
  return std::min(wanted, helpers_.size());
}

void WorkerTeam::run_job(int64_t workers, const Work& work, Control* control,
                         const ParallelFor* pool) {
  if (workers <= 1 || busy_) return work(0);
  if (pool != nullptr) return run_on_host(std::min(workers, kMost), work, *pool);
  if (helpers_are_lost()) return work(0);
  size_t helpers = make_helpers(static_cast<size_t>(std::min(workers, kMost)) - 1);
  busy_ = true;
  posted_.work = work;
  // No fence: a helper that leaves just now looks at the word once more after some time. Should
  // both miss each other, the owner does this one job without it.
  posted_.word.store(opened(++number_, static_cast<int64_t>(helpers) + 1),
                     std::memory_order_release);
  bool is_done = are_here(helpers);
  if (is_done) {
    do_job(work, helpers, control);
  } else {
    // While it waits for a helper that has come too late, the thread takes up none of the host's
    // own tasks: one of them could run another program and use this thread's temporaries.
    limit_threads_to_supply();
    try {
      tbb::this_task_arena::isolate([&] {
        ask(helpers);
        do_job(work, helpers, control);
        is_done = true;
        withdraw(helpers);
      });
    } catch (const std::exception&) {  // oneTBB has no memory or threads; what jobs throw is kept
    }
    if (!is_done) do_job(work, helpers, control);
  }
  busy_ = false;
  rethrow();
}

void WorkerTeam::rethrow() {
  if (!failed_.load(std::memory_order_relaxed)) return;
  failed_.store(false, std::memory_order_relaxed);
  std::rethrow_exception(std::exchange(failure_, nullptr));
}

void WorkerTeam::run_on_host(int64_t workers, const Work& work, const ParallelFor& pool) {
  busy_ = true;
  hosted_.work = work;
  hosted_.workers = workers;
  hosted_.next = 0;
  hosted_.open = true;
  try {
    run_on(pool, static_cast<size_t>(workers), host_task, this);
  } catch (...) {
    keep_failure();
  }
  // What the host has left out: one worker does all that is left to do.
  host_task(this, 0);
  hosted_.open = false;
  for (Spin spin; hosted_.present.load() != 0;) spin.next();
  busy_ = false;
  rethrow();
}

// Nothing is thrown through the host. Which number the host has for the task does not matter.
void WorkerTeam::host_task(void* team, size_t) {
  auto& self = *static_cast<WorkerTeam*>(team);
  Hosted& job = self.hosted_;
  job.present.fetch_add(1);
  if (job.open.load()) {
    int64_t worker = job.next.fetch_add(1);
    if (worker < job.workers) {
      try {
        job.work(worker);
      } catch (...) {
        self.keep_failure();
      }
    }
  }
  job.present.fetch_sub(1);
}

// A helper first says that it begins and then looks whether the job is still open, the owner first
// closes it and then looks who has begun: one of the two sees the other. Where all have begun
// nobody needs to be kept out.
void WorkerTeam::do_job(const Work& work, size_t helpers, Control* control) {
  try {
    work(0);
  } catch (...) {
    keep_failure();
  }
  uint64_t word = posted_.word.load(std::memory_order_relaxed);
  bool is_closed = false;
  for (size_t h = 0; h < helpers; ++h) {
    const Helper& helper = *helpers_[h];
    if (!is_closed && helper.begun.load(std::memory_order_relaxed) != word) {
      posted_.word.store(0);
      is_closed = true;
    }
    if (helper.begun.load() != word) continue;
    for (Spin spin; helper.done.load(std::memory_order_acquire) != word;) {
      if (spin.next() && control != nullptr) control->is_over();
    }
  }
}

void WorkerTeam::keep_failure() {
  if (!failed_.exchange(true)) failure_ = std::current_exception();
}

bool WorkerTeam::are_here(size_t helpers) const {
  return std::all_of(helpers_.begin(), helpers_.begin() + static_cast<std::ptrdiff_t>(helpers),
                     [](const auto& h) { return h->state.load() == Helper::here; });
}

void WorkerTeam::ask(size_t helpers) {
  note_helpers();
  for (size_t i = 0; i < helpers; ++i) {
    Helper& helper = *helpers_[i];
    if (!helper.change(Helper::away, Helper::asked)) continue;
    try {
      helper.task.run([this, &helper] { help(helper); });
    } catch (const std::exception&) {
      // No memory for the task: the job is done with those that are here. The group may count a
      // task that never comes, so it is waited for no more.
      helper.state = Helper::lost;
      return;
    }
  }
}

// A task that nobody has taken up is this thread's to end; one that begins just now ends at once.
void WorkerTeam::withdraw(size_t helpers) {
  for (size_t i = 0; i < helpers; ++i) {
    Helper& helper = *helpers_[i];
    if (helper.change(Helper::asked, Helper::away)) helper.task.wait();
  }
}

void WorkerTeam::help(Helper& helper) {
  if (!helper.change(Helper::asked, Helper::here)) return;
  do {
    while (watch(helper)) {
    }
    helper.state = Helper::away;
    for (int i = 0; i < kLooks; ++i) pause();
    // The owner of a job that began meanwhile may count on this helper, or have asked for another.
  } while (helper.is_wanted(posted_.word.load()) && helper.change(Helper::away, Helper::here));
}

// Helps with the next job; false: none began while the helper stayed.
bool WorkerTeam::watch(Helper& helper) {
  auto end = std::chrono::steady_clock::now() + kStay;
  do {
    for (int i = 0; i < kLooks; ++i, pause()) {
      if (join(helper)) return true;
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

bool WorkerTeam::join(Helper& helper) {
  uint64_t word = posted_.word.load(std::memory_order_relaxed);
  if (!helper.is_wanted(word)) return false;
  helper.begun.store(word);
  if (posted_.word.load() != word) {
    // The owner may have seen that it begins, and waits.
    helper.done.store(word, std::memory_order_release);
    return false;
  }
  try {
    posted_.work(helper.worker);
  } catch (...) {
    keep_failure();
  }
  helper.done.store(word, std::memory_order_release);
  return true;
}

}  // namespace tile::cpu
