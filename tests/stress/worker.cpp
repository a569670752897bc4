#include "tests/stress/worker.h"

#include <cmath>
#include <cstdio>

namespace tile::stress {
namespace {

constexpr int64_t kMostRows = 9, kMostColumns = 24;
// So little that caches evict all the time.
constexpr size_t kMemoryCache = 400 << 10;
constexpr double kRaceMilliseconds = 2;

constexpr Text kTexts[] = {
    {"function (X[M, N]) -> (O) { O = X * 2 + 1; }",
     [](float v, int64_t, int64_t) { return 2 * v + 1; }, true},
    {"function (X[M, N]) -> (O) { S[m, 0: M, 1] = +(X[m, n]); O = X + S; }",
     [](float v, int64_t, int64_t columns) { return v + v * static_cast<float>(columns); }, true},
    {"function (X[M, N]) -> (P) { T[m, 0: M, 1] = >(X[m, n]); E = exp(X - T);"
     " S[m, 0: M, 1] = +(E[m, n]); P = E / S; }",
     [](float, int64_t, int64_t columns) { return 1 / static_cast<float>(columns); }, false},
    {"function (X[M, N]) -> (O) { G[i, j: N, N] = +(X[m, i] * X[m, j]);"
     " O[m, j: M, N] = +(X[m, i] * G[i, j]); }",
     [](float v, int64_t rows, int64_t columns) {
       return v * v * v * static_cast<float>(rows * columns);
     },
     true},
    {"function (X[M, N]) -> (O) { O[m, n: M, N] = +(X[m, k]), n - k < N; }", nullptr, true},
};

jit::View view_of(std::vector<float>& data, int64_t rows, int64_t columns) {
  return jit::view(data.data(), {rows, columns});
}

}  // namespace

void Worker::work() {
  while (!state_.stop.load(std::memory_order_relaxed)) {
    try {
      step();
    } catch (const jit::Error& error) {
      ++state_.failed;
      std::printf("%s\n", error.what());
    }
    ++state_.calls;
  }
}

void Worker::step() {
  switch (below(32)) {
    case 0:
      return make_engine();
    case 1:
    case 2:
      return parse();
    case 3:
    case 4:
    case 5:
      return compile();
    case 6:
      return tune_handle();
    case 7:
      return with_constant();
    case 8:
      return differentiate();
    case 9:
      return look();
    case 10:
      return drop();
    case 11:
    case 12:
    case 13:
    case 14:
    case 15:
    case 16:
    case 17:
    case 18:
      return run_handle();
    default:
      return run_program();
  }
}

// A cell of the running sum has its own value: only that nothing fails is checked there.
void Worker::check(const Text& text, const std::vector<float>& result, float value, int64_t rows,
                   int64_t columns) {
  if (text.expected == nullptr) return;
  float expected = text.expected(value, rows, columns);
  for (float x : result) {
    if (std::abs(x - expected) <= 1e-4F * std::abs(expected)) continue;
    ++state_.wrong;
    std::printf("%s: %g, expected %g\n", text.text, static_cast<double>(x),
                static_cast<double>(expected));
    return;
  }
}

std::shared_ptr<jit::Engine> Worker::engine() {
  Shared<jit::Engine>& slot = state_.engines[static_cast<size_t>(below(2))];
  if (!slot.get()) {
    tile_engine_options options{};
    options.struct_size = sizeof options;
    options.backend = "cpu";
    options.cache_mode = "off";
    options.threads = static_cast<int>(1 + below(2));
    options.memory_cache_limit = kMemoryCache;
    slot.set(std::make_shared<jit::Engine>(options));
  }
  // Another thread may have dropped it.
  std::shared_ptr<jit::Engine> made = slot.get();
  return made ? made : engine();
}

void Worker::make_engine() {
  state_.engines[static_cast<size_t>(below(2))].set(nullptr);
  engine();
}

void Worker::parse() {
  const Text& text = kTexts[below(std::size(kTexts))];
  auto loaded = std::make_shared<Loaded>(Loaded{engine()->parse("tile", text.text), &text});
  state_.programs[static_cast<size_t>(below(6))].set(std::move(loaded));
}

std::shared_ptr<Loaded> Worker::program() {
  for (;;) {
    std::shared_ptr<Loaded> loaded = state_.programs[static_cast<size_t>(below(6))].get();
    if (loaded) return loaded;
    parse();
  }
}

void Worker::run_program() {
  std::shared_ptr<Loaded> loaded = program();
  int64_t rows = 1 + below(kMostRows), columns = 1 + below(kMostColumns);
  auto value = static_cast<float>(1 + below(3));
  std::vector<float> x(static_cast<size_t>(rows * columns), value), o(x.size());
  for (int64_t i = 1 + below(8); i > 0; --i) {
    std::fill(o.begin(), o.end(), -1.0F);
    loaded->program.run({view_of(x, rows, columns)}, {view_of(o, rows, columns)});
    check(*loaded->text, o, value, rows, columns);
  }
}

void Worker::compile() {
  std::shared_ptr<Loaded> loaded = program();
  int64_t rows = 1 + below(3), columns = 1 + below(4);
  std::vector<float> x(static_cast<size_t>(rows * columns));
  jit::Executable made = loaded->program.compile({view_of(x, rows, columns)});
  auto handle = std::make_shared<Handle>(Handle{std::move(made), loaded->text, rows, columns});
  state_.handles[static_cast<size_t>(below(4))].set(std::move(handle));
}

void Worker::run_handle() {
  std::shared_ptr<Handle> handle = state_.handles[static_cast<size_t>(below(4))].get();
  if (!handle) return compile();
  auto value = static_cast<float>(1 + below(3));
  std::vector<float> x(static_cast<size_t>(handle->rows * handle->columns), value), o(x.size());
  for (int64_t i = 1 + below(20); i > 0; --i) {
    handle->executable.run({view_of(x, handle->rows, handle->columns)},
                           {view_of(o, handle->rows, handle->columns)});
    check(*handle->text, o, value, handle->rows, handle->columns);
  }
}

void Worker::tune_handle() {
  std::shared_ptr<Handle> handle = state_.handles[static_cast<size_t>(below(4))].get();
  if (handle) handle->executable.tune(kRaceMilliseconds);
}

void Worker::with_constant() {
  std::shared_ptr<Loaded> loaded = program();
  int64_t rows = 1 + below(3), columns = 1 + below(4);
  std::vector<float> x(static_cast<size_t>(rows * columns), 2), o(x.size());
  jit::Executable e = loaded->program.compile({view_of(x, rows, columns)}, {0});
  e.run({view_of(x, rows, columns)}, {view_of(o, rows, columns)});
  check(*loaded->text, o, 2, rows, columns);
}

// The gradient runs with the program's input and a seed of ones.
void Worker::differentiate() {
  std::shared_ptr<Loaded> loaded = program();
  if (!loaded->text->differentiable) return;
  jit::Program gradient = loaded->program.differentiate("O", {"X"});
  int64_t rows = 1 + below(2), columns = 1 + below(3);
  auto value = static_cast<float>(1 + below(3));
  std::vector<float> x(static_cast<size_t>(rows * columns), value), seed(x.size(), 1), o(x.size()),
      dx(x.size());
  gradient.run({view_of(x, rows, columns), view_of(seed, rows, columns)},
               {view_of(o, rows, columns), view_of(dx, rows, columns)});
  check(*loaded->text, o, value, rows, columns);
}

// What only reads.
void Worker::look() {
  std::shared_ptr<jit::Engine> shown = engine();
  tile_engine_statistics statistics{};
  statistics.struct_size = sizeof statistics;
  jit::check(tile_engine_statistics_get(shown->get(), &statistics));
  std::shared_ptr<Handle> handle = state_.handles[static_cast<size_t>(below(4))].get();
  if (!handle) return;
  if (handle->executable.explain().empty() || handle->executable.emit("nest").empty()) {
    ++state_.wrong;
  }
  if (handle->executable.output_shape(0) != std::vector<int64_t>{handle->rows, handle->columns}) {
    ++state_.wrong;
  }
}

void Worker::drop() {
  if (below(2) == 0) {
    state_.programs[static_cast<size_t>(below(6))].set(nullptr);
  } else {
    state_.handles[static_cast<size_t>(below(4))].set(nullptr);
  }
}

}  // namespace tile::stress
