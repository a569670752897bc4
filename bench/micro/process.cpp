// A whole process of a user's program linked to libtile (micro/start.c), from its start to its end
// with one small product in between: nothing cached, and everything on disk.
#include <benchmark/benchmark.h>
#include <spawn.h>
#include <sys/wait.h>

#include <chrono>
#include <string>
#include <vector>

#include "bench/micro/product.h"

namespace {

using namespace tile::bench;

// Whether the program ran and found its result right.
bool run_process(const std::string& cache_folder, const std::string& size) {
  std::string program = TILE_START_PROGRAM, folder = "TILE_CACHE_DIR=" + cache_folder,
              mode = "TILE_CACHE=rw", path = "PATH=/usr/bin:/bin";
  std::string given = size;
  std::vector<char*> arguments{program.data(), given.data(), nullptr};
  std::vector<char*> environment{folder.data(), mode.data(), path.data(), nullptr};
  pid_t process = 0;
  int status = 0;
  if (posix_spawn(&process, program.c_str(), nullptr, nullptr, arguments.data(),
                  environment.data()) != 0) {
    return false;
  }
  return waitpid(process, &status, 0) == process && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void time_process(benchmark::State& state, const std::string& cache_folder) {
  auto start = std::chrono::steady_clock::now();
  bool right = run_process(cache_folder, std::to_string(state.range(0)));
  state.SetIterationTime(
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  if (!right) state.SkipWithError("the process failed");
}

void process_cold(benchmark::State& state) {
  for (auto _ : state) {
    TemporaryFolder folder;
    time_process(state, folder.path());
  }
}
BENCHMARK(process_cold)->Arg(16)->Arg(64)->Unit(benchmark::kMillisecond)->UseManualTime();

void process_warm(benchmark::State& state) {
  TemporaryFolder folder;
  run_process(folder.path(), std::to_string(state.range(0)));
  for (auto _ : state) time_process(state, folder.path());
}
BENCHMARK(process_warm)->Arg(16)->Arg(64)->Unit(benchmark::kMillisecond)->UseManualTime();

}  // namespace
