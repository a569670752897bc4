// What a program's outputs are before it is compiled: as expressions, and for given inputs.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tile/tile.h"

namespace {

std::string taken(tile_error* error) {
  if (error == nullptr) return "";
  std::string text = std::string(tile_error_code(error)) + ": " + tile_error_message(error);
  tile_error_free(error);
  return text;
}

class Inference : public testing::Test {
 protected:
  void SetUp() override {
    tile_engine_options options{};
    options.struct_size = sizeof options;
    options.backend = "cpu";
    options.cache_mode = "off";
    ASSERT_EQ(taken(tile_engine_create(&options, &engine_)), "");
  }
  void TearDown() override {
    for (tile_program* p : programs_) tile_program_free(p);
    tile_engine_free(engine_);
  }

  tile_program* parsed(const char* language, const std::string& text) {
    tile_program* program = nullptr;
    EXPECT_EQ(taken(tile_program_parse(engine_, language, "t", text.data(), text.size(), &program)),
              "");
    programs_.push_back(program);
    return program;
  }
  std::string signature(const char* language, const std::string& text) {
    char* json = nullptr;
    EXPECT_EQ(taken(tile_program_signature(parsed(language, text), &json)), "");
    std::string result = json == nullptr ? "" : json;
    tile_string_free(json);
    return result;
  }
  // The dims of the only output.
  std::string sizes(const std::string& text) {
    std::string all = signature("tile", text), key = "\"dims\":";
    size_t from = all.rfind(key) + key.size();
    return all.substr(from, all.size() - from - 3);
  }

  struct Input {
    DLDataType type;
    std::vector<int64_t> shape;
  };
  // "f32[2, 3]" of each output, or the error.
  std::string inferred(tile_program* program, const std::vector<Input>& inputs) {
    std::vector<DLTensor> tensors;
    std::vector<const DLTensor*> pointers;
    for (const Input& i : inputs) {
      tensors.push_back({nullptr,
                         {kDLCPU, 0},
                         static_cast<int32_t>(i.shape.size()),
                         i.type,
                         const_cast<int64_t*>(i.shape.data()),
                         nullptr,
                         0});
    }
    for (const DLTensor& t : tensors) pointers.push_back(&t);
    tile_inference* inference = nullptr;
    std::string error =
        taken(tile_program_infer(program, pointers.data(), pointers.size(), &inference));
    if (!error.empty()) {
      EXPECT_EQ(inference, nullptr);
      return error;
    }
    std::string result;
    for (size_t i = 0; i < tile_program_output_count(program); ++i) {
      DLTensor t;
      EXPECT_EQ(taken(tile_inference_output(inference, i, &t)), "");
      result += (t.dtype.code == kDLFloat ? "f" : "i") + std::to_string(t.dtype.bits) + "[";
      for (int32_t d = 0; d < t.ndim; ++d) {
        result += std::to_string(t.shape[d]) + ":" + std::to_string(t.strides[d]) + " ";
      }
      result += "]";
    }
    tile_inference_free(inference);
    return result;
  }

