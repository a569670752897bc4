#include "tests/gpu/several.h"

#include <array>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "runtime/engine/launch/device_run.h"
#include "tests/executors/run_backends.h"
#include "tests/random/agreement/agreement.h"
#include "tile/tile.h"

namespace tile::test {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kGpus = 2;
constexpr uint64_t kPrograms = 60;  // of each GPU, while the other runs others
constexpr int64_t kSize = 512;
constexpr const char* kProduct =
    "function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }";

std::string backend_of(int gpu) { return "cuda:" + std::to_string(gpu); }

// Random programs on one GPU against the interpreter: what went wrong, by seed.
Json programs(int gpu, uint64_t first) {
  Json wrong = Json::array();
  std::shared_ptr<Engine> engine = test_engine(backend_of(gpu));
  for (uint64_t seed = first; seed < first + kPrograms; ++seed) {
    try {
      RandomCase drawn = random_case(seed, {});
      std::shared_ptr<const Executable> e = compiled(engine, drawn);
      Interpretation expected = interpret(e->bound, drawn.inputs, {}, true);
      std::string apart = difference(expected, run_code(*e, drawn.inputs), drawn.exact);
      if (!apart.empty()) wrong.push_back({{"seed", seed}, {"wrong", apart}});
    } catch (const std::exception& error) {
      wrong.push_back({{"seed", seed}, {"wrong", error.what()}});
    }
  }
  return wrong;
}

// The C interface's engine of one GPU, a program and its tensors in that GPU's memory.
class OnGpu {
 public:
  explicit OnGpu(int gpu) : gpu_(gpu), memory_of_(test_engine(backend_of(gpu))) {
    tile_engine_options options{};
    options.struct_size = sizeof options;
    std::string backend = backend_of(gpu);
    options.backend = backend.c_str();
    options.cache_mode = "off";
    must(tile_engine_create(&options, &engine_));
    must(tile_program_parse(engine_, "tile", nullptr, kProduct, std::string(kProduct).size(),
                            &program_));
    std::vector<float> values(kSize * kSize);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7 % 11) - 5;
    for (size_t i = 0; i < memory_.size(); ++i) {
      DeviceSession& session = *memory_of_->session();
      memory_[i].emplace(session, values.size() * sizeof(float), nullptr);
      session.copy_in(memory_[i]->data(), values.data(), values.size() * sizeof(float), nullptr);
      tensors_[i] = {memory_[i]->data(), {kDLCUDA, gpu}, 2, {kDLFloat, 32, 1}, shape_, nullptr, 0};
    }
    memory_of_->session()->finish();
  }
  ~OnGpu() {
    tile_program_free(program_);
    tile_engine_free(engine_);
  }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;

  // The message of the error, or nothing.
  std::string run(const DLTensor& a, const DLTensor& b, DLTensor& c) {
    const DLTensor* inputs[2] = {&a, &b};
    DLTensor* outputs[1] = {&c};
    return message(tile_program_run(program_, inputs, 2, outputs, 1, nullptr));
  }
  std::string run(int times) {
    std::string said;
    for (int i = 0; i < times && said.empty(); ++i)
      said = run(tensors_[0], tensors_[1], tensors_[2]);
    return said.empty() ? message(tile_engine_synchronize(engine_, nullptr)) : said;
  }
  std::vector<float> result() {
    std::vector<float> values(kSize * kSize);
    memory_of_->session()->copy_out(values.data(), memory_[2]->data(),
                                    values.size() * sizeof(float), nullptr);
    return values;
  }
  DLTensor& tensor(size_t i) { return tensors_[i]; }

 private:
  static std::string message(tile_error* error) {
    if (error == nullptr) return "";
    std::string text = tile_error_message(error);
    tile_error_free(error);
    return text;
  }
  void must(tile_error* error) {
    if (std::string text = message(error); !text.empty()) throw std::runtime_error(text);
  }

