// Values of parameters outside of their declared range: forced into it, and told of.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "tile/tile.h"

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const char* kFilter =
    "@param_f32 gain(SLIDER, min=0.0, max=4.0, init=2.0)\n"
    "@param_f32v2 shift(SLIDER, max=1.0, init=[0.0, 0.0])\n"
    "@param_i32 size(SLIDER, min=1, init=2)\n"
    "@bounds(size)\n"
    "def t |x| { input_row(x)*gain + shift.y }\n";

std::string taken(tile_error* error) {
  std::string text = error == nullptr ? "" : tile_error_rendered(error);
  tile_error_free(error);
  return text;
}

struct Vector {
  std::vector<float> data;
  int64_t count = 0;
  DLTensor dl{};
  explicit Vector(std::vector<float> values) : data(std::move(values)) {
    count = static_cast<int64_t>(data.size());
    dl.data = data.data();
    dl.device = {kDLCPU, 0};
    dl.ndim = 1;
    dl.dtype = {kDLFloat, 32, 1};
    dl.shape = &count;
  }
  Vector(const Vector&) = delete;
};
template <class T>
struct Number {
  T value;
  DLTensor dl{};
  explicit Number(T v) : value(v) {
    dl.data = &value;
    dl.device = {kDLCPU, 0};
    dl.dtype = {static_cast<uint8_t>(std::is_same_v<T, float> ? kDLFloat : kDLInt), 32, 1};
  }
  Number(const Number&) = delete;
};

void note(void* user, tile_log_level level, const char* message) {
  if (level == TILE_LOG_WARNING) static_cast<std::vector<std::string>*>(user)->push_back(message);
}

class ParameterRanges : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    tile_engine_options options{};
    options.struct_size = sizeof options;
    options.backend = GetParam();
    options.cache_mode = "off";
    options.log = note;
    options.log_user = &logged_;
    ASSERT_EQ(taken(tile_engine_create(&options, &engine_)), "");
    ASSERT_EQ(taken(tile_program_parse(engine_, "mfg", "f", kFilter, strlen(kFilter), &program_)),
              "");
    const char* t = "t";
    tile_program* named = nullptr;
    ASSERT_EQ(taken(tile_program_with_outputs(program_, &t, 1, &named)), "");
    tile_program_free(program_);
    program_ = named;
  }
  void TearDown() override {
    tile_executable_free(executable_);
    tile_program_free(program_);
    tile_engine_free(engine_);
  }
  // In the order of the program's inputs.
  std::vector<const DLTensor*> inputs(const DLTensor& gain, const DLTensor* shift = nullptr,
                                      const DLTensor* size = nullptr) const {
    std::vector<const DLTensor*> list;
    for (size_t i = 0; i < tile_program_input_count(program_); ++i) {
      std::string name = tile_program_input_name(program_, i);
      list.push_back(name == "gain"    ? &gain
                     : name == "shift" ? shift
                     : name == "size"  ? size
                                       : &row_.dl);
    }
    return list;
  }
  std::vector<float> run(const std::vector<const DLTensor*>& given, size_t count = 2) {
    Vector out(std::vector<float>(count, -1));
    DLTensor* outputs[] = {&out.dl};
    EXPECT_EQ(taken(tile_program_run(program_, given.data(), given.size(), outputs, 1, nullptr)),
              "");
    return out.data;
  }
  std::string listed() const {
    char* json = nullptr;
    EXPECT_EQ(taken(tile_executable_warnings(executable_, &json)), "");
    std::string list = json == nullptr ? "" : json;
    tile_string_free(json);
    return list;
  }

  Vector row_{{1, 2, 3}};
  Vector zeros_{{0, 0}};
  std::vector<std::string> logged_;
  tile_engine* engine_ = nullptr;
  tile_program* program_ = nullptr;
  tile_executable* executable_ = nullptr;
};

TEST_P(ParameterRanges, ValuesInsideAreNotToldOf) {
  Number<float> gain(4);
  EXPECT_THAT(run(inputs(gain.dl)), ElementsAre(4, 8));
  gain.value = NAN;
  run(inputs(gain.dl));
  EXPECT_THAT(logged_, IsEmpty());
}

TEST_P(ParameterRanges, AValueOutsideIsToldOfOnce) {
  Number<float> gain(1);
  Number<int32_t> size(2);
  auto given = inputs(gain.dl, &zeros_.dl, &size.dl);
  EXPECT_THAT(run(given), ElementsAre(1, 2));
  gain.value = 7.5;
  EXPECT_THAT(run(given), ElementsAre(4, 8));
  gain.value = -3;
  EXPECT_THAT(run(given), ElementsAre(0, 0));
  ASSERT_EQ(logged_.size(), 1U);
  EXPECT_THAT(logged_[0], HasSubstr("f:1:12: run warning [range]: the parameter gain is 7.5, "
                                    "outside of its range, 0 to 4: 4 is used"));
}

TEST_P(ParameterRanges, ComponentsAndSizesAreToldOfToo) {
  Number<float> gain(1);
  Vector shift({9, 1.5});
  Number<int32_t> size(-1);
  EXPECT_THAT(run(inputs(gain.dl, &shift.dl, &size.dl), 1), ElementsAre(2));
  ASSERT_EQ(logged_.size(), 2U);
  EXPECT_THAT(logged_[0], HasSubstr("component 0 of the parameter shift is 9, outside of its "
                                    "range, at most 1: 1 is used"));
  EXPECT_THAT(logged_[1], HasSubstr("the parameter size is -1, outside of its range, at least 1: "
                                    "1 is used"));
}

TEST_P(ParameterRanges, TheListOfAnExecutableHasThem) {
  Number<float> gain(7);
  auto given = inputs(gain.dl);
  ASSERT_EQ(taken(tile_program_compile(program_, given.data(), given.size(), &executable_)), "");
  EXPECT_THAT(listed(), Not(HasSubstr("range")));
  Vector out({0, 0});
  DLTensor* outputs[] = {&out.dl};
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(
        taken(tile_executable_run(executable_, given.data(), given.size(), outputs, 1, nullptr)),
        "");
  }
  EXPECT_THAT(listed(), HasSubstr("\"severity\":\"warning\",\"stage\":\"run\",\"code\":\"range\""));
  EXPECT_EQ(logged_.size(), 1U);
}

TEST_P(ParameterRanges, OfAConstantTheCopyIsLookedAt) {
  Number<float> gain(7);
  auto given = inputs(gain.dl);
  size_t constant = 0;
  while (given[constant] != &gain.dl) ++constant;
  tile_compile_options options{};
  options.struct_size = sizeof options;
  options.constants = &constant;
  options.constant_count = 1;
  ASSERT_EQ(taken(tile_program_compile_with(program_, given.data(), given.size(), &options,
                                            &executable_)),
            "");
  given[constant] = nullptr;
  Vector out({0, 0});
  DLTensor* outputs[] = {&out.dl};
  EXPECT_EQ(
      taken(tile_executable_run(executable_, given.data(), given.size(), outputs, 1, nullptr)), "");
  EXPECT_THAT(out.data, ElementsAre(4, 8));
  EXPECT_EQ(logged_.size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(Backends, ParameterRanges, testing::Values("cpu", "reference"),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace
