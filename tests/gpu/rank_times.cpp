#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "backends/cuda/cuda_backend.h"
#include "core/language/tile/tile.h"
#include "runtime/engine/launch/device_run.h"
#include "runtime/ranks/rank_mesh.h"
#include "runtime/transport/local_transport.h"
#include "tests/executors/run_backends.h"
#include "tests/gpu/ranks.h"

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

// A tensor of random numbers in the engine's memory.
class OnDevice {
 public:
  OnDevice(Engine& engine, DType type, const Shape& shape, uint32_t seed)
      : memory_(*engine.session(), static_cast<size_t>(element_count(shape)) * byte_size(type),
                nullptr),
        view_{memory_.data(), type, shape, {}, Memory::device, engine.ordinal()} {
    // Of both signs, between a half and two; f32 as pairs of those, of which the last one counts.
    std::vector<uint16_t> bits(static_cast<size_t>(element_count(shape)) * byte_size(type) /
                               sizeof(uint16_t));
    std::minstd_rand random(seed);
    for (uint16_t& b : bits) b = static_cast<uint16_t>(0x3F00 ^ (random() >> 8 & 0x80FF));
    engine.session()->copy_in(memory_.data(), bits.data(), bits.size() * sizeof(uint16_t), nullptr);
    engine.session()->finish();
  }
  const TensorView& view() const { return view_; }

 private:
  DeviceMemory memory_;
  TensorView view_;
};
using Tensors = std::vector<std::unique_ptr<OnDevice>>;

std::vector<TensorView> views_of(const Tensors& tensors) {
  std::vector<TensorView> views;
  for (const auto& tensor : tensors) views.push_back(tensor->view());
  return views;
}

// The median time of a run, in milliseconds, on one GPU.
double alone(const std::shared_ptr<Engine>& engine, const Case& what) {
  Tensors inputs, outputs;
  for (const Shape& shape : what.alone) {
    auto seed = static_cast<uint32_t>(inputs.size() + 1);
    inputs.push_back(std::make_unique<OnDevice>(*engine, what.type, shape, seed));
  }
  std::vector<TensorView> given = views_of(inputs);
  auto program = std::make_shared<LoadedProgram>(engine, program_of(what));
  std::shared_ptr<const Executable> e = program->executable(std::span<const TensorView>(given));
  outputs.push_back(std::make_unique<OnDevice>(*engine, what.type, e->output(0).shape, 9));
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

class Ranks {
 public:
  explicit Ranks(size_t count) : axes_(mesh_of("x=" + std::to_string(count), "mesh")) {
    for (std::unique_ptr<Transport>& end : local_transports(count, kRankTimeoutSeconds)) {
      meshes_.push_back(std::make_shared<RankMesh>(axes_, std::move(end)));
      engines_.push_back(test_engine("cuda:" + std::to_string(engines_.size())));
    }
  }
  const std::vector<std::shared_ptr<Engine>>& engines() const { return engines_; }

  std::vector<MeasuredRank> measure(const Case& what) {
    std::vector<MeasuredRank> all(engines_.size());
    on_each([&](size_t r) { all[r] = times_of(r, what); });
    return all;
  }

 private:
  void on_each(const std::function<void(size_t)>& work) {
    std::vector<std::exception_ptr> errors(engines_.size());
    std::vector<std::thread> threads;
    for (size_t r = 0; r < engines_.size(); ++r) {
      threads.emplace_back([&, r] {
        try {
          work(r);
        } catch (const std::exception& error) {
          errors[r] = std::current_exception();
          meshes_[r]->transport().abort(error.what());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::exception_ptr& error : errors) {
      if (error) std::rethrow_exception(error);
    }
  }

  MeasuredRank times_of(size_t r, const Case& what) const {
    Engine& engine = *engines_[r];
    std::vector<std::unique_ptr<MeshProgram>> programs;
    for (Overlap overlap : kOverlaps) {
      MeshProgramOptions options{types_of(what), what.layouts};
      options.overlap = overlap;
      programs.push_back(
          std::make_unique<MeshProgram>(engines_[r], program_of(what), meshes_[r], options));
    }
    Tensors inputs, outputs;
    for (const MeshProgram::Part& part : programs[0]->inputs()) {
      auto seed = static_cast<uint32_t>(inputs.size() + 1);
      inputs.push_back(std::make_unique<OnDevice>(engine, part.type, part.boxes[r].shape(), seed));
    }
    for (const MeshProgram::Part& part : programs[0]->outputs()) {
      outputs.push_back(std::make_unique<OnDevice>(engine, part.type, part.boxes[r].shape(), 9));
    }
    MeasuredRank measured;
    for (int i = 0; i < kWarm + kRuns; ++i) {
      for (size_t o = 0; o < programs.size(); ++o) {
        meshes_[r]->meet("times");
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

  Mesh axes_;
  std::vector<std::shared_ptr<RankMesh>> meshes_;
  std::vector<std::shared_ptr<Engine>> engines_;
};

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
  Ranks ranks(kRanks);
  for (const Case& what : cases_of(size)) {
    double one = alone(ranks.engines()[0], what);
    std::cout << line_of(what, one, ranks.measure(what)).dump() << std::endl;
  }
  return 0;
}

}  // namespace tile::test