  int gpu_;
  std::shared_ptr<Engine> memory_of_;
  tile_engine* engine_ = nullptr;
  tile_program* program_ = nullptr;
  std::array<std::optional<DeviceMemory>, 3> memory_;
  std::array<DLTensor, 3> tensors_{};
  int64_t shape_[2] = {kSize, kSize};
};

void on_each(const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  for (int gpu = 0; gpu < kGpus; ++gpu) threads.emplace_back(work, gpu);
  for (std::thread& t : threads) t.join();
}

bool report(const std::string& part, const Json& wrong) {
  std::cout << Json{{"part", part}, {"passed", wrong.empty()}, {"wrong", wrong}}.dump()
            << std::endl;
  return wrong.empty();
}

// Both GPUs run products on tensors of their own, from a thread each and both from one thread.
Json products(std::array<std::unique_ptr<OnGpu>, kGpus>& gpus) {
  Json wrong = Json::array();
  std::array<std::string, kGpus> said;
  on_each([&](int gpu) {
    auto at = static_cast<size_t>(gpu);
    said[at] = gpus[at]->run(200);
  });
  for (const std::string& text : said) {
    if (!text.empty()) wrong.push_back(text);
  }
  if (gpus[0]->result() != gpus[1]->result()) wrong.push_back("the two GPUs' products differ");
  for (int i = 0; i < 20; ++i) {
    for (std::unique_ptr<OnGpu>& gpu : gpus) {
      if (std::string text = gpu->run(1); !text.empty()) wrong.push_back(text);
    }
  }
  return wrong;
}

// A tensor of the other GPU, as an input and as an output, is refused with both numbers; nothing is
// lost by it.
Json mixed(std::array<std::unique_ptr<OnGpu>, kGpus>& gpus) {
  Json wrong = Json::array();
  for (size_t own = 0; own < kGpus; ++own) {
    OnGpu &mine = *gpus[own], &other = *gpus[1 - own];
    std::string there = "GPU " + std::to_string(1 - own), here = "GPU " + std::to_string(own);
    for (const std::string& said : {mine.run(other.tensor(0), mine.tensor(1), mine.tensor(2)),
                                    mine.run(mine.tensor(0), mine.tensor(1), other.tensor(2))}) {
      bool names = said.find(there) != std::string::npos && said.find(here) != std::string::npos;
      if (!names) wrong.push_back("an engine on " + here + " said: \"" + said + "\"");
    }
    if (std::string said = mine.run(1); !said.empty()) wrong.push_back("after a refusal: " + said);
  }
  return wrong;
}

}  // namespace

int check_several() {
  for (int gpu = 0; gpu < kGpus; ++gpu) {
    try {
      test_engine(backend_of(gpu));
    } catch (const Failure& failure) {
      std::cout << "skipped: fewer than " << kGpus << " GPUs: " << failure.what() << std::endl;
      return 77;
    }
  }
  std::array<Json, kGpus> wrong;
  on_each([&](int gpu) {
    wrong[static_cast<size_t>(gpu)] = programs(gpu, 1 + static_cast<uint64_t>(gpu) * kPrograms);
  });
  bool passed = true;
  for (int gpu = 0; gpu < kGpus; ++gpu) {
    passed &= report("programs on " + backend_of(gpu), wrong[static_cast<size_t>(gpu)]);
  }
  try {
    std::array<std::unique_ptr<OnGpu>, kGpus> gpus;
    for (int gpu = 0; gpu < kGpus; ++gpu) {
      gpus[static_cast<size_t>(gpu)] = std::make_unique<OnGpu>(gpu);
    }
    passed &= report("products on both", products(gpus));
    passed &= report("tensors of the other GPU", mixed(gpus));
  } catch (const std::exception& error) {
    passed &= report("tensors on two GPUs", Json::array({error.what()}));
  }
  return passed ? 0 : 1;
}

}  // namespace tile::test
