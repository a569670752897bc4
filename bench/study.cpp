// tile-bench study: how near the model's pick and the short race come to the best of all aligned
// schedules; tile-bench cliffs: whether one more row, column or depth costs more than its share.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <random>

#include "bench/commands.h"
#include "bench/progress.h"
#include "runtime/engine/kernel_timer.h"

namespace tile::bench {
namespace {

constexpr const char* kProduct =
    "function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }";

struct Shaped {
  const char* name;
  const char* text;
  std::vector<Shape> shapes;
};

// Shapes drawn for one study: the same for the same seed.
class Shapes {
 public:
  explicit Shapes(uint32_t seed) : random_(seed) {}

  Shaped next(size_t i) {
    switch (i % 6) {
      case 0:
      case 1: {
        int64_t m = size(16, 700), n = size(16, 700), k = size(16, 700);
        return {"product", kProduct, {{m, k}, {k, n}}};
      }
      case 2: {
        int64_t b = size(2, 16), m = size(16, 200), n = size(16, 200), k = size(16, 200);
        return {"batched, transposed",
                "function (A[B, M, L], W[B, N, L]) -> (C) {"
                "  C[b, i, j: B, M, N] = +(A[b, i, k] * W[b, j, k]); }",
                {{b, m, k}, {b, n, k}}};
      }
      case 3: {
        int64_t h = size(7, 60), c = size(8, 128), o = size(8, 128);
        return {"convolution",
                "function (I[H, W, C], K[3, 3, C, D]) -> (O) {"
                "  O[y, x, d: H, W, D] = +(I[y + j - 1, x + i - 1, c] * K[j, i, c, d]); }",
                {{h, h, c}, {3, 3, c, o}}};
      }
      case 4: {
        int64_t a = size(8, 60), b = size(8, 60), c = size(8, 60), d = size(8, 60);
        return {"permuted contraction",
                "function (X[A, E, B], Y[C, E]) -> (O) {"
                "  O[a, b, c: A, B, C] = +(X[a, e, b] * Y[c, e]); }",
                {{a, b, c}, {d, b}}};
      }
      default: {
        int64_t m = size(64, 3000), n = size(64, 3000);
        return {"sums",
                i % 12 < 6 ? "function (X[M, N]) -> (O) { O[m: M] = +(X[m, n]); }"
                           : "function (X[M, N]) -> (O) { O[n: N] = +(X[m, n]); }",
                {{m, n}}};
      }
    }
  }

 private:
  // Logarithmically uniform.
  int64_t size(double low, double high) {
    std::uniform_real_distribution<double> part(std::log(low), std::log(high));
    return std::llround(std::exp(part(random_)));
  }
  std::mt19937 random_;
};

std::shared_ptr<Executable> compiled(const std::shared_ptr<Engine>& engine, const char* text,
                                     const std::vector<Shape>& shapes) {
  auto source = std::make_shared<Source>(Source{"study", text});
  LoadedProgram program(engine, std::make_shared<Program>(parse(Language::tile, source)));
  std::vector<InputLayout> layouts;
  for (const Shape& shape : shapes) layouts.push_back({{DType::f32, shape}, {}});
  return program.executable(layouts);
}

// The least of several runs, more of them for what is short.
double settled(KernelTimer& timer, const Schedule& schedule, int runs) {
  double least = timer(schedule);
  for (int i = 1; i < runs && least * i < 20e6; ++i) least = std::min(least, timer(schedule));
  return least;
}

struct Outcome {
  double analytic = 0, tuned = 0;  // the best time over theirs
  size_t candidates = 0;
};

Outcome outcome(const std::shared_ptr<Executable>& e, Progress& progress, const std::string& name) {
  constexpr int kRuns = 7;
  const Launch& launch = e->launches.at(0);
  const Target& target = e->engine->target();
  KernelTimer timer(*e, launch);
  std::vector<Schedule> all = candidates(*launch.kernel, target, 100000);
  Schedule analytic = analytic_schedule(*launch.kernel, target);
  Schedule tuned = search(*launch.kernel, target, [&](const Schedule& s) { return timer(s); }, {});
  double best = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < all.size(); ++i) {
    progress.show(name + ": " + std::to_string(i) + " of " + std::to_string(all.size()) +
                  ", best " + time_text(best));
    best = std::min(best, settled(timer, all[i], kRuns));
  }
  double first = settled(timer, analytic, 3 * kRuns), raced = settled(timer, tuned, 3 * kRuns);
  best = std::min({best, first, raced});
  return {best / first, best / raced, all.size()};
}

// The geometric mean with its 95 % confidence interval, as text.
std::string mean_text(const std::vector<double>& ratios) {
  double sum = 0, squares = 0;
  auto n = static_cast<double>(ratios.size());
  for (double r : ratios) sum += std::log(r);
  double mean = sum / n;
  for (double r : ratios) squares += (std::log(r) - mean) * (std::log(r) - mean);
  double half = n > 1 ? 1.96 * std::sqrt(squares / (n - 1) / n) : 0;
  char text[100];
  std::snprintf(text, sizeof text, "%.3f [%.3f, %.3f], worst %.3f", std::exp(mean),
                std::exp(mean - half), std::exp(mean + half),
                *std::min_element(ratios.begin(), ratios.end()));
  return text;
}

}  // namespace

