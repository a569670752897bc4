// Compiling on a thread of the library's own.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "backends/fork.h"
#include "runtime/api/handles.h"
#include "runtime/api/options.h"
#include "runtime/engine/concurrency/background.h"
#include "runtime/engine/concurrency/wait_clock.h"

using namespace tile;
using namespace tile::api;

namespace {

// What a handle and the thread that compiles share.
struct Progress {
  std::atomic<bool> cancelled{false};
  std::mutex mutex;
  std::condition_variable changed;
  std::thread::id thread;  // that is in the callback
  std::atomic<bool> done{false};
  bool threw = false;    // the callback; set before `done`
  bool dropped = false;  // the callback is never called
  const pid_t process = getpid();

  void enter_callback() {
    std::lock_guard lock(mutex);
    thread = std::this_thread::get_id();
  }
  void finish() {
    std::lock_guard lock(mutex);
    thread = {};
    done = true;
    changed.notify_all();
  }
  void drop() {
    std::lock_guard lock(mutex);
    dropped = !done;
    changed.notify_all();
  }
  // What is known at the end of a wait.
  void tell(int& is_done) const {
    is_done = done ? 1 : 0;
    if (is_done != 0 && threw) {
      fail(Stage::run, "argument", {}, "the callback threw", "callbacks must not throw");
    }
  }
  bool is_over() const { return done || dropped || background_is_ending(); }
};

struct Compilation {
  Compilation(std::shared_ptr<LoadedProgram> program, LoadedProgram::Request asked,
              tile_compile_callback call, void* argument)
      : loaded(std::move(program)), request(std::move(asked)), callback(call), user(argument) {}
  ~Compilation() { progress->drop(); }
  Compilation(const Compilation&) = delete;
  Compilation& operator=(const Compilation&) = delete;

  std::shared_ptr<LoadedProgram> loaded;
  LoadedProgram::Request request;
  tile_compile_callback callback;
  void* user;
  std::shared_ptr<Progress> progress = std::make_shared<Progress>();

  // The callback gets what was made, or why nothing was.
  void run() noexcept {
    tile_executable* made = nullptr;
    tile_error* error = guarded(loaded->program().source.get(), [&] {
      const EngineOptions& options = loaded->engine()->options();
      CallControl control(Stage::compile, [&] { return is_over(options); });
      Controlled now(&control, &options.limits);
      checkpoint_at({});
      auto handle = std::make_unique<tile_executable>();
      handle->executable = loaded->live(std::move(request));
      made = handle.release();
    });
    loaded.reset();
    if (background_is_ending()) {
      tile_executable_free(made);
      tile_error_free(error);
      return;
    }
    progress->enter_callback();
    try {
      callback(user, error, made);
    } catch (...) {  // nobody above this thread could be told; who waits is
      progress->threw = true;
    }
    progress->finish();
  }

 private:
  bool is_over(const EngineOptions& options) const {
    return progress->cancelled || background_is_ending() ||
           (options.cancelled && options.cancelled());
  }
};

// Until the progress is over, or for so many milliseconds (negative: for ever). Nobody is told that
// the process ends: it is looked at now and then.
void wait_for_end(Progress& progress, std::unique_lock<std::mutex>& lock, double timeout_ms) {
  constexpr auto kLook = std::chrono::milliseconds(20);
  constexpr double kMost = 1e12;  // more than a clock counts is for ever
  bool forever = timeout_ms < 0 || timeout_ms > kMost;
  auto end = WaitClock::now();
  if (!forever) {
    std::chrono::duration<double, std::milli> most(timeout_ms);
    end += std::chrono::duration_cast<WaitClock::duration>(most);
  }
  while (!progress.is_over() && (forever || WaitClock::now() < end)) {
    auto next = WaitClock::now() + kLook;
    progress.changed.wait_until(lock, forever ? next : std::min(next, end));
  }
}

}  // namespace

struct tile_compilation {
  std::shared_ptr<Progress> progress;
};

extern "C" {

tile_error* tile_program_compile_async(tile_program* program, const DLTensor* const* inputs,
                                       size_t input_count, const tile_compile_options* options,
                                       tile_compile_callback callback, void* user,
                                       tile_compilation** compilation) {
  if (compilation != nullptr) *compilation = nullptr;
  REQUIRE(program);
  REQUIRE(callback);
  return guarded(source_of(program), [&] {
    LockingCall call;
    LoadedProgram& loaded = *program->loaded;
    tile_compile_options given = given_options(options);
    if (given.mesh != nullptr) {
      fail(Stage::run, "argument", {}, "a program is not compiled for a mesh in the background");
    }
    std::vector<size_t> constants = constants_of(given, loaded.program().inputs.size());
    std::vector<TensorView> views = input_views(loaded, inputs, input_count, false);
    auto job = std::make_shared<Compilation>(program->loaded, loaded.request(views, constants),
                                             callback, user);
    auto handle = std::make_unique<tile_compilation>();
    handle->progress = job->progress;
    run_in_background([job] { job->run(); });
    if (compilation != nullptr) *compilation = handle.release();
  });
}

tile_error* tile_compilation_wait(tile_compilation* compilation, double timeout_ms, int* done) {
  REQUIRE(done);
  *done = 0;
  REQUIRE(compilation);
  return guarded(nullptr, [&] {
    if (std::isnan(timeout_ms)) fail(Stage::run, "argument", {}, "timeout_ms is not a number");
    Progress& progress = *compilation->progress;
    progress.tell(*done);
    if (*done != 0) return;
    // Its lock may be held by a thread that this process does not have.
    if (progress.process != getpid()) {
      fail(Stage::run, "fork", {}, "the process was forked: its parent's compilations do not end",
           "compile again");
    }
    std::unique_lock lock(progress.mutex);
    if (progress.thread == std::this_thread::get_id()) {
      fail(Stage::run, "argument", {}, "a compilation's callback cannot wait for itself");
    }
    wait_for_end(progress, lock, timeout_ms);
    progress.tell(*done);
    if (*done == 0 && progress.is_over()) {
      fail(Stage::run, "cancelled", {}, "the process ends: the callback is not called any more");
    }
  });
}

void tile_compilation_cancel(tile_compilation* compilation) {
  if (compilation != nullptr) compilation->progress->cancelled = true;
}
void tile_compilation_free(tile_compilation* compilation) { delete compilation; }

}  // extern "C"
