// stress SECONDS THREADS SEED: threads parse, compile, run, tune, differentiate, look at and free
// what they share, at random. Fails where a result is wrong or a call fails. Which thread comes
// first is the system's choice: a seed fixes what each one asks for.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "tests/stress/worker.h"

int main(int count, char** arguments) {
  using tile::stress::State;
  using tile::stress::Worker;
  if (count != 4) {
    std::fprintf(stderr, "stress SECONDS THREADS SEED\n");
    return 2;
  }
  int seconds = std::atoi(arguments[1]), threads = std::atoi(arguments[2]);
  auto seed = static_cast<uint64_t>(std::atoll(arguments[3]));
  State state;
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back(
        [&state, seed, t] { Worker(state, seed * 1000 + static_cast<uint64_t>(t)).work(); });
  }
  std::this_thread::sleep_for(std::chrono::seconds(seconds));
  state.stop = true;
  for (std::thread& t : all) t.join();
  std::printf("%llu calls by %d threads in %d s: %llu wrong, %llu failed\n",
              static_cast<unsigned long long>(state.calls), threads, seconds,
              static_cast<unsigned long long>(state.wrong),
              static_cast<unsigned long long>(state.failed));
  return state.wrong == 0 && state.failed == 0 && state.calls > 0 ? 0 : 1;
}
