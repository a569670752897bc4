// One thread of the stress test: random calls of the C interface on what all threads share.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "tile/tile.hpp"

namespace tile::stress {

// A program whose result for inputs of equal elements is known.
struct Text {
  const char* text;
  // Of inputs that are `value` everywhere, of rows times columns elements.
  float (*expected)(float value, int64_t rows, int64_t columns);
  bool differentiable;
};

// A program in an engine, as threads share it.
struct Loaded {
  jit::Program program;
  const Text* text;
};
// A handle that several threads run and tune.
struct Handle {
  jit::Executable executable;
  const Text* text;
  int64_t rows, columns;
};

// A place whose value threads exchange; who took it keeps it.
template <class T>
class Shared {
 public:
  std::shared_ptr<T> get() const {
    std::lock_guard lock(mutex_);
    return value_;
  }
  void set(std::shared_ptr<T> value) {
    std::lock_guard lock(mutex_);
    value_.swap(value);
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<T> value_;
};

struct State {
  std::array<Shared<jit::Engine>, 2> engines;
  std::array<Shared<Loaded>, 6> programs;
  std::array<Shared<Handle>, 4> handles;
  std::atomic<uint64_t> calls{0}, wrong{0}, failed{0};
  std::atomic<bool> stop{false};
};

class Worker {
 public:
  Worker(State& state, uint64_t seed) : state_(state), random_(seed) {}
  // Until the state says stop.
  void work();

 private:
  void step();
  std::shared_ptr<jit::Engine> engine();
  std::shared_ptr<Loaded> program();
  int64_t below(int64_t end) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(end));
  }
  void check(const Text& text, const std::vector<float>& result, float value, int64_t rows,
             int64_t columns);

  void make_engine();
  void parse();
  void run_program();
  void compile();
  void run_handle();
  void tune_handle();
  void with_constant();
  void differentiate();
  void look();
  void drop();

  State& state_;
  std::mt19937_64 random_;
};

}  // namespace tile::stress
