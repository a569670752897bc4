// Compiling on a thread of the library.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <thread>

#include "programs.h"

namespace tile::test {
namespace {

// What a callback was told.
struct Told {
  std::atomic<int> calls{0};
  std::string code;
  tile_executable* made = nullptr;
  std::thread::id thread;
  ~Told() { tile_executable_free(made); }

  static void take(void* user, tile_error* error, tile_executable* executable) {
    auto& self = *static_cast<Told*>(user);
    self.code = code_of(error);
    self.made = executable;
    self.thread = std::this_thread::get_id();
    ++self.calls;
  }
  static void take_and_throw(void* user, tile_error* error, tile_executable* executable) {
    take(user, error, executable);
    throw 1;
  }
};

class CompilingAsync : public testing::Test {
 protected:
  static constexpr int64_t kSize = 40;
  tile_error* begin(const jit::Program& program, Told& told, tile_compilation** handle,
                    const tile_compile_options* options = nullptr) {
    Given inputs({x()});
    return tile_program_compile_async(program.get(), inputs.data(), inputs.size(), options,
                                      Told::take, &told, handle);
  }
  jit::View x() { return jit::view(x_.data(), {kSize, kSize}); }
  jit::View o() {
    o_.assign(kSize * kSize, -1);
    return jit::view(o_.data(), {kSize, kSize});
  }

