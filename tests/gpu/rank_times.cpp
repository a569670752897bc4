#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "backends/cuda/cuda_backend.h"
#include "core/language/tile/tile.h"
#include "runtime/ranks/rank_mesh.h"
#include "tests/executors/run_backends.h"
#include "tests/gpu/ranks.h"
#include "tests/ranks/device_ranks.h"

namespace tile::test {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr int kWarm = 5, kRuns = 30;
constexpr Overlap kOverlaps[] = {Overlap::never, Overlap::automatic, Overlap::always};
constexpr const char* kNames[] = {"never", "auto", "always"};
constexpr const char* kProduct =
    "function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }";
constexpr const char* kStencil =
    "function (A[M, N, L]) -> (O) {\n"
    "  O[i, j, k: M - 2, N - 2, L - 2] = =(2 * A[i + 1, j + 1, k + 1] + A[i, j + 1, k + 1] + A[i + "
    "2, "
    "j + 1, k + 1] +\n    A[i + 1, j, k + 1] + A[i + 1, j + 2, k + 1] + A[i + 1, j + 1, k] + A[i + "
    "1, j "
    "+ 1, k + 2]);\n}";

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}
double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// What is measured: a program on all ranks, and what one GPU is given alone.
struct Case {
  const char *kind, *text, *layouts;
  DType type;
  std::vector<Shape> shapes, alone;
  double share = 1;  // of the time of one GPU that a rank would take without exchanges
};

std::shared_ptr<const Program> program_of(const Case& what) {
  return std::make_shared<const Program>(
      parse_tile(std::make_shared<const Source>(Source{"times.tile", what.text})));
}
std::vector<InputType> types_of(const Case& what) {
  std::vector<InputType> types;
  for (const Shape& shape : what.shapes) types.push_back({what.type, shape});
  return types;
}

// Random numbers in the engine's memory.
std::unique_ptr<TensorOnDevice> random_tensor(Engine& engine, DType type, const Shape& shape,
                                              size_t seed) {
  auto tensor = std::make_unique<TensorOnDevice>(engine, type, shape);
  // Of both signs, between a half and two; f32 as pairs of those, of which the last one counts.
  std::vector<uint16_t> bits(static_cast<size_t>(element_count(shape)) * byte_size(type) /
                             sizeof(uint16_t));
  std::minstd_rand random(static_cast<uint32_t>(seed));
  for (uint16_t& b : bits) b = static_cast<uint16_t>(0x3F00 ^ (random() >> 8 & 0x80FF));
  tensor->set(bits.data());
  return tensor;
}

// The median time of a run, in milliseconds, on one GPU.
double alone(const std::shared_ptr<Engine>& engine, const Case& what) {
  TensorsOnDevice inputs, outputs;
  for (const Shape& shape : what.alone) {
    inputs.push_back(random_tensor(*engine, what.type, shape, inputs.size() + 1));
  }
  std::vector<TensorView> given = views_of(inputs);
  auto program = std::make_shared<LoadedProgram>(engine, program_of(what));
  std::shared_ptr<const Executable> e = program->executable(std::span<const TensorView>(given));
  outputs.push_back(std::make_unique<TensorOnDevice>(*engine, what.type, e->output(0).shape));
  std::vector<TensorView> results = views_of(outputs);
  std::vector<double> ms;
  for (int i = 0; i < kWarm + kRuns; ++i) {
    Clock::time_point begin = Clock::now();
    run(*e, given, results);
    engine->session()->synchronize(nullptr);
    if (i >= kWarm) ms.push_back(milliseconds_since(begin));
  }
  return median(ms);
}

// Of one kind of overlap on one rank, run by run.
struct Measured {
  std::vector<double> ms, given_us;
  size_t travelling = 0;  // exchanges
};
using MeasuredRank = std::array<Measured, std::size(kOverlaps)>;

// Ranks leave it together, within less than a thread takes to be woken.
class StartingLine {
 public:
  explicit StartingLine(size_t ranks) : ranks_(ranks) {}
  void wait() {
    size_t all = (arrived_++ / ranks_ + 1) * ranks_;
    while (arrived_ < all && !failed_) std::this_thread::yield();
  }
  void fail() { failed_ = true; }

 private:
  size_t ranks_;
  std::atomic<size_t> arrived_ = 0;
  std::atomic<bool> failed_ = false;
};

