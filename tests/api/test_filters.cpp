// MFG filters through the C interface: run-time parameters, outputs by name.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tile/tile.h"

namespace {

const char* kBlur =
    "@param_i32 radius(SLIDER, min=1, max=64, init=1)\n"
    "let s = sampler<input_f32>(address=.ClampToEdge)\n"
    "@bounds(input_f32.extent(0), input_f32.extent(1))\n"
    "def across |x, y| { rsum(-radius..<radius+1) |i| { s(x+i, y) } }\n"
    "def result_f32 |x, y| { across(x, y)/f32(2*radius + 1) }\n";
const char* kTiles =
    "@param_i32 size(SLIDER, min=1, max=64, init=2)\n"
    "@bounds((input_row.extent(0) - 1)/size + 1)\n"
    "def t |i| { input_row(i*size) }\n";

#define EXPECT_OK(call)                                            \
  do {                                                             \
    tile_error* e_ = (call);                                       \
    EXPECT_EQ(e_, nullptr) << (e_ ? tile_error_rendered(e_) : ""); \
    tile_error_free(e_);                                           \
  } while (false)

struct Tensor {
  std::vector<float> data;
  std::vector<int64_t> shape;
  DLTensor dl{};
  Tensor(std::vector<int64_t> s, std::vector<float> d) : data(std::move(d)), shape(std::move(s)) {
    dl.data = data.data();
    dl.device = {kDLCPU, 0};
    dl.ndim = static_cast<int32_t>(shape.size());
    dl.dtype = {kDLFloat, 32, 1};
    dl.shape = shape.data();
  }
  Tensor(const Tensor&) = delete;
};

struct Integer {
  int32_t value;
  DLTensor dl{};
  explicit Integer(int32_t v) : value(v) {
    dl.data = &value;
    dl.device = {kDLCPU, 0};
    dl.dtype = {kDLInt, 32, 1};
  }
  Integer(const Integer&) = delete;
};

class Filters : public testing::Test {
 protected:
  void SetUp() override {
    tile_engine_options options{};
    options.struct_size = sizeof options;
    options.backend = "cpu";
    options.cache_mode = "off";
    EXPECT_OK(tile_engine_create(&options, &engine_));
  }
  void TearDown() override { tile_engine_free(engine_); }

  tile_program* parsed(const std::string& text) {
    tile_program* program = nullptr;
    EXPECT_OK(tile_program_parse(engine_, "mfg", "test.mfg", text.data(), text.size(), &program));
    return program;
  }
  tile_engine_statistics statistics() {
    tile_engine_statistics s{};
    s.struct_size = sizeof s;
    EXPECT_OK(tile_engine_statistics_get(engine_, &s));
    return s;
  }
  tile_engine* engine_ = nullptr;
};

// mfg section 1: changing a parameter never recompiles.
TEST_F(Filters, AnotherRadiusCompilesNothing) {
  tile_program* program = parsed(kBlur);
  EXPECT_STREQ(tile_program_input_name(program, 0), "radius");
  Tensor in({1, 5}, {1, 2, 3, 4, 10}), out({1, 5}, {0, 0, 0, 0, 0});
  DLTensor* outputs[] = {&out.dl};
  const DLTensor* defaults[] = {nullptr, &in.dl};
  EXPECT_OK(tile_program_run(program, defaults, 2, outputs, 1, nullptr));
  EXPECT_FLOAT_EQ(out.data[0], 4.0F / 3);
  EXPECT_FLOAT_EQ(out.data[4], 8);
  tile_engine_statistics before = statistics();
  for (int32_t radius = 1; radius <= 4; ++radius) {
    Integer r(radius);
    const DLTensor* inputs[] = {&r.dl, &in.dl};
    EXPECT_OK(tile_program_run(program, inputs, 2, outputs, 1, nullptr));
  }
  EXPECT_FLOAT_EQ(out.data[0], (5 * 1 + 2 + 3 + 4 + 10) / 9.0F);
  EXPECT_EQ(statistics().kernels_compiled, before.kernels_compiled);
  EXPECT_EQ(statistics().binds, before.binds);
  tile_program_free(program);
}

// A parameter that sets a size is part of the executable's key.
TEST_F(Filters, AParameterThatSetsASizeBindsAnew) {
  tile_program* program = parsed(kTiles);
  Tensor in({5}, {1, 2, 3, 4, 5}), three({3}, {0, 0, 0}), two({2}, {0, 0});
  DLTensor* into_three[] = {&three.dl};
  DLTensor* into_two[] = {&two.dl};
  const DLTensor* defaults[] = {nullptr, &in.dl};
  EXPECT_OK(tile_program_run(program, defaults, 2, into_three, 1, nullptr));
  EXPECT_EQ(three.data, (std::vector<float>{1, 3, 5}));
  Integer four(4), five(5);
  const DLTensor* fours[] = {&four.dl, &in.dl};
  EXPECT_OK(tile_program_run(program, fours, 2, into_two, 1, nullptr));
  EXPECT_EQ(two.data, (std::vector<float>{1, 5}));
  // An executable is for one value.
  tile_executable* executable = nullptr;
  EXPECT_OK(tile_program_compile(program, fours, 2, &executable));
  const DLTensor* fives[] = {&five.dl, &in.dl};
  tile_error* error = tile_executable_run(executable, fives, 2, into_two, 1, nullptr);
  ASSERT_NE(error, nullptr);
  EXPECT_NE(std::string(tile_error_message(error)).find("size"), std::string::npos);
  tile_error_free(error);
  tile_executable_free(executable);
  tile_program_free(program);
}

// mfg section 1: any tensor may be asked for.
TEST_F(Filters, AnyTensorMayBeAskedFor) {
  tile_program* program = parsed(kBlur);
  EXPECT_EQ(tile_program_output_count(program), 1U);
  const char* names[] = {"across"};
  tile_program* other = nullptr;
  EXPECT_OK(tile_program_with_outputs(program, names, 1, &other));
  EXPECT_STREQ(tile_program_output_name(other, 0), "across");
  Tensor in({1, 3}, {1, 2, 4}), out({1, 3}, {0, 0, 0});
  const DLTensor* inputs[] = {nullptr, &in.dl};
  DLTensor* outputs[] = {&out.dl};
  EXPECT_OK(tile_program_run(other, inputs, 2, outputs, 1, nullptr));
  EXPECT_EQ(out.data, (std::vector<float>{4, 7, 10}));
  const char* unknown[] = {"radius"};
  tile_program* none = nullptr;
  tile_error* error = tile_program_with_outputs(program, unknown, 1, &none);
  ASSERT_NE(error, nullptr);
  tile_error_free(error);
  tile_program_free(other);
  tile_program_free(program);
}

}  // namespace
