// Leaving out passes, their times and their texts through the C interface.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "tile/tile.hpp"

namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
namespace jit = tile::jit;

const char* kSoftmax =
    "function (X[M, N]) -> (O) {\n  T[m, 0: M, 1] = >(X[m, n]);\n  E = exp(X - T);\n"
    "  S[m, 0: M, 1] = +(E[m, n]);\n  O = E / S;\n}\n";

struct Options {
  std::vector<const char*> skip = {};
  bool times = false;
  std::string cache_dir = "";  // empty: no cache on disk
  const char* backend = "cpu";
};

tile_error* create(const Options& o, tile_engine** engine) {
  tile_engine_options options{};
  options.struct_size = sizeof options;
  options.backend = o.backend;
  options.cache_mode = o.cache_dir.empty() ? "off" : "rw";
  options.cache_dir = o.cache_dir.c_str();
  options.skip_passes = o.skip.data();
  options.skip_pass_count = o.skip.size();
  options.time_passes = o.times ? 1 : 0;
  return tile_engine_create(&options, engine);
}

// Code and message of a failed call, with its hint; empty without one. The error goes.
std::string taken(tile_error* error) {
  if (error == nullptr) return "";
  std::string text = std::string(tile_error_code(error)) + ": " + tile_error_rendered(error);
  tile_error_free(error);
  return text;
}

class Passes : public testing::Test {
 protected:
  void TearDown() override {
    for (tile_executable* e : executables_) tile_executable_free(e);
    for (tile_program* p : programs_) tile_program_free(p);
    for (tile_engine* e : engines_) tile_engine_free(e);
  }
  tile_engine* engine(const Options& options) {
    tile_engine* made = nullptr;
    EXPECT_EQ(taken(create(options, &made)), "");
    engines_.push_back(made);
    return made;
  }
  tile_executable* softmax(tile_engine* engine) {
    tile_program* program = nullptr;
    EXPECT_EQ(taken(tile_program_parse(engine, "tile", "softmax", kSoftmax, std::strlen(kSoftmax),
                                       &program)),
              "");
    programs_.push_back(program);
    std::vector<float> x(64 * 40);
    jit::View view = jit::view(x.data(), {64, 40});
    DLTensor tensor = view.tensor();
    const DLTensor* input = &tensor;
    tile_executable* executable = nullptr;
    EXPECT_EQ(taken(tile_program_compile(program, &input, 1, &executable)), "");
    executables_.push_back(executable);
    return executable;
  }
  static std::string emitted(const tile_executable* executable, const char* stage) {
    char* text = nullptr;
    std::string error = taken(tile_executable_emit(executable, stage, &text));
    std::string result = text == nullptr ? error : text;
    tile_string_free(text);
    return result;
  }
  static std::string times(const tile_executable* executable) {
    char* text = nullptr;
    std::string error = taken(tile_executable_pass_times(executable, &text));
    std::string result = text == nullptr ? error : text;
    tile_string_free(text);
    return result;
  }
  static size_t count(const std::string& text, const std::string& word) {
    size_t n = 0;
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
    return n;
  }

  std::vector<tile_engine*> engines_;

 private:
  std::vector<tile_program*> programs_;
  std::vector<tile_executable*> executables_;
};

TEST_F(Passes, AreLeftOut) {
  tile_executable* fused = softmax(engine({}));
  tile_executable* apart = softmax(engine({.skip = {"fuse-rows", "attach-epilogues"}}));
  EXPECT_EQ(count(emitted(fused, "kernels"), "kernel "), 1U) << emitted(fused, "kernels");
  EXPECT_GT(count(emitted(apart, "kernels"), "kernel "), 1U) << emitted(apart, "kernels");
}

TEST_F(Passes, UnknownAndRequiredNamesAreErrors) {
  tile_engine* none = nullptr;
  EXPECT_THAT(taken(create({.skip = {"fuse-row"}}, &none)),
              AllOf(StartsWith("argument"), HasSubstr("there is no pass \"fuse-row\""),
                    HasSubstr("did you mean \"fuse-rows\"")));
  EXPECT_THAT(
      taken(create({.skip = {"reduce"}}, &none)),
      AllOf(StartsWith("argument"), HasSubstr("cannot be left out"), HasSubstr("partition")));
  EXPECT_THAT(taken(create({.skip = {nullptr}}, &none)), StartsWith("argument"));
  tile_engine_options options{};
  options.struct_size = sizeof options;
  options.skip_pass_count = 1;
  EXPECT_THAT(taken(tile_engine_create(&options, &none)), HasSubstr("skip_passes is NULL"));
  EXPECT_EQ(none, nullptr);
}

