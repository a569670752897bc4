// Warnings through the C interface: as lists, and in an engine's log.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tile/tile.h"

namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string taken(tile_error* error) {
  if (error == nullptr) return "";
  std::string text = std::string(tile_error_code(error)) + ": " + tile_error_message(error);
  tile_error_free(error);
  return text;
}
std::string taken(char* text) {
  std::string result = text == nullptr ? "" : text;
  tile_string_free(text);
  return result;
}

struct Logged {
  std::vector<std::string> warnings;
};
void note(void* user, tile_log_level level, const char* message) {
  if (level == TILE_LOG_WARNING) static_cast<Logged*>(user)->warnings.emplace_back(message);
}

class Warnings : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    tile_engine_options options{};
    options.struct_size = sizeof options;
    options.backend = GetParam();
    options.cache_mode = "off";
    options.log = note;
    options.log_user = &logged_;
    ASSERT_EQ(taken(tile_engine_create(&options, &engine_)), "");
    const std::string text = "function (A[N], B[N]) -> (S) {\n  S[] = +(A[i]);\n}\n";
    ASSERT_EQ(taken(tile_program_parse(engine_, "tile", "t", text.data(), text.size(), &program_)),
              "");
  }
  void TearDown() override {
    tile_executable_free(executable_);
    tile_program_free(program_);
    tile_engine_free(engine_);
  }
  void compile(DLDataType type) {
    int64_t shape[] = {3};
    DLTensor a{};
    a.device = {kDLCPU, 0};
    a.ndim = 1;
    a.dtype = type;
    a.shape = shape;
    const DLTensor* inputs[] = {&a, &a};
    ASSERT_EQ(taken(tile_program_compile(program_, inputs, 2, &executable_)), "");
  }
  std::string listed() {
    char* json = nullptr;
    EXPECT_EQ(taken(tile_executable_warnings(executable_, &json)), "");
    return taken(json);
  }

  Logged logged_;
  tile_engine* engine_ = nullptr;
  tile_program* program_ = nullptr;
  tile_executable* executable_ = nullptr;
};

TEST_P(Warnings, OfTheTextAlone) {
  char* json = nullptr;
  ASSERT_EQ(taken(tile_program_warnings(program_, &json)), "");
  std::string list = taken(json);
  EXPECT_THAT(list,
              HasSubstr("[{\"severity\":\"warning\",\"stage\":\"parse\",\"code\":\"unread\""));
  EXPECT_THAT(list, HasSubstr("\"line\":1,\"column\":17"));
  EXPECT_THAT(list, Not(HasSubstr("overflow")));
}

TEST_P(Warnings, OfTheShapesToo) {
  compile({kDLUInt, 8, 1});
  std::string list = listed();
  EXPECT_THAT(list, HasSubstr("\"code\":\"unread\""));
  EXPECT_THAT(list, HasSubstr("\"code\":\"overflow\""));
  ASSERT_EQ(logged_.warnings.size(), 2U);
  EXPECT_THAT(logged_.warnings[0], HasSubstr("t:1:17: parse warning [unread]"));
  EXPECT_THAT(logged_.warnings[1], HasSubstr("t:2:3: bind warning [overflow]"));
}

TEST_P(Warnings, OfOtherTypesThereIsOneLess) {
  compile({kDLFloat, 32, 1});
  EXPECT_THAT(listed(), Not(HasSubstr("overflow")));
  EXPECT_EQ(logged_.warnings.size(), 1U);
}

TEST_P(Warnings, ArgumentsAreChecked) {
  EXPECT_THAT(taken(tile_program_warnings(program_, nullptr)), HasSubstr("argument: json is NULL"));
  char* json = nullptr;
  EXPECT_THAT(taken(tile_executable_warnings(nullptr, &json)),
              HasSubstr("argument: executable is NULL"));
  EXPECT_EQ(json, nullptr);
}

INSTANTIATE_TEST_SUITE_P(Backends, Warnings, testing::Values("cpu", "reference"),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace
