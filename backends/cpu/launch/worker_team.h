// The threads that help a caller with its parallel loops, and stay near for the next one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <type_traits>
#include <vector>

#include "backends/host_services.h"
#include "core/support/control.h"

namespace tile::cpu {

// A thread's helpers. They are tasks of oneTBB in the arena of the caller, so that the host decides
// how many threads there are; but a helper that has done its part of a job watches for the caller's
// next one for some microseconds before it goes back. Jobs that follow each other closely thus
// begin and end in some hundred nanoseconds (seen: 0.6 us, where a parallel loop of oneTBB took 2).
// A job waits for nobody who has not come: it is done when those who take part in it are.
class WorkerTeam {
 public:
  // The calling thread's. It is never destroyed, as helpers may watch it after the thread has
  // ended, and then serves another thread.
  static WorkerTeam& mine();

  WorkerTeam() = default;
  WorkerTeam(const WorkerTeam&) = delete;
  WorkerTeam& operator=(const WorkerTeam&) = delete;

  // Calls job(0) on this thread, and job(1) … job(workers - 1) on helpers that come meanwhile, each
  // number once at most: job(0) alone must do all that then is left to do. Helpers call a copy of
  // the job. Returns when all calls have, and throws what one of them threw. Only the team's thread
  // may call it; a job that begins a job does that one alone. `workers` >= 1; those beyond kMost
  // are not asked. `control`, if any, is asked while the thread waits for helpers. `pool`: the
  // host's threads are the helpers, and the host may leave calls out, repeat them or be late with
  // them: the rules above hold all the same. Null: tasks of oneTBB.
  template <class Job>
  void run(int64_t workers, const Job& job, Control* control = nullptr,
           const ParallelFor* pool = nullptr) {
    static_assert(sizeof(Job) <= sizeof(Work::job) && std::is_trivially_copyable_v<Job>,
                  "a job is copied into one line with its number: capture references");
    Work work;
    work.call = [](const void* j, int64_t worker) { (*static_cast<const Job*>(j))(worker); };
    std::memcpy(work.job, &job, sizeof(Job));
    run_job(workers, work, control, pool);
  }

  static constexpr int64_t kMost = 1024;

 private:
  struct Work {
    void (*call)(const void* job, int64_t worker) = nullptr;
    alignas(8) std::byte job[40] = {};
    void operator()(int64_t worker) const { call(job, worker); }
  };
  struct Helper;
  struct Lease;

  size_t make_helpers(size_t wanted);
  void run_job(int64_t workers, const Work& work, Control* control, const ParallelFor* pool);
  void run_on_host(int64_t workers, const Work& work, const ParallelFor& pool);
  static void host_task(void* team, size_t i);
  void rethrow();
  void do_job(const Work& work, size_t helpers, Control* control);
  bool are_here(size_t helpers) const;
  void ask(size_t helpers);
  void withdraw(size_t helpers);
  void help(Helper& helper);
  bool watch(Helper& helper);
  bool join(Helper& helper);
  void keep_failure();

  // What a helper must know to begin is in one line, which the owner writes and helpers read.
  struct alignas(64) Posted {
    std::atomic<uint64_t> word{0};  // the job's number, and for how many workers it is; 0: closed
    Work work;
  };
  Posted posted_;
  // A job that the host's threads do. A task of theirs says that it is there and then looks whether
  // the job is open, the owner closes it and then looks who is there: a task that comes after its
  // job has ended finds it closed, or helps with the job that the team has then.
  struct Hosted {
    std::atomic<bool> open{false};
    std::atomic<int64_t> present{0};
    std::atomic<int64_t> next{0};  // number to be given
    int64_t workers = 0;
    Work work;
  };
  alignas(64) Hosted hosted_;
  alignas(64) uint64_t number_ = 0;
  bool busy_ = false;
  std::atomic<bool> failed_{false};
  std::exception_ptr failure_;
  std::vector<std::unique_ptr<Helper>> helpers_;
  WorkerTeam* next_ = nullptr;  // of those that nobody uses
};

}  // namespace tile::cpu