// A caller's struct of before has no such fields.
TEST_F(Passes, OlderStructsLeaveNothingOut) {
  tile_engine_options options{};
  options.struct_size = offsetof(tile_engine_options, skip_passes);
  options.backend = "cpu";
  options.cache_mode = "off";
  const char* name = "no such pass";
  options.skip_passes = &name;
  options.skip_pass_count = 1;
  options.time_passes = 1;
  tile_engine* made = nullptr;
  ASSERT_EQ(taken(tile_engine_create(&options, &made)), "");
  engines_.push_back(made);
  EXPECT_THAT(times(softmax(made)), HasSubstr("time_passes"));
}

TEST_F(Passes, TimesTellEveryStage) {
  std::string json = times(softmax(engine({.times = true})));
  EXPECT_THAT(json, StartsWith("{\"total_ms\": "));
  for (const char* pass : {"parse", "bind", "reduce", "fuse-rows", "lower", "partition",
                           "machine-code", "plan-launches"}) {
    EXPECT_THAT(json, HasSubstr("\"pass\": \"" + std::string(pass) + "\"")) << json;
  }
  EXPECT_THAT(json, Not(HasSubstr("print-cuda")));
  EXPECT_EQ(json.find('\n'), std::string::npos);
  std::string without = times(softmax(engine({.skip = {"fuse-rows"}, .times = true})));
  EXPECT_THAT(without, Not(HasSubstr("fuse-rows")));
  EXPECT_THAT(times(softmax(engine({}))), HasSubstr("the engine does not measure passes"));
  EXPECT_THAT(taken(tile_executable_pass_times(nullptr, nullptr)), StartsWith("argument"));
}

TEST_F(Passes, TextsOfPasses) {
  tile_executable* e = softmax(engine({}));
  EXPECT_EQ(emitted(e, "after:bind"), emitted(e, "bound"));
  EXPECT_EQ(emitted(e, "after:defract"), emitted(e, "reduced"));
  EXPECT_EQ(emitted(e, "after:partition"), emitted(e, "nest"));
  EXPECT_EQ(emitted(e, "after:peel-remainder"), emitted(e, "kernels"));
  EXPECT_GT(count(emitted(e, "after:make-kernels"), "kernel "),
            count(emitted(e, "after:fuse-rows"), "kernel "));
  EXPECT_THAT(emitted(e, "after:fuse-row"), HasSubstr("did you mean"));
  EXPECT_THAT(emitted(softmax(engine({.skip = {"hoist"}})), "after:hoist"),
              HasSubstr("was not run"));
  std::string changes = emitted(e, "changes");
  EXPECT_THAT(changes, StartsWith("== after front-end: bind\n"));
  EXPECT_THAT(changes, HasSubstr("\n== after fusion: fuse-rows\n"));
  EXPECT_THAT(changes, Not(HasSubstr("== after tensor: tabulate\n")));  // nothing to do there
}

// A folder that goes with the test.
class Folder {
 public:
  Folder() {
    std::string pattern = std::filesystem::temp_directory_path() / "tile-passes-XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

uint64_t disk_hits(tile_engine* engine) {
  tile_engine_statistics s{};
  s.struct_size = sizeof s;
  EXPECT_EQ(taken(tile_engine_statistics_get(engine, &s)), "");
  return s.kernel_disk_hits;
}

TEST_F(Passes, CodeOfOtherPassesIsNotMixed) {
  Folder folder;
  softmax(engine({.cache_dir = folder.path()}));
  tile_engine* again = engine({.cache_dir = folder.path()});
  softmax(again);
  EXPECT_GT(disk_hits(again), 0U);
  // A pass that changes nothing here makes the same nests, and yet entries of its own.
  tile_engine* other = engine({.skip = {"tabulate"}, .cache_dir = folder.path()});
  softmax(other);
  EXPECT_EQ(disk_hits(other), 0U);
  tile_engine* same = engine({.skip = {"tabulate", "tabulate"}, .cache_dir = folder.path()});
  softmax(same);
  EXPECT_GT(disk_hits(same), 0U);
  // Who measures compiles.
  tile_engine* cold = engine({.times = true, .cache_dir = folder.path()});
  EXPECT_THAT(times(softmax(cold)), HasSubstr("machine-code"));
  EXPECT_EQ(disk_hits(cold), 0U);
}

}  // namespace
