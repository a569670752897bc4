// The C interface: life of the handles, runs on DLPack tensors, errors, threads.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tile/tile.h"

namespace {

const char* kMatmul =
    "function (A[M, L], B[L, N]) -> (C) {\n  C[i, j: M, N] = +(A[i, k] * B[k, j]);\n}\n";

// Owns whatever the calls return.
struct Error {
  tile_error* raw = nullptr;
  ~Error() { tile_error_free(raw); }
  tile_error** operator&() { return &raw; }
};
#define EXPECT_OK(call)                                            \
  do {                                                             \
    tile_error* e_ = (call);                                       \
    EXPECT_EQ(e_, nullptr) << (e_ ? tile_error_rendered(e_) : ""); \
    tile_error_free(e_);                                           \
  } while (false)

struct Tensor {
  std::vector<float> data;
  std::vector<int64_t> shape, strides;
  DLTensor dl{};
  Tensor(std::vector<int64_t> s, std::vector<float> d = {})
      : data(std::move(d)), shape(std::move(s)) {
    size_t n = 1;
    for (int64_t e : shape) n *= static_cast<size_t>(e);
    if (data.empty()) data.resize(n);
    dl.data = data.data();
    dl.device = {kDLCPU, 0};
    dl.ndim = static_cast<int32_t>(shape.size());
    dl.dtype = {kDLFloat, 32, 1};
    dl.shape = shape.data();
  }
  Tensor(const Tensor&) = delete;
};

class Api : public testing::Test {
 protected:
  void SetUp() override {
    tile_engine_options options{};
    options.struct_size = sizeof options;
    options.backend = "cpu";  // texts of stages and counts are the CPU's, GPU or not
    options.cache_mode = "off";
    EXPECT_OK(tile_engine_create(&options, &engine_));
  }
  void TearDown() override { tile_engine_free(engine_); }

