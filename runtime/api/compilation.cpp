// Compiling on a thread of the library's own.
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

using namespace tile;
using namespace tile::api;

namespace {

// What a handle and the thread that compiles share.
struct Progress {
  std::atomic<bool> cancelled{false};
  std::mutex mutex;
  std::condition_variable changed;
  std::thread::id thread;  // that is in the callback
  bool done = false;

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
};

struct Compilation {
  std::shared_ptr<LoadedProgram> loaded;
  LoadedProgram::Request request;
  tile_compile_callback callback;
  void* user;
  std::shared_ptr<Progress> progress;

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
    callback(user, error, made);
    progress->finish();
  }

 private:
  bool is_over(const EngineOptions& options) const {
    return progress->cancelled || background_is_ending() ||
           (options.cancelled && options.cancelled());
  }
};

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
    std::vector<TensorView> views =
        input_views(loaded.defaults(), nullptr, inputs, input_count, false);
    auto progress = std::make_shared<Progress>();
    auto job = std::make_shared<Compilation>(
        Compilation{program->loaded, loaded.request(views, constants), callback, user, progress});
    auto handle = std::make_unique<tile_compilation>();
    handle->progress = progress;
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
    std::unique_lock lock(progress.mutex);
    if (progress.thread == std::this_thread::get_id()) {
      fail(Stage::run, "argument", {}, "a compilation's callback cannot wait for itself");
    }
    auto is_done = [&] { return progress.done; };
    // More than a clock counts is for ever.
    constexpr double kMost = 1e12;
    if (timeout_ms < 0 || timeout_ms > kMost) {
      progress.changed.wait(lock, is_done);
    } else {
      std::chrono::duration<double, std::milli> most(timeout_ms);
      progress.changed.wait_for(lock, most, is_done);
    }
    *done = progress.done ? 1 : 0;
  });
}

void tile_compilation_cancel(tile_compilation* compilation) {
  if (compilation != nullptr) compilation->progress->cancelled = true;
}
void tile_compilation_free(tile_compilation* compilation) { delete compilation; }

}  // extern "C"
