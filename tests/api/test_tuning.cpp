// Tuning through the C interface: options, progress, records that move, workers that share.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>

#include "tile/tile.hpp"

namespace {

namespace fs = std::filesystem;
using namespace tile::jit;

class Tuning : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "tile-tuning-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  Engine engine(const std::string& cache) {
    caches_.push_back(folder_ + "/" + cache);
    tile_engine_options options{};
    options.struct_size = sizeof options;
    options.backend = "cpu";
    options.cache_dir = caches_.back().c_str();
    options.cache_mode = "rw";
    return Engine(options);
  }
  static Executable product(const Engine& engine) {
    Program program = engine.parse(
        "tile", "function (A[M, L], B[L, N]) -> (O) { O[i, j: M, N] = +(A[i, k] * B[k, j]); }");
    std::array<float, 24> a{};
    std::array<float, 24> b{};
    return program.compile({view(a.data(), {4, 6}), view(b.data(), {6, 4})});
  }
  static tile_tune_options options(double budget_ms) {
    tile_tune_options o{};
    o.struct_size = sizeof o;
    o.budget_ms = budget_ms;
    return o;
  }
  static std::string code_of(tile_error* error) {
    if (error == nullptr) return "";
    std::string code = tile_error_code(error);
    tile_error_free(error);
    return code;
  }

  std::string folder_;
  std::vector<std::string> caches_;
};

TEST_F(Tuning, ProgressIsTold) {
  Executable e = product(engine("one"));
  struct Seen {
    size_t calls = 0, tried = 0, total = 0;
    std::string kernel;
  } seen;
  tile_tune_options o = options(100);
  o.progress_user = &seen;
  o.progress = [](void* user, const char* kernel, size_t tried, size_t total, double) {
    Seen& s = *static_cast<Seen*>(user);
    s = {s.calls + 1, tried, total, kernel};
  };
  e.tune(o);
  EXPECT_GT(seen.calls, 0U);
  EXPECT_LE(seen.tried, seen.total);
  EXPECT_EQ(seen.kernel, "O");
}

TEST_F(Tuning, RecordsMoveBetweenEngines) {
  Engine first = engine("one"), second = engine("two");
  EXPECT_EQ(first.export_records(), "");
  product(first).tune(options(50));
  std::string lines = first.export_records();
  ASSERT_NE(lines, "");
  size_t count = static_cast<size_t>(std::count(lines.begin(), lines.end(), '\n'));
  EXPECT_EQ(second.import_records(lines + "noise\n"), count);
  EXPECT_EQ(second.import_records(lines), 0U);
  EXPECT_EQ(second.export_records(), lines);
  EXPECT_NE(product(second).explain().find("tuned, record "), std::string::npos);
  // The first line and a part of the second, whatever their lengths.
  size_t part = lines.find('\n') + (count > 1 ? 20 : 1);
  EXPECT_EQ(engine("three").import_records(lines.substr(0, part)), 1U);
  EXPECT_EQ(engine("one").export_records(), lines) << "they are kept on disk";
}

TEST_F(Tuning, WorkersShareADirectory) {
  std::string shared = folder_ + "/shared";
  tile_tune_options o = options(0);
  o.share_dir = shared.c_str();
  o.candidates = 8;
  Engine first = engine("one"), second = engine("two");
  product(first).tune(o);
  Executable other = product(second);
  other.tune(o);
  EXPECT_NE(other.explain().find("tuned, record "), std::string::npos);
  EXPECT_EQ(first.export_records(), second.export_records());
}

TEST_F(Tuning, BadArguments) {
  Engine own = engine("one");
  Executable e = product(own);
  EXPECT_EQ(code_of(tile_executable_tune_with(nullptr, nullptr)), "argument");
  EXPECT_EQ(code_of(tile_executable_tune_with(e.get(), nullptr)), "argument");
  tile_tune_options o{};
  EXPECT_EQ(code_of(tile_executable_tune_with(e.get(), &o)), "argument") << "no struct_size";
  for (double budget :
       {-1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    for (const char* share : {static_cast<const char*>(nullptr), folder_.c_str()}) {
      o = options(budget);
      o.share_dir = share;
      EXPECT_EQ(code_of(tile_executable_tune_with(e.get(), &o)), "argument") << budget;
    }
  }
  o = options(1);
  o.candidates = 5;
  EXPECT_EQ(code_of(tile_executable_tune_with(e.get(), &o)), "argument") << "without share_dir";
  o.share_dir = "/dev/null";
  EXPECT_EQ(code_of(tile_executable_tune_with(e.get(), &o)), "argument");
  EXPECT_EQ(code_of(tile_engine_records_export(own.get(), nullptr)), "argument");
  EXPECT_EQ(code_of(tile_engine_records_import(own.get(), nullptr, 0, nullptr)), "argument");
  char* lines = nullptr;
  EXPECT_EQ(code_of(tile_engine_records_export(nullptr, &lines)), "argument");
  EXPECT_EQ(lines, nullptr);
}

}  // namespace