  tile_program* parsed(const std::string& text) {
    tile_program* program = nullptr;
    EXPECT_OK(tile_program_parse(engine_, "tile", "test.tile", text.data(), text.size(), &program));
    return program;
  }
  tile_engine* engine_ = nullptr;
};

TEST_F(Api, RunsAProductWithoutCopies) {
  tile_program* program = parsed(kMatmul);
  EXPECT_EQ(tile_program_input_count(program), 2U);
  EXPECT_STREQ(tile_program_input_name(program, 1), "B");
  EXPECT_EQ(tile_program_input_name(program, 2), nullptr);
  EXPECT_EQ(tile_program_input_rank(program, 0), 2);
  EXPECT_STREQ(tile_program_output_name(program, 0), "C");
  Tensor a({2, 3}, {1, 2, 3, 4, 5, 6}), b({3, 2}, {1, 0, 0, 1, 1, 1}), c({2, 2});
  const DLTensor* inputs[] = {&a.dl, &b.dl};
  tile_executable* executable = nullptr;
  EXPECT_OK(tile_program_compile(program, inputs, 2, &executable));
  DLTensor description;
  EXPECT_OK(tile_executable_output(executable, 0, &description));
  EXPECT_EQ(description.ndim, 2);
  EXPECT_EQ(description.shape[1], 2);
  EXPECT_EQ(description.dtype.code, kDLFloat);
  EXPECT_EQ(description.device.device_type, kDLCPU);
  EXPECT_EQ(description.strides[0], 2);
  EXPECT_EQ(description.strides[1], 1);
  // The program may go first: the executable keeps what it needs.
  tile_program_free(program);
  DLTensor* outputs[] = {&c.dl};
  EXPECT_OK(tile_executable_run(executable, inputs, 2, outputs, 1, nullptr));
  EXPECT_EQ(c.data, (std::vector<float>{4, 5, 10, 11}));
  tile_executable_free(executable);
}

TEST_F(Api, StridedAndZeroStrideInputs) {
  tile_program* program = parsed(kMatmul);
  Tensor a({3, 2}, {1, 4, 2, 5, 3, 6}), b({3, 2}, {7}), c({2, 2});
  int64_t transposed[] = {1, 2}, shape[] = {2, 3}, zero[] = {0, 0};
  DLTensor at = a.dl;
  at.shape = shape;
  at.strides = transposed;
  b.dl.strides = zero;
  const DLTensor* inputs[] = {&at, &b.dl};
  DLTensor* outputs[] = {&c.dl};
  EXPECT_OK(tile_program_run(program, inputs, 2, outputs, 1, nullptr));
  EXPECT_EQ(c.data, (std::vector<float>{42, 42, 105, 105}));
  int64_t column_major[] = {1, 2};
  c.dl.strides = column_major;
  int64_t dense[] = {2, 1};
  b.dl.strides = dense;
  b.data = {1, 2, 3, 4, 5, 6};
  b.dl.data = b.data.data();
  EXPECT_OK(tile_program_run(program, inputs, 2, outputs, 1, nullptr));
  EXPECT_EQ(c.data, (std::vector<float>{22, 49, 28, 64}));
  tile_program_free(program);
}

TEST_F(Api, ErrorsCarryStageCodeAndPosition) {
  tile_program* program = nullptr;
  std::string text = "function (A[N]) -> (O) {\n  O[i: N] = +(Q[i]);\n}";
  tile_error* error =
      tile_program_parse(engine_, "tile", "bad.tile", text.data(), text.size(), &program);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(program, nullptr);
  EXPECT_EQ(tile_error_stage(error), TILE_STAGE_PARSE);
  EXPECT_EQ(tile_error_line(error), 2);
  EXPECT_GT(tile_error_column(error), 1);
  std::string rendered = tile_error_rendered(error);
  EXPECT_NE(rendered.find("bad.tile:2:"), std::string::npos) << rendered;
  EXPECT_NE(rendered.find('^'), std::string::npos) << rendered;
  EXPECT_NE(std::string(tile_error_json(error)).find("\"stage\":\"parse\""), std::string::npos);
  tile_error_free(error);
}

TEST_F(Api, ErrorsOfCallsHaveNoPlaceInTheText) {
  tile_program* program = nullptr;
  tile_error* error = tile_program_parse(engine_, "numpy", "a.tile", "x", 1, &program);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(tile_error_stage(error), TILE_STAGE_API);
  EXPECT_EQ(tile_error_line(error), 0);
  EXPECT_EQ(tile_error_column(error), 0);
  std::string json = tile_error_json(error);
  EXPECT_NE(json.find("\"stage\":\"call\""), std::string::npos) << json;
  EXPECT_NE(json.find("\"line\":0,\"column\":0"), std::string::npos) << json;
  EXPECT_EQ(json.find("<call>"), std::string::npos) << json;
  tile_error_free(error);
}

// rule 8.1: each stage where the specification puts it.
TEST_F(Api, BindCompileAndCallErrors) {
  tile_program* square = parsed("function (A[N, N]) -> (O) { O[i: N] = +(A[i, j]); }");
  Tensor wide({2, 3});
  const DLTensor* inputs[] = {&wide.dl};
  tile_executable* executable = nullptr;
  tile_error* error = tile_program_compile(square, inputs, 1, &executable);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(tile_error_stage(error), TILE_STAGE_BIND);
  tile_error_free(error);
  error = tile_program_compile(square, inputs, 0, &executable);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(tile_error_stage(error), TILE_STAGE_API);
  tile_error_free(error);
  tile_program_free(square);
  tile_program* twice = parsed("function (A[M], B[N]) -> (O) { O[i: M] = =(A[i] * B[j]); }");
  Tensor a({3}), b({2});
  const DLTensor* pair[] = {&a.dl, &b.dl};
  error = tile_program_compile(twice, pair, 2, &executable);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(tile_error_stage(error), TILE_STAGE_COMPILE);
  tile_error_free(error);
  tile_program_free(twice);
}

// Tensors that cannot be taken are told by name and position.
TEST_F(Api, ErrorsNameTensorsAndTheirPositions) {
  tile_program* program = parsed(kMatmul);
  Tensor a({2, 3}), b({3, 4}), c({2, 4});
  tile_executable* executable = nullptr;
  auto told = [](tile_error* error) {
    std::string message = error == nullptr ? "" : tile_error_message(error);
    tile_error_free(error);
    return message;
  };
  const DLTensor* inputs[] = {&a.dl, nullptr};
  EXPECT_EQ(told(tile_program_compile(program, inputs, 2, &executable)), "input B (1) is NULL");
  inputs[1] = &b.dl;
  EXPECT_OK(tile_program_compile(program, inputs, 2, &executable));
  DLTensor* outputs[] = {nullptr, &c.dl};
  auto run = [&](size_t count) {
    return told(tile_executable_run(executable, inputs, 2, outputs, count, nullptr));
  };
  EXPECT_EQ(run(1), "output C (0) is NULL");
  outputs[0] = &c.dl;
  outputs[1] = nullptr;
  EXPECT_EQ(run(2), "output 1 is NULL");
  a.dl.data = nullptr;
  EXPECT_EQ(run(1), "input A (0) has a null data pointer");
  EXPECT_EQ(told(tile_program_run(program, inputs, 2, outputs, 1, nullptr)),
            "input A (0) has a null data pointer");
  tile_compile_options options{};
  options.struct_size = sizeof options;
  const size_t first = 0;
  options.constants = &first;
  options.constant_count = 1;
  tile_executable* constant = nullptr;
  EXPECT_EQ(told(tile_program_compile_with(program, inputs, 2, &options, &constant)),
            "constant input A (0) has a null data pointer");
  tile_executable_free(executable);
  tile_program_free(program);
}

TEST_F(Api, OverlappingOutputsAreErrors) {
  // An element of A is read when its place in O is written already.
  tile_program* program = parsed("function (A[N]) -> (O) { O[i: N] = +(A[N - 1 - i]); }");
  Tensor a({4});
  const DLTensor* inputs[] = {&a.dl};
  DLTensor* outputs[] = {&a.dl};
  tile_error* error = tile_program_run(program, inputs, 1, outputs, 1, nullptr);
  ASSERT_NE(error, nullptr);
  EXPECT_STREQ(tile_error_code(error), "overlap");
  tile_error_free(error);
  tile_program_free(program);
}

TEST_F(Api, NullAndNonsenseArgumentsAreErrorsNotCrashes) {
  tile_program* program = nullptr;
  auto refused = [](tile_error* error) {
    bool failed = error != nullptr;
    tile_error_free(error);
    return failed;
  };
  EXPECT_TRUE(refused(tile_program_parse(nullptr, "tile", "", "", 0, &program)));
  EXPECT_TRUE(refused(tile_program_parse(engine_, nullptr, "", "", 0, &program)));
  EXPECT_TRUE(refused(tile_program_parse(engine_, "klingon", "", "", 0, &program)));
  EXPECT_TRUE(refused(tile_program_parse(engine_, "tile", "", "", 0, nullptr)));
  EXPECT_TRUE(refused(tile_executable_run(nullptr, nullptr, 0, nullptr, 0, nullptr)));
  tile_engine* other = nullptr;
  tile_engine_options options{};
  EXPECT_TRUE(refused(tile_engine_create(&options, &other))) << "struct_size is not set";
  options.struct_size = sizeof options;
  options.backend = "abacus";
  EXPECT_TRUE(refused(tile_engine_create(&options, &other)));
  EXPECT_EQ(other, nullptr);
  program = parsed(kMatmul);
  Tensor a({2, 3});
  a.dl.ndim = 70;
  const DLTensor* inputs[] = {&a.dl, nullptr};
  tile_executable* executable = nullptr;
  EXPECT_TRUE(refused(tile_program_compile(program, inputs, 2, &executable)));
  a.dl.ndim = 2;
  a.dl.dtype = {3, 32, 1};
  EXPECT_TRUE(refused(tile_program_compile(program, inputs, 2, &executable)));
  tile_program_free(program);
  tile_program_free(nullptr);
  tile_engine_free(nullptr);
  tile_error_free(nullptr);
}

TEST_F(Api, AThousandThreadsWouldCompileOnce) {
  tile_program* program = parsed(kMatmul);
  Tensor a({17, 19}), b({19, 23});
  const DLTensor* inputs[] = {&a.dl, &b.dl};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      Tensor c({17, 23});
      DLTensor* outputs[] = {&c.dl};
      for (int i = 0; i < 20; ++i) {
        EXPECT_OK(tile_program_run(program, inputs, 2, outputs, 1, nullptr));
      }
    });
  }
  for (std::thread& t : threads) t.join();
  tile_engine_statistics s{};
  s.struct_size = sizeof s;
  EXPECT_OK(tile_engine_statistics_get(engine_, &s));
  EXPECT_EQ(s.binds, 1U);
  EXPECT_EQ(s.kernels_compiled, 1U);
  EXPECT_EQ(s.executable_hits, 159U);
  tile_program_free(program);
}

TEST_F(Api, TheSameNestIsCompiledOnceWhateverItsNames) {
  for (const char* text : {"function (A[N]) -> (O) { O[i: N] = +(A[i] * 2.5); }",
                           "function (Q[K]) -> (R) { R[z: K] = +(Q[z] * 2.5); }"}) {
    tile_program* program = parsed(text);
    Tensor a({100}), o({100});
    const DLTensor* inputs[] = {&a.dl};
    DLTensor* outputs[] = {&o.dl};
    EXPECT_OK(tile_program_run(program, inputs, 1, outputs, 1, nullptr));
    tile_program_free(program);
  }
  tile_engine_statistics s{};
  s.struct_size = sizeof s;
  EXPECT_OK(tile_engine_statistics_get(engine_, &s));
  EXPECT_EQ(s.kernels_compiled, 1U);
}

TEST_F(Api, TextsOfStages) {
  tile_program* program = parsed(kMatmul);
  EXPECT_NE(std::string(tile_program_text(program)).find("function"), std::string::npos);
  Tensor a({8, 8}), b({8, 16});
  const DLTensor* inputs[] = {&a.dl, &b.dl};
  tile_executable* executable = nullptr;
  EXPECT_OK(tile_program_compile(program, inputs, 2, &executable));
  for (const char* stage :
       {"program", "bound", "reduced", "kernels", "schedule", "nest", "llvm", "asm"}) {
    char* text = nullptr;
    EXPECT_OK(tile_executable_emit(executable, stage, &text));
    EXPECT_GT(std::strlen(text), 20U) << stage;
    tile_string_free(text);
  }
  char* text = nullptr;
  EXPECT_OK(tile_executable_explain(executable, &text));
  EXPECT_NE(std::string(text).find("matrix"), std::string::npos) << text;
  tile_string_free(text);
  tile_error* error = tile_executable_emit(executable, "nonsense", &text);
  EXPECT_NE(error, nullptr);
  tile_error_free(error);
  tile_executable_free(executable);
  tile_program_free(program);
}