  std::vector<float> x_ = integers(kSize * kSize, 1), o_;
};

TEST_F(CompilingAsync, GivesAnExecutableOnAnotherThread) {
  jit::Engine engine(options_of());
  jit::Program program = engine.parse("tile", kChain);
  Told told;
  tile_compilation* handle = nullptr;
  jit::check(begin(program, told, &handle));
  jit::Compilation compilation(handle);
  EXPECT_TRUE(compilation.wait());
  EXPECT_EQ(told.calls, 1);
  EXPECT_EQ(told.code, "");
  EXPECT_NE(told.thread, std::this_thread::get_id());
  ASSERT_NE(told.made, nullptr);
  Given in({x()}), out({o()});
  jit::check(tile_executable_run(told.made, in.data(), 1, out.data(), 1, nullptr));
  std::vector<float> result = o_;
  program.run({x()}, {o()});
  EXPECT_EQ(o_, result);
  EXPECT_EQ(engine.statistics().binds, 1U) << "the run finds what was compiled";
  EXPECT_TRUE(compilation.wait(0));
}

TEST_F(CompilingAsync, TellsErrors) {
  jit::Engine engine(options_of());
  Told told;
  tile_compilation* handle = nullptr;
  jit::Program wrong = engine.parse("tile", "function (A[M, N, L]) -> (O) { O = A; }");
  jit::check(begin(wrong, told, &handle));
  EXPECT_TRUE(jit::Compilation(handle).wait());
  EXPECT_EQ(told.code, "rank");
  EXPECT_EQ(told.made, nullptr);
}

// Once for each of two compilations on the same thread: the first leaves nothing behind.
TEST_F(CompilingAsync, WhoWaitsIsToldThatTheCallbackThrew) {
  jit::Engine engine(options_of());
  jit::Program program = engine.parse("tile", kChain);
  Given in({x()});
  for (int i = 0; i < 2; ++i) {
    Told told;
    tile_compilation* handle = nullptr;
    jit::check(tile_program_compile_async(program.get(), in.data(), 1, nullptr,
                                          Told::take_and_throw, &told, &handle));
    int done = 0;
    EXPECT_EQ(code_of(tile_compilation_wait(handle, -1, &done)), "argument");
    EXPECT_EQ(done, 1);
    EXPECT_EQ(told.calls, 1);
    EXPECT_NE(told.made, nullptr);
    tile_compilation_free(handle);
  }
}

TEST_F(CompilingAsync, ArgumentsAreWrongAtOnce) {
  jit::Engine engine(options_of());
  jit::Program program = engine.parse("tile", kChain);
  Told told;
  tile_compilation* handle = nullptr;
  Given in({x()});
  EXPECT_EQ(code_of(tile_program_compile_async(nullptr, in.data(), 1, nullptr, Told::take, &told,
                                               &handle)),
            "argument");
  EXPECT_EQ(code_of(tile_program_compile_async(program.get(), in.data(), 1, nullptr, nullptr, &told,
                                               &handle)),
            "argument");
  EXPECT_EQ(code_of(tile_program_compile_async(program.get(), nullptr, 1, nullptr, Told::take,
                                               &told, &handle)),
            "argument");
  EXPECT_EQ(code_of(tile_program_compile_async(program.get(), in.data(), 0, nullptr, Told::take,
                                               &told, &handle)),
            "argument");
  tile_compile_options options{};
  EXPECT_EQ(code_of(begin(program, told, &handle, &options)), "argument");
  EXPECT_EQ(handle, nullptr);
  int done = 1;
  EXPECT_EQ(code_of(tile_compilation_wait(nullptr, 0, &done)), "argument");
  EXPECT_EQ(done, 0);
  tile_compilation_cancel(nullptr);
  tile_compilation_free(nullptr);
  EXPECT_EQ(told.calls, 0);
}

// The handles, the tensors and the constants may go at once.
TEST_F(CompilingAsync, KeepsWhatItNeeds) {
  jit::Engine reference(options_of());
  std::vector<float> weights = integers(kSize * kSize, 2), left = x_;
  reference.parse("tile", kProduct).run({x(), jit::view(weights.data(), {kSize, kSize})}, {o()});
  std::vector<float> expected = o_;
  Told told;
  tile_compilation* handle = nullptr;
  {
    jit::Engine engine(options_of());
    jit::Program program = engine.parse("tile", kProduct);
    std::vector<float> gone = weights;
    Given in({x(), jit::view(gone.data(), {kSize, kSize})});
    const size_t constants[] = {1};
    tile_compile_options options{};
    options.struct_size = sizeof options;
    options.constants = constants;
    options.constant_count = 1;
    jit::check(tile_program_compile_async(program.get(), in.data(), 2, &options, Told::take, &told,
                                          &handle));
    gone.assign(gone.size(), 77);
  }
  EXPECT_TRUE(jit::Compilation(handle).wait());
  ASSERT_EQ(told.code, "");
  Given in({x()}), out({o()});
  jit::check(tile_executable_run(told.made, in.data(), 1, out.data(), 1, nullptr));
  EXPECT_EQ(o_, expected);
}

TEST_F(CompilingAsync, Cancelled) {
  jit::Engine engine(options_of());
  // So many kernels that some are still to come.
  std::string text = "function (A[M, N]) -> (O) {\n";
  std::string last = "A";
  for (int i = 0; i < 60; ++i) {
    std::string name = "T" + std::to_string(i);
    text += "  " + name + "[i, j: M, N] = +(" + last + "[i, k] * " + last + "[k, j + " +
            std::to_string(i) + " - j]);\n";
    last = name;
  }
  text += "  O = " + last + ";\n}\n";
  jit::Program program = engine.parse("tile", text);
  Told told;
  tile_compilation* handle = nullptr;
  jit::check(begin(program, told, &handle));
  jit::Compilation compilation(handle);
  compilation.cancel();
  compilation.cancel();
  EXPECT_TRUE(compilation.wait());
  EXPECT_EQ(told.calls, 1);
  EXPECT_EQ(told.code, "cancelled");
}

TEST_F(CompilingAsync, WaitsForSomeTimeOnly) {
  jit::Engine engine(options_of());
  jit::Program program = engine.parse("tile", kChain);
  struct Held {
    std::atomic<bool> go{false};
    std::atomic<int> wait_code{0};
    tile_compilation* handle = nullptr;
    std::atomic<bool> known{false};
  } held;
  auto callback = [](void* user, tile_error* error, tile_executable* made) {
    auto& self = *static_cast<Held*>(user);
    tile_error_free(error);
    tile_executable_free(made);
    while (!self.known) std::this_thread::yield();
    int done = 0;  // within the callback nobody waits
    self.wait_code = code_of(tile_compilation_wait(self.handle, -1, &done)) == "argument" ? 1 : 2;
    while (!self.go) std::this_thread::yield();
  };
  Given in({x()});
  jit::check(tile_program_compile_async(program.get(), in.data(), 1, nullptr, callback, &held,
                                        &held.handle));
  held.known = true;
  jit::Compilation compilation(held.handle);
  EXPECT_FALSE(compilation.wait(5));
  int done = 0;
  EXPECT_EQ(code_of(tile_compilation_wait(compilation.get(),
                                          std::numeric_limits<double>::quiet_NaN(), &done)),
            "argument");
  held.go = true;
  EXPECT_TRUE(compilation.wait(1e300));
  EXPECT_EQ(held.wait_code, 1);
}

// More than there are threads for, some of the same program, most handles freed at once.
TEST_F(CompilingAsync, Many) {
  constexpr int kMany = 40;
  std::vector<Told> told(kMany);
  std::vector<std::unique_ptr<jit::Compilation>> kept;
  {
    jit::Engine engine(options_of());
    for (int i = 0; i < kMany; ++i) {
      std::string text = "function (A[M, N]) -> (O) { O = A * " + std::to_string(i / 4) + "; }";
      tile_compilation* handle = nullptr;
      jit::check(begin(engine.parse("tile", text), told[static_cast<size_t>(i)], &handle));
      if (i % 3 == 0) {
        tile_compilation_free(handle);
      } else {
        kept.push_back(std::make_unique<jit::Compilation>(handle));
      }
    }
  }
  for (const auto& compilation : kept) EXPECT_TRUE(compilation->wait());
  for (Told& t : told) {
    while (t.calls == 0) std::this_thread::yield();
    EXPECT_EQ(t.code, "");
    EXPECT_NE(t.made, nullptr);
  }
}

TEST_F(CompilingAsync, ByTheWrapper) {
  jit::Engine engine(options_of());
  std::atomic<int> good{0};
  {
    jit::Compilation compilation =
        engine.parse("tile", kChain)
            .compile_async(
                {x()}, [&](std::optional<jit::Executable> made, std::shared_ptr<jit::Error> error) {
                  good = made && !error && made->output_shape(0).size() == 2 ? 1 : 2;
                });
    compilation.wait();
  }
  EXPECT_EQ(good, 1);
}

// What handlers at the process's end, which have no arguments, know.
tile_compilation* left_over = nullptr;

// The exit status tells what a wait for ever gave.
constexpr int kCancelled = 11, kElse = 12, kSeconds = 60;
int status_of_wait(tile_compilation* compilation) {
  int done = 1;
  std::string code = code_of(tile_compilation_wait(compilation, -1, &done));
  return code == "cancelled" && done == 0 ? kCancelled : kElse;
}

// More than there are threads for, so that the last one waits for its turn. A callback's `user` is
// a flag that it waits for.
std::vector<tile_compilation*> begin_many(const jit::Engine& engine, const jit::View& x,
                                          tile_compile_callback callback, void* user) {
  std::vector<tile_compilation*> handles;
  int many = 4 + static_cast<int>(std::thread::hardware_concurrency());
  for (int i = 0; i < many; ++i) {
    std::string text = "function (A[M, N]) -> (O) { O = A * " + std::to_string(i) + "; }";
    jit::Program program = engine.parse("tile", text);
    Given in({x});
    handles.push_back(nullptr);
    jit::check(tile_program_compile_async(program.get(), in.data(), in.size(), nullptr, callback,
                                          user, &handles.back()));
  }
  return handles;
}
void take_and_wait(void* flag, tile_error* error, tile_executable* made) {
  tile_error_free(error);
  tile_executable_free(made);
  while (!*static_cast<std::atomic<bool>*>(flag)) std::this_thread::yield();
}

// The library's own handler is then registered behind the test's, and runs before it.
void in_a_new_process() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

// A compilation whose callback never comes keeps nobody waiting: here a handler that the host
// registered before it used the library.
TEST_F(CompilingAsync, NobodyWaitsForWhatTheEndOfTheProcessDrops) {
  in_a_new_process();
  EXPECT_EXIT(
      {
        alarm(kSeconds);
        std::atexit([] { _exit(status_of_wait(left_over)); });
        jit::Engine engine(options_of());
        auto* go = new std::atomic<bool>(false);
        left_over = begin_many(engine, x(), take_and_wait, go).back();
        // Callbacks end when the process is about to.
        std::thread([go] {
          std::this_thread::sleep_for(std::chrono::milliseconds(100));
          *go = true;
        }).detach();
        std::exit(0);
      },
      testing::ExitedWithCode(kCancelled), "");
}

// A callback waits for one that is dropped, and the end of the process for the callback.
TEST_F(CompilingAsync, CallbacksDoNotWaitForWhatTheEndDrops) {
  in_a_new_process();
  EXPECT_EXIT(
      {
        alarm(kSeconds);
        static std::atomic<bool> known{false};
        static std::atomic<bool> called{false};
        static std::atomic<int> status{0};
        std::atexit([] { _exit(status); });
        jit::Engine engine(options_of());
        auto callback = [](void*, tile_error* error, tile_executable* made) {
          tile_error_free(error);
          tile_executable_free(made);
          while (!known) std::this_thread::yield();
          called = true;
          status = status_of_wait(left_over);
        };
        left_over = begin_many(engine, x(), callback, nullptr).back();
        known = true;
        // On a busy machine no worker may have begun: then all of them would be dropped.
        while (!called) std::this_thread::yield();
        std::exit(0);
      },
      testing::ExitedWithCode(kCancelled), "");
}

// The child of a fork has none of the threads that compile.
TEST_F(CompilingAsync, AForkedChildDoesNotWait) {
  jit::Engine engine(options_of());
  std::atomic<bool> go{false};
  std::vector<tile_compilation*> handles = begin_many(engine, x(), take_and_wait, &go);
  pid_t child = fork();
  if (child == 0) {
    alarm(kSeconds);
    int done = 1;
    std::string code = code_of(tile_compilation_wait(handles.back(), -1, &done));
    _exit(code == "fork" && done == 0 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  go = true;
  for (tile_compilation* handle : handles) {
    int done = 0;
    EXPECT_EQ(code_of(tile_compilation_wait(handle, -1, &done)), "");
    EXPECT_EQ(done, 1);
    tile_compilation_free(handle);
  }
}

// The process may end while compilations are under way: at any time of the first ones, in which the
// compiler makes what is destroyed when the process ends.
TEST_F(CompilingAsync, EndsWithTheProcess) {
  for (int milliseconds : {0, 2, 4, 6, 8, 10, 15, 20, 30, 40}) {
    EXPECT_EXIT(
        {
          jit::Engine engine(options_of());
          static auto* told = new std::vector<Told>(50);  // as long as the process
          for (int i = 0; i < 50; ++i) {
            std::string text =
                "function (A[M, N]) -> (O) { T[i, j: M, N] = +(A[i, k] * A[k, j]);"
                " O = T * " +
                std::to_string(i) + "; }";
            jit::check(begin(engine.parse("tile", text), (*told)[static_cast<size_t>(i)], nullptr));
          }
          std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
          std::exit(3);
        },
        testing::ExitedWithCode(3), "")
        << milliseconds;
  }
}

}  // namespace
}  // namespace tile::test
