#include "tests/faults/stages.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace tile::test {
namespace {

constexpr int64_t kRows = 20, kColumns = 20;
constexpr const char* kSoftmax =
    "function (X[M, N]) -> (P) { T[m, 0: M, 1] = >(X[m, n]); E = exp(X - T);"
    " S[m, 0: M, 1] = +(E[m, n]); P = E / S; }";

struct Matrix {
  int64_t shape[2];
  DLTensor tensor;
  Matrix(int64_t rows, int64_t columns, float* data)
      : shape{rows, columns}, tensor{data, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0} {}
};

}  // namespace

Work::Work(std::string cache, int threads)
    : cache_(std::move(cache)),
      threads_(threads),
      in_(kRows * kColumns, 1.0F),
      out_(kRows * kColumns) {}

Work::~Work() {
  for (tile_executable* e : {executable_, other_, wider_}) tile_executable_free(e);
  for (tile_program* p : {program_, gradient_}) tile_program_free(p);
  tile_engine_free(engine_);
}

tile_error* Work::make_engine() {
  tile_engine_options options{};
  options.struct_size = sizeof options;
  options.backend = "cpu";
  options.threads = threads_;
  options.cache_mode = cache_.empty() ? "off" : "rw";
  options.cache_dir = cache_.empty() ? nullptr : cache_.c_str();
  return tile_engine_create(&options, &engine_);
}
tile_error* Work::parse() {
  return tile_program_parse(engine_, "tile", "softmax", kSoftmax, std::strlen(kSoftmax), &program_);
}
tile_error* Work::compile() {
  Matrix x(kRows, kColumns, nullptr);
  const DLTensor* inputs[] = {&x.tensor};
  return tile_program_compile(program_, inputs, 1, &executable_);
}
tile_error* Work::run() {
  std::fill(out_.begin(), out_.end(), 0.0F);
  Matrix x(kRows, kColumns, in_.data()), p(kRows, kColumns, out_.data());
  const DLTensor* inputs[] = {&x.tensor};
  DLTensor* outputs[] = {&p.tensor};
  return tile_executable_run(executable_, inputs, 1, outputs, 1, nullptr);
}
tile_error* Work::differentiate() {
  const char* wrt = "X";
  return tile_program_differentiate(program_, "P", &wrt, 1, &gradient_);
}
tile_error* Work::compile_gradient() {
  Matrix x(kRows, kColumns, nullptr), d(kRows, kColumns, nullptr);
  const DLTensor* inputs[] = {&x.tensor, &d.tensor};
  return tile_program_compile(gradient_, inputs, 2, &other_);
}
tile_error* Work::compile_wider() {
  Matrix x(kRows, kColumns + 13, nullptr);
  const DLTensor* inputs[] = {&x.tensor};
  return tile_program_compile(program_, inputs, 1, &wider_);
}
tile_error* Work::compile_many() {
  constexpr int kPrograms = 70;
  for (int i = 0; i < kPrograms; ++i) {
    char text[64];  // nothing of this program's own may need memory here
    int size = std::snprintf(text, sizeof text, "function (X) -> (O) { O = X * %d.5; }", i);
    tile_program* program = nullptr;
    tile_executable* executable = nullptr;
    Matrix x(kRows, kColumns, nullptr);
    const DLTensor* inputs[] = {&x.tensor};
    tile_error* error =
        tile_program_parse(engine_, "tile", "many", text, static_cast<size_t>(size), &program);
    if (error == nullptr) error = tile_program_compile(program, inputs, 1, &executable);
    tile_executable_free(executable);
    tile_program_free(program);
    if (error != nullptr) return error;
  }
  return nullptr;
}
tile_error* Work::tune() {
  constexpr double kMilliseconds = 30;
  return tile_executable_tune(executable_, kMilliseconds);
}
tile_error* Work::explain() {
  char* text = nullptr;
  tile_error* error = tile_executable_explain(executable_, &text);
  tile_string_free(text);
  return error;
}
bool Work::is_right() const {
  for (float value : out_) {
    if (std::fabs(value - 1.0F / kColumns) > 1e-5F) return false;
  }
  return true;
}

// In this order what comes before a stage is done when it begins.
const std::vector<CallStage>& call_stages() {
  static const std::vector<CallStage> stages{
      {"engine", &Work::make_engine},
      {"parse", &Work::parse},
      {"compile", &Work::compile},
      {"run", &Work::run},
      {"differentiate", &Work::differentiate},
      {"compile_gradient", &Work::compile_gradient},
      {"compile_wider", &Work::compile_wider},
      {"compile_many", &Work::compile_many, true},
      {"explain", &Work::explain},
      {"tune", &Work::tune},
  };
  return stages;
}

}  // namespace tile::test