// rule 4.5: zero-sized dimensions run, with null pointers too.
TEST_F(Api, EmptyTensors) {
  tile_program* program = parsed(kMatmul);
  Tensor a({0, 3}), b({3, 2}), c({0, 2});
  a.dl.data = nullptr;
  c.dl.data = nullptr;
  const DLTensor* inputs[] = {&a.dl, &b.dl};
  DLTensor* outputs[] = {&c.dl};
  EXPECT_OK(tile_program_run(program, inputs, 2, outputs, 1, nullptr));
  tile_program_free(program);
}

TEST_F(Api, MemoryLimitAndCancellation) {
  tile_engine_options options{};
  options.struct_size = sizeof options;
  options.cache_mode = "off";
  options.memory_limit = 1000;
  tile_engine* small = nullptr;
  EXPECT_OK(tile_engine_create(&options, &small));
  std::string text =
      "function (A[M, N]) -> (O) { S[j: N] = +(A[i, j]); T[i: N] = >(S[k]), i - k < N;"
      " O[j: N] = +(T[j + k]), k < 3; }";
  tile_program* program = nullptr;
  EXPECT_OK(tile_program_parse(small, "tile", nullptr, text.data(), text.size(), &program));
  Tensor a({4, 1000});
  const DLTensor* inputs[] = {&a.dl};
  tile_executable* executable = nullptr;
  tile_error* error = tile_program_compile(program, inputs, 1, &executable);
  ASSERT_NE(error, nullptr);
  EXPECT_STREQ(tile_error_code(error), "memory");
  tile_error_free(error);
  tile_program_free(program);
  tile_engine_free(small);
  options.memory_limit = 0;
  int is_cancelled = 0;
  options.cancel = [](void* user) { return *static_cast<int*>(user); };
  options.cancel_user = &is_cancelled;
  EXPECT_OK(tile_engine_create(&options, &small));
  EXPECT_OK(tile_program_parse(small, "tile", nullptr, text.data(), text.size(), &program));
  is_cancelled = 1;
  error = tile_program_compile(program, inputs, 1, &executable);
  ASSERT_NE(error, nullptr);
  EXPECT_STREQ(tile_error_code(error), "cancelled");
  tile_error_free(error);
  tile_program_free(program);
  tile_engine_free(small);
}