int command_study(const Request& request, size_t shapes, uint32_t seed) {
  std::shared_ptr<Engine> engine = cli::make_engine(request.engine);
  Progress progress;
  Shapes drawn(seed);
  std::vector<double> analytic, tuned;
  for (size_t i = 0; i < shapes; ++i) {
    Shaped shaped = drawn.next(i);
    std::string name = shaped.name;
    for (const Shape& shape : shaped.shapes) {
      name += " ";
      for (size_t d = 0; d < shape.size(); ++d) name += (d ? "x" : "") + std::to_string(shape[d]);
    }
    Outcome o = outcome(compiled(engine, shaped.text, shaped.shapes), progress, name);
    progress.clear();
    std::printf("%-48s %4zu schedules, analytic %.3f, tuned %.3f of the best\n", name.c_str(),
                o.candidates, o.analytic, o.tuned);
    std::fflush(stdout);
    analytic.push_back(o.analytic);
    tuned.push_back(o.tuned);
  }
  std::printf("%zu shapes: analytic %s; tuned %s\n", shapes, mean_text(analytic).c_str(),
              mean_text(tuned).c_str());
  return 0;
}

int command_cliffs(const Request& request, int64_t from, int64_t to) {
  constexpr double kCliff = 1.25;
  constexpr int64_t kOther = 128;
  std::shared_ptr<Engine> engine = cli::make_engine(request.engine);
  Progress progress;
  int cliffs = 0;
  const char* names[] = {"M", "N", "K"};
  for (int axis = 0; axis < 3; ++axis) {
    double before = 0;
    for (int64_t n = from; n <= to; ++n) {
      int64_t size[3] = {kOther, kOther, kOther};
      size[axis] = n;
      auto e = compiled(engine, kProduct, {{size[0], size[2]}, {size[2], size[1]}});
      KernelTimer timer(*e, e->launches.at(0));
      double time = settled(timer, e->launches.at(0).schedule, 40);
      progress.show(std::string(names[axis]) + " = " + std::to_string(n) + ": " + time_text(time));
      if (n > from && time > kCliff * before) {
        progress.clear();
        std::printf("%s = %lld takes %.2f times as long as %lld\n", names[axis],
                    static_cast<long long>(n), time / before, static_cast<long long>(n - 1));
        ++cliffs;
      }
      before = time;
    }
  }
  progress.clear();
  std::printf("%d cliffs above %.2f among sizes %lld to %lld\n", cliffs, kCliff,
              static_cast<long long>(from), static_cast<long long>(to));
  return cliffs > 0 ? 1 : 0;
}

}  // namespace tile::bench
