#include "backends/cuda/driver/compiler_thread.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "backends/process_end.h"

namespace tile::cuda {
namespace {

constexpr std::chrono::milliseconds kBetweenQuestions{2};
// Beyond so many that are left behind, callers wait for their own: threads do not pile up. A race
// of schedules compiles one on each processor, all of which may be left.
size_t most_left() {
  static const size_t kMost = std::max<size_t>(16, 2 * std::thread::hardware_concurrency());
  return kMost;
}

struct Task {
  explicit Task(CompilerWork given) : work(std::move(given)) {}

  CompilerWork work;
  std::atomic<bool> unwanted{false};
  std::exception_ptr failure;
  bool done = false;  // under the mutex of all
};

// Never destroyed: threads end when they like.
struct Tasks {
  const pid_t process = getpid();
  std::mutex mutex;
  std::condition_variable ended;
  std::list<std::shared_ptr<Task>> left;  // that nobody waits for
};
Tasks& tasks() {
  static auto& all = *new Tasks;
  return all;
}

void wait_for_what_is_left() {
  Tasks& all = tasks();
  if (getpid() != all.process) return;  // a forked child has none of these threads
  std::unique_lock lock(all.mutex);
  all.ended.wait(lock, [&] { return all.left.empty(); });
}

void run(const std::shared_ptr<Task>& task) {
  std::exception_ptr failure;
  try {
    task->work(task->unwanted);
  } catch (...) {
    failure = std::current_exception();
  }
  task->work = nullptr;
  Tasks& all = tasks();
  std::lock_guard lock(all.mutex);
  task->failure = std::move(failure);
  task->done = true;
  all.left.remove(task);
  all.ended.notify_all();
}

// Processor time of another thread, as it passes.
class ThreadTime {
 public:
  explicit ThreadTime(pthread_t thread) : known_(pthread_getcpuclockid(thread, &clock_) == 0) {}
  // Seconds since the last question; the thread has not ended.
  double passed() {
    timespec now{};
    if (!known_ || clock_gettime(clock_, &now) != 0) return 0;
    double seconds = static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
    return seconds - std::exchange(last_, seconds);
  }

 private:
  clockid_t clock_{};
  bool known_;
  double last_ = 0;
};

}  // namespace

void run_on_compiler_thread(Control& control, CompilerWork work) {
  at_process_end(wait_for_what_is_left);
  auto task = std::make_shared<Task>(std::move(work));
  // What may fail for want of memory happens before the thread exists.
  std::list<std::shared_ptr<Task>> place(1, task);
  Tasks& all = tasks();
  std::unique_lock lock(all.mutex);
  std::thread thread;
  try {
    thread = std::thread([task] { run(task); });
  } catch (const std::system_error&) {
    lock.unlock();
    return task->work(task->unwanted);
  }
  // It cannot end before this waits, and its clock lives as long.
  ThreadTime time(thread.native_handle());
  thread.detach();
  while (!all.ended.wait_for(lock, kBetweenQuestions, [&] { return task->done; })) {
    double passed = time.passed();
    lock.unlock();
    control.spend(passed);
    bool over = control.is_over();
    lock.lock();
    if (!over || task->done) continue;
    task->unwanted = true;
    if (all.left.size() >= most_left()) continue;
    all.left.splice(all.left.end(), place);
    lock.unlock();
    throw control.reason({});
  }
  if (task->failure) std::rethrow_exception(task->failure);
}

}  // namespace tile::cuda