TEST_F(Api, TuningKeepsTheValues) {
  tile_program* program = parsed(kMatmul);
  Tensor a({33, 65}), b({65, 47}), c({33, 47}), tuned({33, 47});
  for (size_t i = 0; i < a.data.size(); ++i) a.data[i] = static_cast<float>(i % 5) - 2;
  for (size_t i = 0; i < b.data.size(); ++i) b.data[i] = static_cast<float>(i % 7) - 3;
  const DLTensor* inputs[] = {&a.dl, &b.dl};
  DLTensor *first[] = {&c.dl}, *second[] = {&tuned.dl};
  tile_executable* executable = nullptr;
  EXPECT_OK(tile_program_compile(program, inputs, 2, &executable));
  EXPECT_OK(tile_executable_run(executable, inputs, 2, first, 1, nullptr));
  EXPECT_OK(tile_executable_tune(executable, 50));
  EXPECT_OK(tile_executable_run(executable, inputs, 2, second, 1, nullptr));
  EXPECT_EQ(c.data, tuned.data);
  tile_executable_free(executable);
  tile_program_free(program);
}

TEST_F(Api, GradientsByTheCInterface) {
  tile_program* program = parsed(kMatmul);
  const char* wrt[] = {"B"};
  tile_program* gradient = nullptr;
  EXPECT_OK(tile_program_differentiate(program, "C", wrt, 1, &gradient));
  EXPECT_EQ(tile_program_input_count(gradient), 3U);
  EXPECT_EQ(tile_program_output_count(gradient), 2U);
  Tensor a({1, 2}, {3, 4}), b({2, 1}), seed({1, 1}, {10}), c({1, 1}), db({2, 1});
  const DLTensor* inputs[] = {&a.dl, &b.dl, &seed.dl};
  DLTensor* outputs[] = {&c.dl, &db.dl};
  EXPECT_OK(tile_program_run(gradient, inputs, 3, outputs, 2, nullptr));
  EXPECT_EQ(db.data, (std::vector<float>{30, 40}));
  tile_program* none = nullptr;
  tile_error* error = tile_program_differentiate(program, "D", wrt, 1, &none);
  ASSERT_NE(error, nullptr);
  tile_error_free(error);
  tile_program_free(gradient);
  tile_program_free(program);
}

}  // namespace
