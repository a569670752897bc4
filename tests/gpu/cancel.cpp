#include "tests/gpu/cancel.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <iostream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tile/tile.h"

namespace tile::test {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr double kPromisedMs = 100;  // tile_cancel_callback
constexpr int kTries = 3;
constexpr double kNever = std::numeric_limits<double>::infinity();

// Causal attention: a kernel that streams, and gradients of several kernels.
constexpr const char* kAttention = R"(function (Q[B, S, C], K[B, S, C], V[B, S, E]) -> (O) {
  A[b, s, t: B, S, S] = +(Q[b, s, c] * K[b, t, c]), s - t < S;
  L = A * 0.125;
  Top[b, s, 0: B, S, 1] = >(L[b, s, t]), s - t < S;
  P = exp(L - Top);
  Z[b, s, 0: B, S, 1] = +(P[b, s, t]), s - t < S;
  W = P / Z;
  O[b, s, e: B, S, E] = +(W[b, s, t] * V[b, t, e]), s - t < S;
})";
constexpr const char* kProduct =
    "function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }";
constexpr const char* kStep =
    "function (U[M, N]) -> (V) { V[i, j: M, N] = +(0.125 * U[i + a - 1, j + b - 1]), a < 3, b < 3; "
    "}";

// A time from which on the callback says that the call is to end.
class Deadline {
 public:
  void after(double ms) {
    at_ = Clock::now() + std::chrono::microseconds(static_cast<int64_t>(ms * 1e3));
    armed_ = true;
  }
  void never() { armed_ = false; }
  double ms_past() const {
    return std::chrono::duration<double, std::milli>(Clock::now() - at_).count();
  }
  static int asked(void* self) {
    auto* deadline = static_cast<Deadline*>(self);
    return deadline->armed_ && Clock::now() >= deadline->at_ ? 1 : 0;
  }

 private:
  std::atomic<bool> armed_ = false;
  Clock::time_point at_;
};

std::string code_of(tile_error* error) {
  if (error == nullptr) return "";
  std::string code = tile_error_code(error);
  tile_error_free(error);
  return code;
}

struct Tensor {
  explicit Tensor(std::vector<int64_t> sizes) : shape(std::move(sizes)) {
    int64_t count = 1;
    for (int64_t size : shape) count *= size;
    values.assign(static_cast<size_t>(count), 0.25F);
    view = {values.data(),
            {kDLCPU, 0},
            static_cast<int32_t>(shape.size()),
            {kDLFloat, 32, 1},
            shape.data(),
            nullptr,
            0};
  }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  std::vector<int64_t> shape;
  std::vector<float> values;
  DLTensor view;
};

// An engine of its own, so that nothing is compiled yet, and a program for it.
class Subject {
 public:
  Subject(const char* text, const std::vector<std::vector<int64_t>>& shapes, bool gradient) {
    tile_engine_options options{};
    options.struct_size = sizeof options;
    options.backend = "cuda";
    options.cache_mode = "off";
    options.limit_compile_ms = UINT64_MAX;
    options.cancel = Deadline::asked;
    options.cancel_user = &deadline;
    must(tile_engine_create(&options, &engine_));
    must(tile_program_parse(engine_, "tile", nullptr, text, std::string(text).size(), &program_));
    for (const std::vector<int64_t>& shape : shapes) add(shape);
    if (!gradient) return;
    std::vector<const char*> wrt;
    for (size_t i = 0; i < shapes.size(); ++i) wrt.push_back(tile_program_input_name(program_, i));
    tile_program* differentiated = nullptr;
    must(tile_program_differentiate(program_, tile_program_output_name(program_, 0), wrt.data(),
                                    wrt.size(), &differentiated));
    tile_program_free(std::exchange(program_, differentiated));
    add(shapes.back());
  }
  ~Subject() {
    tile_executable_free(executable_);
    tile_program_free(program_);
    tile_engine_free(engine_);
  }
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;

  tile_error* compile() {
    return tile_program_compile(program_, inputs_.data(), inputs_.size(), &executable_);
  }
  tile_error* tune() { return tile_executable_tune(executable_, 60e3); }
  tile_error* steps() {
    Tensor out(tensors_[0]->shape);
    DLTensor* outputs[1] = {&out.view};
    tile_feed feed{0, 0};
    return tile_executable_run_steps(executable_, 100'000'000, &feed, 1, inputs_.data(), 1, outputs,
                                     1, nullptr);
  }
  static void must(tile_error* error) {
    if (error == nullptr) return;
    std::string text = tile_error_message(error);
    bool none = std::string(tile_error_code(error)) == "driver" ||
                std::string(tile_error_code(error)) == "device";
    tile_error_free(error);
    if (none) throw std::domain_error(text);
    throw std::runtime_error(text);
  }

  Deadline deadline;

 private:
  void add(const std::vector<int64_t>& shape) {
    tensors_.push_back(std::make_unique<Tensor>(shape));
    inputs_.push_back(&tensors_.back()->view);
  }

  tile_engine* engine_ = nullptr;
  tile_program* program_ = nullptr;
  tile_executable* executable_ = nullptr;
  std::vector<std::unique_ptr<Tensor>> tensors_;
  std::vector<const DLTensor*> inputs_;
};

struct Case {
  const char* name;
  const char* text;
  std::vector<std::vector<int64_t>> shapes;
  bool gradient;
  tile_error* (Subject::*call)();
};

// Milliseconds between the time at which the call is cancelled and its return; less than 0: it was
// done before.
double lateness(const Case& given, double after_ms) {
  Subject subject(given.text, given.shapes, given.gradient);
  if (given.call != &Subject::compile) Subject::must(subject.compile());
  subject.deadline.after(after_ms);
  std::string code = code_of((subject.*given.call)());
  double late = subject.deadline.ms_past();
  if (code.empty()) return late < 0 ? late : kNever;
  return code == "cancelled" ? late : kNever;
}

bool check(const Case& given) {
  Json lines = Json::array();
  bool passed = true;
  for (double after : {5.0, 40.0, 150.0, 400.0, 1200.0}) {
    std::vector<double> late;
    for (int i = 0; i < kTries; ++i) late.push_back(lateness(given, after));
    std::sort(late.begin(), late.end());
    passed &= late[kTries / 2] <= kPromisedMs;
    lines.push_back({{"after_ms", after}, {"late_ms", late}});
  }
  std::cout << Json{{"cancelled", given.name}, {"passed", passed}, {"tries", lines}}.dump()
            << std::endl;
  return passed;
}

}  // namespace

int check_cancel() {
  const std::vector<std::vector<int64_t>> heads(3, {8, 1024, 64});
  const std::vector<Case> cases = {
      {"compile attention with its gradient", kAttention, heads, true, &Subject::compile},
      {"compile a product", kProduct, {{4096, 4096}, {4096, 4096}}, false, &Subject::compile},
      {"race of a product", kProduct, {{4096, 4096}, {4096, 4096}}, false, &Subject::tune},
      {"race of attention with its gradient", kAttention, heads, true, &Subject::tune},
      {"steps", kStep, {{1024, 1024}}, false, &Subject::steps}};
  try {
    bool passed = true;
    for (const Case& given : cases) passed &= check(given);
    return passed ? 0 : 1;
  } catch (const std::domain_error& none) {
    std::cout << Json{{"no GPU", none.what()}}.dump() << std::endl;
    return 77;
  } catch (const std::exception& error) {
    std::cout << Json{{"passed", false}, {"error", error.what()}}.dump() << std::endl;
    return 1;
  }
}

}  // namespace tile::test
