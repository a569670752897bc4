// memory_curve SHAPES PROGRAMS MEBIBYTES: runs one program with so many shapes and so many programs
// with one, in an engine whose caches may take so much memory (0: the default). Prints what the
// process takes meanwhile, and fails where it is not flat once the caches are full, where mappings
// pile up, or where a result is wrong.
//
// (An executable took 130 KB and was never dropped; a kernel took two mappings, of which a process
// has some 65,000.)
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tile/tile.hpp"

namespace {

namespace jit = tile::jit;

constexpr double kFlat = 0.10;      // of the mean
constexpr int64_t kMappings = 100;  // more than at first: heaps of threads, slabs of code
constexpr const char* kSoftmax =
    "function (X[M, N]) -> (P) { T[m, 0: M, 1] = >(X[m, n]); E = exp(X - T);"
    " S[m, 0: M, 1] = +(E[m, n]); P = E / S; }";

int64_t resident_kb() {
  int64_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * 4;
}
int64_t mappings() {
  std::ifstream maps("/proc/self/maps");
  return std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
}

class Curve {
 public:
  Curve(const char* what, jit::Engine& engine) : what_(what), engine_(engine) {}

  void point(int done, bool shown) {
    tile_engine_statistics now{};
    now.struct_size = sizeof now;
    jit::check(tile_engine_statistics_get(engine_.get(), &now));
    // Before the caches are full the process grows.
    if (now.evictions > 0 && full_at_ == 0) full_at_ = done;
    int64_t kb = resident_kb();
    if (full_at_ != 0 && done >= full_at_ + full_at_ / 4) {
      least_ = std::min(least_, kb);
      most_ = std::max(most_, kb);
    }
    if (!shown) return;
    std::printf("%-9s %6d: %7.1f MB resident, %6.1f MB in caches, %6llu evicted, %lld mappings\n",
                what_, done, static_cast<double>(kb) / 1024,
                static_cast<double>(now.cached_bytes) / (1 << 20),
                static_cast<unsigned long long>(now.evictions), static_cast<long long>(mappings()));
    std::fflush(stdout);
  }
  bool is_flat() const {
    if (full_at_ == 0) {
      std::printf("%s: the caches were never full\n", what_);
      return false;
    }
    auto least = static_cast<double>(least_), most = static_cast<double>(most_);
    double share = (most - least) / (most + least);
    std::printf("%s: %.1f to %.1f MB since they were full, +- %.1f %%\n", what_, least / 1024,
                most / 1024, 100 * share);
    return share <= kFlat;
  }

 private:
  const char* what_;
  jit::Engine& engine_;
  int full_at_ = 0;
  int64_t least_ = INT64_MAX, most_ = 0;
};

bool shown(int i, int count) { return i % std::max(1, count / 20) == 0 || i == count; }

// Softmax of equal elements.
bool run_shape(jit::Program& program, int i) {
  int64_t rows = 1 + i / 200, columns = 2 + i % 200;
  std::vector<float> x(static_cast<size_t>(rows * columns), 1), p(x);
  program.run({jit::view(x.data(), {rows, columns})}, {jit::view(p.data(), {rows, columns})});
  float expected = 1.0F / static_cast<float>(columns);
  return std::all_of(p.begin(), p.end(),
                     [&](float value) { return std::abs(value - expected) < 1e-5F; });
}
bool run_program(jit::Engine& engine, int i) {
  std::string factor = std::to_string(i) + ".5";
  jit::Program program =
      engine.parse("tile", "function (X[M, N]) -> (P) { P = X * " + factor + " + 2; }");
  std::vector<float> x(35, 2), p(35);
  program.run({jit::view(x.data(), {5, 7})}, {jit::view(p.data(), {5, 7})});
  float expected = 2 * (static_cast<float>(i) + 0.5F) + 2;
  return std::all_of(p.begin(), p.end(), [&](float value) { return value == expected; });
}

template <class Run>
bool stays_flat(const char* what, jit::Engine& engine, int count, const Run& run) {
  Curve curve(what, engine);
  for (int i = 1; i <= count; ++i) {
    if (!run(i)) {
      std::printf("%s %d: a wrong result\n", what, i);
      return false;
    }
    curve.point(i, shown(i, count));
  }
  return curve.is_flat();
}

jit::Engine engine_of(size_t mebibytes) {
  tile_engine_options options{};
  options.struct_size = sizeof options;
  options.backend = "cpu";
  options.threads = 1;
  options.memory_cache_limit = mebibytes << 20;
  return jit::Engine(options);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) {
    std::fprintf(stderr, "memory_curve SHAPES PROGRAMS MEBIBYTES\n");
    return 2;
  }
  int shapes = std::atoi(arguments[1]), programs = std::atoi(arguments[2]);
  auto mebibytes = static_cast<size_t>(std::atoi(arguments[3]));
  try {
    jit::Engine engine = engine_of(mebibytes), other = engine_of(mebibytes);
    jit::Program softmax = engine.parse("tile", kSoftmax);
    bool good = run_shape(softmax, 0);
    int64_t before = mappings();
    good &= stays_flat("shapes", engine, shapes, [&](int i) { return run_shape(softmax, i); });
    good &= stays_flat("programs", other, programs, [&](int i) { return run_program(other, i); });
    if (mappings() > before + kMappings) {
      std::printf("mappings: %lld at first, %lld at the end\n", static_cast<long long>(before),
                  static_cast<long long>(mappings()));
      good = false;
    }
    return good ? 0 : 1;
  } catch (const jit::Error& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
}