  tile_engine* engine_ = nullptr;
  std::vector<tile_program*> programs_;
};

constexpr DLDataType kF32{kDLFloat, 32, 1}, kF64{kDLFloat, 64, 1}, kI32{kDLInt, 32, 1};
constexpr const char* kProduct =
    "function (A[M, L], B[L, N]) -> (O) { O[i, j: M, N] = +(A[i, k] * B[k, j]); }";

TEST_F(Inference, SignatureNamesWhatIsDeclared) {
  EXPECT_EQ(signature("tile", kProduct), R"({"inputs":[{"name":"A","dims":["M","L"],"type":null},)"
                                         R"({"name":"B","dims":["L","N"],"type":null}],)"
                                         R"("outputs":[{"name":"O","dims":["M","N"]}]})");
  EXPECT_EQ(signature("tile", "function (X) -> (Y) { Y = X * 2; }"),
            R"({"inputs":[{"name":"X","dims":null,"type":null}],)"
            R"("outputs":[{"name":"Y","dims":null}]})");
}

TEST_F(Inference, SizesAreExpressionsOfTheInputs) {
  EXPECT_EQ(sizes("function (A[N, 3]) -> (O) { O[i: (N - 1) / 2] = +(A[2 * i + k, 0]), k < 2; }"),
            R"([["/",["-","N",1],2]])");
  EXPECT_EQ(sizes("function (A[M, N], B[N]) -> (O) { O = exp(A) + B; }"), R"(["M","N"])");
  EXPECT_EQ(sizes("function (A[M, N]) -> (O) { O = reshape(transpose(A, 1, 0), N * M, 1); }"),
            R"([["*","N","M"],1])");
  EXPECT_EQ(sizes("function (A[M, N], B[M, L]) -> (O) { O = concat(1, A, B); }"),
            R"(["M",["+","N","L"]])");
  EXPECT_EQ(sizes("function (A[M, N], I[K]) -> (O) { O = gather(A, I); }"), R"(["K","N"])");
  EXPECT_EQ(sizes("function (A[M, N]) -> (O) { O = argmax(A, 0); }"), R"(["N"])");
  // Which of the two is 1 decides.
  EXPECT_EQ(sizes("function (A[M], B[N]) -> (O) { O = A + B; }"), "null");
}

TEST_F(Inference, ParametersHaveDefaults) {
  std::string told = signature("mfg",
                               "@title \"Brighter\"\n"
                               "@param_i32 gain(SLIDER, label=\"Gain\", min=1, max=20, init=5)\n"
                               "def result_u8 |x, y| {\n"
                               "  let c = input_u8(x, y)\n"
                               "  u8[*c.xyz / gain, c.w]\n"
                               "}\n");
  EXPECT_NE(told.find(R"({"name":"gain","dims":[],"type":"i32","default":[5.0],"min":1.0,)"
                      R"("max":20.0,"label":"Gain"})"),
            std::string::npos)
      << told;
}

TEST_F(Inference, ShapesTypesAndDenseStrides) {
  tile_program* product = parsed("tile", kProduct);
  EXPECT_EQ(inferred(product, {{kF32, {2, 3}}, {kF32, {3, 4}}}), "f32[2:4 4:1 ]");
  EXPECT_EQ(inferred(product, {{kF32, {2, 3}}, {kF64, {3, 4}}}), "f64[2:4 4:1 ]");
  EXPECT_EQ(inferred(product, {{kI32, {0, 3}}, {kI32, {3, 1}}}), "i32[0:1 1:1 ]");
  std::string wrong = inferred(product, {{kF32, {2, 3}}, {kF32, {4, 4}}});
  EXPECT_EQ(wrong.substr(0, 10), "dimension:") << wrong;
  EXPECT_EQ(inferred(product, {{kF32, {2, 3}}}).substr(0, 9), "argument:");
}

TEST_F(Inference, CompilesNothing) {
  tile_program* product = parsed("tile", kProduct);
  inferred(product, {{kF32, {2, 3}}, {kF32, {3, 4}}});
  tile_engine_statistics s{};
  s.struct_size = sizeof s;
  ASSERT_EQ(taken(tile_engine_statistics_get(engine_, &s)), "");
  EXPECT_EQ(s.kernels_compiled, 0u);
  EXPECT_EQ(s.cached_bytes, 0u);
}

TEST_F(Inference, ArgumentsAreChecked) {
  tile_program* product = parsed("tile", kProduct);
  char* json = nullptr;
  tile_inference* inference = nullptr;
  DLTensor t;
  EXPECT_EQ(taken(tile_program_signature(nullptr, &json)).substr(0, 9), "argument:");
  EXPECT_EQ(taken(tile_program_signature(product, nullptr)).substr(0, 9), "argument:");
  EXPECT_EQ(taken(tile_program_infer(nullptr, nullptr, 0, &inference)).substr(0, 9), "argument:");
  EXPECT_EQ(taken(tile_inference_output(nullptr, 0, &t)).substr(0, 9), "argument:");
  tile_inference_free(nullptr);
}

// An engine's callback that spares runs is asked while a program is compiled, and by no run.
TEST(CancelSparesRuns, OnlyCompilationsAsk) {
  int asked = 0;
  tile_engine_options options{};
  options.struct_size = sizeof options;
  options.backend = "cpu";
  options.cache_mode = "off";
  options.cancel = [](void* user) { return ++*static_cast<int*>(user), 0; };
  options.cancel_user = &asked;
  options.cancel_spares_runs = 1;
  tile_engine* engine = nullptr;
  ASSERT_EQ(taken(tile_engine_create(&options, &engine)), "");
  tile_program* program = nullptr;
  std::string text = "function (A[M, N]) -> (O) { S[m: M] = +(A[m, n]); O[] = >(S[m]); }";
  ASSERT_EQ(taken(tile_program_parse(engine, "tile", "t", text.data(), text.size(), &program)), "");
  std::vector<float> values(1000 * 1000, 1.0f);
  int64_t shape[] = {1000, 1000};
  float result = 0;
  DLTensor a{values.data(), {kDLCPU, 0}, 2, kF32, shape, nullptr, 0};
  DLTensor o{&result, {kDLCPU, 0}, 0, kF32, nullptr, nullptr, 0};
  const DLTensor* inputs[] = {&a};
  DLTensor* outputs[] = {&o};
  ASSERT_EQ(taken(tile_program_run(program, inputs, 1, outputs, 1, nullptr)), "");
  EXPECT_EQ(result, 1000.0f);
  EXPECT_GT(asked, 0);
  asked = 0;
  ASSERT_EQ(taken(tile_program_run(program, inputs, 1, outputs, 1, nullptr)), "");
  EXPECT_EQ(asked, 0);
  // A run's own callback counts.
  tile_run_options run{};
  run.struct_size = sizeof run;
  run.cancel = [](void*) { return 1; };
  EXPECT_EQ(taken(tile_program_run(program, inputs, 1, outputs, 1, &run)).substr(0, 9),
            "cancelled");
  tile_program_free(program);
  tile_engine_free(engine);
}

}  // namespace
