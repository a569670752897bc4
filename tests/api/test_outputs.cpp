// Outputs through the C interface: which layouts are taken and which refused.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tile/tile.h"

namespace {

constexpr const char* kTwice = "function (A[N, M]) -> (O) { O = A * 2; }";
constexpr int64_t kRows = 3, kColumns = 4;

class Outputs : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    tile_engine_options options{};
    options.struct_size = sizeof options;
    options.backend = GetParam();
    options.cache_mode = "off";
    ASSERT_EQ(tile_engine_create(&options, &engine_), nullptr);
    std::string text = kTwice;
    ASSERT_EQ(tile_program_parse(engine_, "tile", "t", text.data(), text.size(), &program_),
              nullptr);
  }
  void TearDown() override {
    tile_program_free(program_);
    tile_engine_free(engine_);
  }

  // The error's code and text; empty: none.
  std::string run(const float* input, std::vector<int64_t> from, float* output,
                  std::vector<int64_t> to) {
    int64_t shape[] = {kRows, kColumns};
    DLTensor a{const_cast<float*>(input), {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0};
    DLTensor o{output, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0};
    if (!from.empty()) a.strides = from.data();
    if (!to.empty()) o.strides = to.data();
    const DLTensor* inputs[] = {&a};
    DLTensor* outputs[] = {&o};
    return taken(tile_program_run(program_, inputs, 1, outputs, 1, nullptr));
  }
  static std::string taken(tile_error* error) {
    if (error == nullptr) return "";
    std::string text = std::string(tile_error_code(error)) + ": " + tile_error_message(error);
    tile_error_free(error);
    return text;
  }

  tile_engine* engine_ = nullptr;
  tile_program* program_ = nullptr;
};

std::vector<float> counted() {
  std::vector<float> values(kRows * kColumns);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return values;
}

// Elements stay where the strides put them, backwards too; what lies between stays as it was.
TEST_P(Outputs, LayoutsWithoutSharedElementsAreTaken) {
  std::vector<float> a = counted();
  for (const std::vector<int64_t>& strides : std::vector<std::vector<int64_t>>{
           {}, {4, 1}, {9, 2}, {1, 3}, {-4, 1}, {4, -1}, {-9, -2}, {2, -7}, {3, 4}}) {
    std::vector<float> memory(200, -1);
    float* first = memory.data() + 100;
    ASSERT_EQ(run(a.data(), {}, first, strides), "");
    int64_t row = strides.empty() ? kColumns : strides[0],
            column = strides.empty() ? 1 : strides[1];
    for (int64_t i = 0; i < kRows * kColumns; ++i) {
      float& cell = first[i / kColumns * row + i % kColumns * column];
      EXPECT_EQ(cell, 2 * a[static_cast<size_t>(i)]);
      cell = -1;
    }
    EXPECT_EQ(memory, std::vector<float>(200, -1));
  }
}

// They were accepted, and one of the elements that share a cell won.
TEST_P(Outputs, SharedElementsAreErrors) {
  std::vector<float> a = counted(), memory(100, -1);
  for (const std::vector<int64_t>& strides : std::vector<std::vector<int64_t>>{
           {0, 1}, {4, 0}, {0, 0}, {1, 1}, {3, 1}, {-3, 1}, {2, -1}, {1, 2}}) {
    std::string said = run(a.data(), {}, memory.data() + 50, strides);
    EXPECT_NE(said.find("overlap: output O (0) has strides ["), std::string::npos) << said;
  }
  EXPECT_EQ(memory, std::vector<float>(100, -1));
}

TEST_P(Outputs, OverlapWithAnInputIsByElement) {
  std::vector<float> matrix(kRows * 8);
  for (size_t i = 0; i < matrix.size(); ++i) matrix[i] = static_cast<float>(i);
  // The right half of each row from the left one.
  ASSERT_EQ(run(matrix.data(), {8, 1}, matrix.data() + 4, {8, 1}), "");
  EXPECT_EQ(matrix[8 + 4 + 3], 2 * 11);
  EXPECT_EQ(run(matrix.data(), {8, 1}, matrix.data() + 3, {8, 1}),
            "overlap: output O (0) overlaps input A (0)");
  EXPECT_EQ(run(matrix.data(), {}, matrix.data() + 11, {}),
            "overlap: output O (0) overlaps input A (0)");
  EXPECT_EQ(run(matrix.data(), {}, matrix.data() + 12, {}), "");
}

TEST_P(Outputs, BudgetsOfRacesAreNumbers) {
  int64_t shape[] = {kRows, kColumns};
  DLTensor a{nullptr, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0};
  const DLTensor* inputs[] = {&a};
  tile_executable* executable = nullptr;
  ASSERT_EQ(taken(tile_program_compile(program_, inputs, 1, &executable)), "");
  for (double budget : {std::nan(""), std::numeric_limits<double>::infinity(), -1.0}) {
    std::string said = taken(tile_executable_tune(executable, budget));
    EXPECT_NE(said.find("argument: a tuning budget of"), std::string::npos) << said;
  }
  EXPECT_EQ(taken(tile_executable_tune(executable, 0)), "");
  tile_executable_free(executable);
}

INSTANTIATE_TEST_SUITE_P(Backends, Outputs, testing::Values("cpu", "reference"),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace
