#include <algorithm>
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
constexpr const char* kProduct =
    "function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }";

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}
double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::shared_ptr<const Program> product() {
  return std::make_shared<const Program>(
      parse_tile(std::make_shared<const Source>(Source{"product.tile", kProduct})));
}

// A tensor of random numbers in the engine's memory.
class OnDevice {
 public:
  OnDevice(Engine& engine, const Shape& shape, uint32_t seed)
      : memory_(*engine.session(),
                static_cast<size_t>(element_count(shape)) * byte_size(DType::bf16), nullptr),
        view_{memory_.data(), DType::bf16, shape, {}, Memory::device, engine.ordinal()} {
    std::vector<uint16_t> bits(static_cast<size_t>(element_count(shape)));
    std::minstd_rand random(seed);
    // Of both signs, between a half and two.
    for (uint16_t& b : bits) b = static_cast<uint16_t>(0x3F00 ^ (random() >> 8 & 0x80FF));
    engine.session()->copy_in(memory_.data(), bits.data(), bits.size() * sizeof(uint16_t), nullptr);
    engine.session()->finish();
  }
  const TensorView& view() const { return view_; }

 private:
  DeviceMemory memory_;
  TensorView view_;
};

// The median time of a run, in milliseconds, on one GPU.
double alone(const std::shared_ptr<Engine>& engine, int64_t rows, int64_t size) {
  OnDevice a(*engine, {rows, size}, 1), b(*engine, {size, size}, 2), c(*engine, {rows, size}, 3);
  auto program = std::make_shared<LoadedProgram>(engine, product());
  std::vector<TensorView> inputs{a.view(), b.view()}, outputs{c.view()};
  std::shared_ptr<const Executable> e = program->executable(std::span<const TensorView>(inputs));
  std::vector<double> ms;
  for (int i = 0; i < kWarm + kRuns; ++i) {
    Clock::time_point begin = Clock::now();
    run(*e, inputs, outputs);
    engine->session()->synchronize(nullptr);
    if (i >= kWarm) ms.push_back(milliseconds_since(begin));
  }
  return median(ms);
}

class Ranks {
 public:
  explicit Ranks(size_t count) : axes_(mesh_of("x=" + std::to_string(count), "mesh")) {
    for (std::unique_ptr<Transport>& end : local_transports(count, kRankTimeoutSeconds)) {
      meshes_.push_back(std::make_shared<RankMesh>(axes_, std::move(end)));
      engines_.push_back(test_engine("cuda:" + std::to_string(engines_.size())));
    }
  }
  const std::vector<std::shared_ptr<Engine>>& engines() const { return engines_; }

  // The median over the runs of the slowest rank's time; all begin together.
  double time(const std::string& layouts, int64_t rows, int64_t size) {
    std::vector<std::vector<double>> ms(engines_.size());
    on_each([&](size_t r) { ms[r] = times_of(r, layouts, rows, size); });
    std::vector<double> slowest = ms[0];
    for (const std::vector<double>& rank : ms) {
      for (size_t i = 0; i < rank.size(); ++i) slowest[i] = std::max(slowest[i], rank[i]);
    }
    return median(slowest);
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

  std::vector<double> times_of(size_t r, const std::string& layouts, int64_t rows,
                               int64_t size) const {
    Engine& engine = *engines_[r];
    MeshProgramOptions what{{{DType::bf16, {rows, size}}, {DType::bf16, {size, size}}}, layouts};
    MeshProgram program(engines_[r], product(), meshes_[r], what);
    auto box = [&](const MeshProgram::Part& part) { return part.boxes[r].shape(); };
    OnDevice a(engine, box(program.inputs()[0]), 1), b(engine, box(program.inputs()[1]), 2),
        c(engine, box(program.outputs()[0]), 3);
    std::vector<double> ms;
    for (int i = 0; i < kWarm + kRuns; ++i) {
      meshes_[r]->meet("times");
      Clock::time_point begin = Clock::now();
      program.run({a.view(), b.view()}, {c.view()});
      if (i >= kWarm) ms.push_back(milliseconds_since(begin));
    }
    return ms;
  }

  Mesh axes_;
  std::vector<std::shared_ptr<RankMesh>> meshes_;
  std::vector<std::shared_ptr<Engine>> engines_;
};

struct Kind {
  const char *name, *layouts;
};
constexpr Kind kKinds[] = {{"all-gather + product", "A[x, *] B[*, x] C[*, x]"},
                           {"product + reduce-scatter", "A[*, x] B[x, *] C[x, *]  C: k=x"}};

int64_t bytes_moved(const std::string& layouts, int64_t rows, int64_t size, size_t ranks) {
  Division parts = divide(*product(), {{DType::bf16, {rows, size}}, {DType::bf16, {size, size}}},
                          mesh_of("x=" + std::to_string(ranks), "mesh"), layouts, "layouts");
  int64_t bytes = 0;
  for (const ExchangeSummary& e : parts.parts.exchanges) bytes += e.cost.bytes;
  return bytes;
}

}  // namespace

int time_ranks(int64_t size) {
  constexpr size_t kRanks = 2;
  if (static_cast<size_t>(cuda::gpu_count()) < kRanks) {
    std::cout << "skipped: " << cuda::gpu_count() << " GPUs, and two are needed" << std::endl;
    return 77;
  }
  Ranks ranks(kRanks);
  for (int64_t rows : {2 * size, size / 2, size / 16}) {
    double one = alone(ranks.engines()[0], rows, size);
    for (const Kind& kind : kKinds) {
      double ms = ranks.time(kind.layouts, rows, size);
      std::cout << Json{{"kind", kind.name},
                        {"rows", rows},
                        {"ms", ms},
                        {"ms_of_one_gpu", one},
                        {"efficiency", one / static_cast<double>(kRanks) / ms},
                        {"bytes", bytes_moved(kind.layouts, rows, size, kRanks)}}
                       .dump()
                << std::endl;
    }
  }
  return 0;
}

}  // namespace tile::test