MeasuredRank times_of(const DeviceRanks& ranks, size_t r, const Case& what, StartingLine& start) {
  std::vector<std::unique_ptr<MeshProgram>> programs;
  for (Overlap overlap : kOverlaps) {
    MeshProgramOptions options{types_of(what), what.layouts};
    options.overlap = overlap;
    programs.push_back(
        std::make_unique<MeshProgram>(ranks.engine(r), program_of(what), ranks.mesh(r), options));
  }
  TensorsOnDevice inputs, outputs;
  Engine& engine = *ranks.engine(r);
  for (const MeshProgram::Part& part : programs[0]->inputs()) {
    inputs.push_back(random_tensor(engine, part.type, part.boxes[r].shape(), inputs.size() + 1));
  }
  for (const MeshProgram::Part& part : programs[0]->outputs()) {
    outputs.push_back(std::make_unique<TensorOnDevice>(engine, part.type, part.boxes[r].shape()));
  }
  MeasuredRank measured;
  for (int i = 0; i < kWarm + kRuns; ++i) {
    for (size_t o = 0; o < programs.size(); ++o) {
      ranks.mesh(r)->meet("times");
      start.wait();
      double given_ns = 0;
      Clock::time_point begin = Clock::now();
      programs[o]->run(views_of(inputs), views_of(outputs), &given_ns);
      if (i < kWarm) continue;
      measured[o].ms.push_back(milliseconds_since(begin));
      measured[o].given_us.push_back(given_ns / 1000);
      measured[o].travelling = programs[o]->travelling();
    }
  }
  return measured;
}

std::vector<MeasuredRank> measure(const DeviceRanks& ranks, const Case& what) {
  std::vector<MeasuredRank> all(ranks.count());
  StartingLine start(ranks.count());
  ranks.on_each([&](size_t r) {
    try {
      all[r] = times_of(ranks, r, what, start);
    } catch (...) {
      start.fail();
      throw;
    }
  });
  return all;
}

int64_t bytes_moved(const Case& what, size_t ranks) {
  Division parts = divide(*program_of(what), types_of(what),
                          mesh_of("x=" + std::to_string(ranks), "mesh"), what.layouts, "layouts");
  int64_t bytes = 0;
  for (const ExchangeSummary& e : parts.parts.exchanges) bytes += e.cost.bytes;
  return bytes;
}

// The median over the runs of the slowest rank.
double slowest(const std::vector<MeasuredRank>& ranks, size_t overlap,
               std::vector<double> Measured::* times) {
  std::vector<double> most = ranks[0][overlap].*times;
  for (const MeasuredRank& rank : ranks) {
    for (size_t i = 0; i < most.size(); ++i) {
      most[i] = std::max(most[i], (rank[overlap].*times)[i]);
    }
  }
  return median(most);
}

Json line_of(const Case& what, double one, const std::vector<MeasuredRank>& ranks) {
  Json line{{"kind", what.kind},
            {"shape", what.shapes[0]},
            {"ms_of_one_gpu", one},
            {"bytes", bytes_moved(what, ranks.size())}};
  for (size_t o = 0; o < std::size(kOverlaps); ++o) {
    double ms = slowest(ranks, o, &Measured::ms);
    line[kNames[o]] = {{"ms", ms},
                       {"efficiency", one * what.share / ms},
                       {"host_us", slowest(ranks, o, &Measured::given_us)},
                       {"travelling", ranks[0][o].travelling}};
  }
  return line;
}

std::vector<Case> cases_of(int64_t size) {
  constexpr double kHalf = 0.5;
  std::vector<Case> cases;
  for (int64_t rows : {2 * size, size / 2, size / 16}) {
    std::vector<Shape> shapes{{rows, size}, {size, size}};
    cases.push_back({"all-gather + product", kProduct, "A[x, *] B[*, x] C[*, x]", DType::bf16,
                     shapes, shapes, kHalf});
    cases.push_back({"product + reduce-scatter", kProduct, "A[*, x] B[x, *] C[x, *]  C: k=x",
                     DType::bf16, shapes, shapes, kHalf});
  }
  int64_t side = size / 16;
  cases.push_back({"stencil of seven points",
                   kStencil,
                   "A[x, *, *] O[x, *, *]",
                   DType::f32,
                   {{2 * side + 2, side + 2, side + 2}},
                   {{side + 2, side + 2, side + 2}}});
  return cases;
}

}  // namespace

int time_ranks(int64_t size) {
  constexpr size_t kRanks = 2;
  if (static_cast<size_t>(cuda::gpu_count()) < kRanks) {
    std::cout << "skipped: " << cuda::gpu_count() << " GPUs, and two are needed" << std::endl;
    return 77;
  }
  auto engine_of = [](size_t rank) { return test_engine("cuda:" + std::to_string(rank)); };
  DeviceRanks ranks("x=" + std::to_string(kRanks), kRankTimeoutSeconds, engine_of);
  for (const Case& what : cases_of(size)) {
    double one = alone(ranks.engine(0), what);
    std::cout << line_of(what, one, measure(ranks, what)).dump() << std::endl;
  }
  return 0;
}

}  // namespace tile::test
