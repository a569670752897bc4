// Lift's Iterate as a host sees it: one launch that repeats its step, in memory that does not grow
// with the steps, saved, cached, tuned and ended early as any other.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "programs.h"

namespace tile::test {
namespace {

// The mean of neighbours in two or three dimensions, cooled by a second array.
const char* kPlaneStep =
    "(u => Map((p, q) => Map((a, b) => a * b) $ Zip(p, q)) $ Zip("
    "Map(Map(w => ((At(0) o At(1) $ w) + (At(2) o At(1) $ w) + (At(1) o At(0) $ w) + "
    "(At(1) o At(2) $ w)) * 0.25f)) o SlideND(2, 3, 1) o PadND(2, 1, 1, Wrap) $ u, c))";
const char* kPlanes = "ArrayType(ArrayType(Float, M), N), ArrayType(ArrayType(Float, M), N)";
const char* kSpaceStep =
    "Map(Map(Map(w => (At(0) o At(1) o At(1) $ w) * 0.25f + (At(2) o At(1) o At(1) $ w) * 0.25f + "
    "(At(1) o At(1) o At(0) $ w) * 0.5f + (At(0) o At(0) o At(2) $ w) * 0.125f))) o "
    "SlideND(3, 3, 1) o PadND(3, 1, 1, Clamp)";

std::string plane(int64_t count) {
  return std::string("val f = fun(") + kPlanes + ", (x, c) => Iterate(" + std::to_string(count) +
         ", " + kPlaneStep + ") $ x)";
}
std::string space(int64_t count) {
  return "val f = fun(ArrayType(ArrayType(ArrayType(Float, K), M), N), x => Iterate(" +
         std::to_string(count) + ", " + kSpaceStep + ") $ x)";
}

class Iterate : public testing::Test {
 protected:
  static tile_engine_options options() {
    tile_engine_options o = options_of();
    o.threads = 2;
    return o;
  }
  struct Plane {
    explicit Plane(int64_t rows, int64_t columns)
        : shape{rows, columns},
          x(integers(static_cast<size_t>(rows * columns), 1)),
          c(integers(x.size(), 2)),
          out(x.size(), -7.0F) {
      for (float& v : c) v = v * 0.0625F + 0.75F;
    }
    std::vector<jit::View> inputs() {
      return {jit::view(x.data(), shape), jit::view(c.data(), shape)};
    }
    std::vector<jit::View> outputs() { return {jit::view(out.data(), shape)}; }
    std::vector<int64_t> shape;
    std::vector<float> x, c, out;
  };
  jit::Engine engine_{options()};
};

TEST_F(Iterate, IsAsManyRunsOfOneStep) {
  for (auto [rows, columns] : {std::pair<int64_t, int64_t>{1, 1}, {3, 2}, {17, 33}, {65, 130}}) {
    Plane p(rows, columns);
    jit::Executable step = engine_.parse("lift", plane(1)).compile(p.inputs());
    for (int count : {0, 1, 2, 4, 5, 6, 31}) {
      SCOPED_TRACE(std::to_string(rows) + "x" + std::to_string(columns) + ", " +
                   std::to_string(count));
      Plane expected(rows, columns);
      step.run_steps(static_cast<uint64_t>(count), {{0, 0}}, expected.inputs(), expected.outputs());
      engine_.parse("lift", plane(count)).compile(p.inputs()).run(p.inputs(), p.outputs());
      EXPECT_EQ(std::memcmp(p.out.data(), expected.out.data(), p.out.size() * 4), 0);
    }
  }
}

// Two states and what a step takes, whatever the count; the text of the compilation is as long.
TEST_F(Iterate, HasOneSizeForAnyCount) {
  constexpr int64_t kSide = 24;
  std::vector<float> x = integers(kSide * kSide * kSide, 1);
  jit::View input = jit::view(x.data(), {kSide, kSide, kSide});
  size_t state = x.size() * sizeof(float);
  std::vector<size_t> sizes;
  for (int64_t count : {4, 5, 100, 100'000}) {
    jit::Executable e = engine_.parse("lift", space(count)).compile({input});
    EXPECT_LE(e.workspace_size(), 3 * state + 4096) << "no array of windows";
    if (count == 4) continue;
    EXPECT_LE(e.workspace_size(), state + 4096) << "one state beside the result";
    EXPECT_NE(e.explain().find("loop of " + std::to_string(count) + " steps"), std::string::npos);
    sizes.push_back(e.emit("nest").size() - std::to_string(count).size());
    EXPECT_EQ(sizes.front(), sizes.back());
  }
}

// Inputs with strides are made dense once; an output with strides gets the last state.
TEST_F(Iterate, Strides) {
  Plane p(19, 23), expected(19, 23);
  engine_.parse("lift", plane(7)).run(expected.inputs(), expected.outputs());
  std::vector<float> wide(2 * p.x.size(), -1), out(3 * p.x.size(), -1);
  for (size_t i = 0; i < p.x.size(); ++i) wide[2 * i] = p.x[i];
  jit::View strided(wide.data(), {kDLFloat, 32, 1}, p.shape, {2 * 23, 2});
  jit::View result(out.data(), {kDLFloat, 32, 1}, p.shape, {3 * 23, 3});
  engine_.parse("lift", plane(7)).run({strided, p.inputs()[1]}, {result});
  for (size_t i = 0; i < out.size(); ++i) {
    EXPECT_EQ(out[i], i % 3 == 0 ? expected.out[i / 3] : -1) << i;
  }
}

TEST_F(Iterate, SavedAndCached) {
  Plane p(33, 47), expected(33, 47);
  jit::Executable before = engine_.parse("lift", plane(9)).compile(p.inputs());
  before.run(expected.inputs(), expected.outputs());
  std::vector<std::byte> bytes = before.save();
  jit::Engine other(options());
  jit::Executable after = other.load(bytes.data(), bytes.size());
  after.run(p.inputs(), p.outputs());
  EXPECT_EQ(p.out, expected.out);
  EXPECT_EQ(other.statistics().kernels_compiled, 0U);
  for (size_t at = 0; at < bytes.size(); at += 97) {  // damage is an error, whatever it hits
    std::vector<std::byte> damaged = bytes;
    damaged[at] ^= std::byte{0x20};
    tile_executable* made = nullptr;
    EXPECT_NE(code_of(tile_executable_load(other.get(), damaged.data(), damaged.size(), &made)),
              "");
  }
  namespace fs = std::filesystem;
  fs::path folder = fs::temp_directory_path() / ("tile-iterate-" + std::to_string(getpid()));
  tile_engine_options o = options();
  std::string path = folder.string();
  o.cache_dir = path.c_str();
  o.cache_mode = "rw";
  for (int process = 0; process < 2; ++process) {
    jit::Engine engine(o);
    std::fill(p.out.begin(), p.out.end(), -7.0F);
    jit::Executable e = engine.parse("lift", plane(9)).compile(p.inputs());
    e.run(p.inputs(), p.outputs());
    EXPECT_EQ(p.out, expected.out);
    EXPECT_EQ(engine.statistics().kernels_compiled == 0, process == 1);
    EXPECT_EQ(engine.statistics().binds == 0, process == 1) << "a record has the loop";
    EXPECT_NE(e.explain().find("loop of 9 steps"), std::string::npos);
  }
  fs::remove_all(folder);
}

TEST_F(Iterate, Tuned) {
  Plane p(64, 64), expected(64, 64);
  jit::Executable e = engine_.parse("lift", plane(6)).compile(p.inputs());
  e.run(expected.inputs(), expected.outputs());
  std::atomic<int> tried{0};
  tile_tune_options o{};
  o.struct_size = sizeof o;
  o.budget_ms = 60;
  o.progress = [](void* user, const char*, size_t, size_t, double) {
    ++*static_cast<std::atomic<int>*>(user);
  };
  o.progress_user = &tried;
  jit::check(tile_executable_tune_with(e.get(), &o));
  EXPECT_GT(tried, 0) << "the kernels of a step are raced";
  e.run(p.inputs(), p.outputs());
  EXPECT_EQ(p.out, expected.out);
}

TEST_F(Iterate, Cancelled) {
  Plane p(32, 32);
  jit::Executable e = engine_.parse("lift", plane(1'000'000'000)).compile(p.inputs());
  std::atomic<bool> over{false};
  tile_run_options o{};
  o.struct_size = sizeof o;
  o.cancel = [](void* user) { return static_cast<std::atomic<bool>*>(user)->load() ? 1 : 0; };
  o.cancel_user = &over;
  auto now = [] { return std::chrono::steady_clock::now(); };
  std::atomic<std::chrono::steady_clock::time_point> asked{now()};
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    asked = now();
    over = true;
  });
  Given in(p.inputs()), out(p.outputs());
  std::string code =
      code_of(tile_executable_run(e.get(), in.data(), in.size(), out.data(), out.size(), &o));
  double ms = std::chrono::duration<double, std::milli>(now() - asked.load()).count();
  other.join();
  EXPECT_EQ(code, "cancelled");
  EXPECT_LT(ms, 100);
}

TEST_F(Iterate, TheInterpreterAgrees) {
  Plane p(9, 7), expected(9, 7);
  engine_.parse("lift", plane(8)).run(p.inputs(), p.outputs());
  jit::Engine(options_of("reference"))
      .parse("lift", plane(8))
      .run(expected.inputs(), expected.outputs());
  for (size_t i = 0; i < p.out.size(); ++i) EXPECT_NEAR(p.out[i], expected.out[i], 1e-4) << i;
}

}  // namespace
}  // namespace tile::test
