// Cancelling: whatever a call is at it ends soon after its callback wants that, with an error of
// code "cancelled", and engine, program and executable can be used afterwards.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <ctime>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "tile/tile.h"

namespace {

using Clock = std::chrono::steady_clock;

// Says yes from the given time on, and remembers who asked and when it last did.
struct Callback {
  Clock::time_point from = Clock::time_point::max();
  std::atomic<int> asked{0};
  std::atomic<bool> by_others{false};
  std::thread::id thread = std::this_thread::get_id();

  static int ask(void* user) {
    auto& self = *static_cast<Callback*>(user);
    ++self.asked;
    if (std::this_thread::get_id() != self.thread) self.by_others = true;
    return Clock::now() >= self.from ? 1 : 0;
  }
  void after(int ms) { from = Clock::now() + std::chrono::milliseconds(ms); }
  void never() { from = Clock::time_point::max(); }
};

struct Tensor {
  std::vector<float> data;
  std::vector<int64_t> shape;
  DLTensor dl{};
  explicit Tensor(std::vector<int64_t> s, float value = 0) : shape(std::move(s)) {
    size_t n = 1;
    for (int64_t e : shape) n *= static_cast<size_t>(e);
    data.assign(n, value);
    dl.data = data.data();
    dl.device = {kDLCPU, 0};
    dl.ndim = static_cast<int32_t>(shape.size());
    dl.dtype = {kDLFloat, 32, 1};
    dl.shape = shape.data();
  }
  Tensor(const Tensor&) = delete;
};

// What the process has used of its processors.
double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// How long the call took, by the clock and of the processors, and what it said.
struct Outcome {
  double seconds = 0, worked = 0;
  std::string code, rendered;
  tile_stage stage = TILE_STAGE_API;
  int line = 0;
};
template <class Call>
Outcome outcome(const Call& call) {
  auto start = Clock::now();
  double before = processor_seconds();
  tile_error* error = call();
  Outcome result;
  result.worked = processor_seconds() - before;
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (error == nullptr) return result;
  result.code = tile_error_code(error);
  result.rendered = tile_error_rendered(error);
  result.stage = tile_error_stage(error);
  result.line = tile_error_line(error);
  tile_error_free(error);
  return result;
}

class Cancellation : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { engine_ = made(GetParam()); }
  void TearDown() override { tile_engine_free(engine_); }

  tile_engine* made(const char* backend) {
    tile_engine_options options{};
    options.struct_size = sizeof options;
    options.backend = backend;
    options.cache_mode = "off";
    options.threads = 2;
    options.limit_compile_ms = UINT64_MAX;
    options.limit_points = UINT64_MAX;
    options.cancel = Callback::ask;
    options.cancel_user = &callback_;
    tile_engine* engine = nullptr;
    EXPECT_EQ(tile_engine_create(&options, &engine), nullptr);
    return engine;
  }
  tile_program* parsed(const std::string& text, const char* language = "tile") {
    tile_program* program = nullptr;
    Outcome o = outcome([&] {
      return tile_program_parse(engine_, language, "t", text.data(), text.size(), &program);
    });
    EXPECT_EQ(o.code, "") << o.rendered;
    return program;
  }
  // A sum of `n` to the power of six terms, which takes forever, and of few.
  Outcome sum(tile_program* program, int64_t n, float* result, const tile_run_options* options) {
    Tensor x({n}, 0.25F), o({});
    std::vector<const DLTensor*> inputs(6, &x.dl);
    DLTensor* outputs[] = {&o.dl};
    Outcome ran =
        outcome([&] { return tile_program_run(program, inputs.data(), 6, outputs, 1, options); });
    *result = o.data[0];
    return ran;
  }
  // Its code beforehand, so that a run of it is nothing but that: how long compiling takes is the
  // machine's and the build's affair.
  void compile_sum(tile_program* program, int64_t n) {
    Tensor x({n});
    std::vector<const DLTensor*> inputs(6, &x.dl);
    tile_executable* executable = nullptr;
    Outcome o =
        outcome([&] { return tile_program_compile(program, inputs.data(), 6, &executable); });
    ASSERT_EQ(o.code, "") << o.rendered;
    tile_executable_free(executable);
  }
  static constexpr const char* kForever =
      "function (A[I], B[J], C[K], D[L], E[M], F[N]) -> (O) {\n"
      "  O[] = +(exp(A[i]*B[j] + C[k]*D[l] + E[m]*F[n]));\n}\n";

  Callback callback_;
  tile_engine* engine_ = nullptr;
};

// Of the processors, far above the 100 ms that are promised: caches are cold, builds sanitized. By
// the clock a machine busy with other work takes as long as it likes, but not for ever.
constexpr double kSoon = 2, kEver = 50;

void expect_cancelled(const Outcome& o, int after_ms, tile_stage stage) {
  EXPECT_EQ(o.code, "cancelled") << o.rendered;
  EXPECT_EQ(o.stage, stage);
  EXPECT_GE(o.line, 1);
  EXPECT_LT(o.worked, 1e-3 * after_ms + kSoon);
  EXPECT_LT(o.seconds, kEver);
}

TEST_P(Cancellation, OfARunThatTakesForever) {
  tile_program* program = parsed(kForever);
  float result = 0;
  EXPECT_EQ(sum(program, 2, &result, nullptr).code, "");
  EXPECT_NEAR(result, 64 * std::exp(3 / 16.0), 1e-3);
  compile_sum(program, 1000);
  callback_.after(50);
  expect_cancelled(sum(program, 1000, &result, nullptr), 50, TILE_STAGE_RUN);
  EXPECT_FALSE(callback_.by_others);
  // The same program and executable afterwards.
  callback_.never();
  EXPECT_EQ(sum(program, 2, &result, nullptr).code, "");
  EXPECT_NEAR(result, 64 * std::exp(3 / 16.0), 1e-3);
  tile_program_free(program);
}

TEST_P(Cancellation, OfOneRunLeavesOthersAlone) {
  tile_program* program = parsed(kForever);
  float result = 0;
  EXPECT_EQ(sum(program, 6, &result, nullptr).code, "");
  compile_sum(program, 1000);
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0}, runs{0};
  std::thread other([&] {
    while (!done || runs == 0) {
      Callback own;
      tile_run_options options{};
      options.struct_size = sizeof options;
      options.cancel = Callback::ask;
      options.cancel_user = &own;
      float here = 0;
      Outcome o = sum(program, 6, &here, &options);
      if (o.code != "" || std::abs(here - result) > 1e-3F * result) ++wrong;
      ++runs;
    }
  });
  Callback own;
  tile_run_options options{};
  options.struct_size = sizeof options;
  options.cancel = Callback::ask;
  options.cancel_user = &own;
  own.after(50);
  float mine = 0;
  expect_cancelled(sum(program, 1000, &mine, &options), 50, TILE_STAGE_RUN);
  done = true;
  other.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(own.asked, 0);
  tile_program_free(program);
}

// Statements that follow one another, of which no two are alike.
std::string statements(int count) {
  std::string text = "function (A[N]) -> (O) {\n  T0 = A;\n";
  for (int i = 1; i <= count; ++i) {
    std::string number = std::to_string(i), before = std::to_string(i - 1);
    text += "  T" + number + "[i: N] = +(T" + before + "[i + k] * " + number + ".5), k < " +
            std::to_string(2 + i % 7) + ";\n";
  }
  return text + "  O = T" + std::to_string(count) + ";\n}\n";
}

TEST_P(Cancellation, OfParsing) {
  std::string text = statements(10'000);
  callback_.after(0);
  tile_program* program = nullptr;
  Outcome o = outcome(
      [&] { return tile_program_parse(engine_, "tile", "t", text.data(), text.size(), &program); });
  expect_cancelled(o, 0, TILE_STAGE_PARSE);
  EXPECT_EQ(program, nullptr);
  callback_.never();
  tile_program_free(parsed(statements(3)));
}

TEST_P(Cancellation, OfDifferentiatingAndCompiling) {
  tile_program* program = parsed(statements(2'000));
  const char* input = "A";
  callback_.after(0);
  tile_program* gradient = nullptr;
  expect_cancelled(
      outcome([&] { return tile_program_differentiate(program, "O", &input, 1, &gradient); }), 0,
      TILE_STAGE_COMPILE);
  EXPECT_EQ(gradient, nullptr);
  Tensor a({1000});
  const DLTensor* inputs[] = {&a.dl};
  tile_executable* executable = nullptr;
  callback_.after(0);
  expect_cancelled(outcome([&] { return tile_program_compile(program, inputs, 1, &executable); }),
                   0, TILE_STAGE_COMPILE);
  EXPECT_EQ(executable, nullptr);
  tile_program_free(program);
  // The same shapes of a shorter one, with the same engine.
  callback_.never();
  tile_program* shorter = parsed(statements(3));
  EXPECT_EQ(outcome([&] { return tile_program_compile(shorter, inputs, 1, &executable); }).code,
            "");
  tile_executable_free(executable);
  tile_program_free(shorter);
}

TEST_P(Cancellation, OfTuning) {
  if (std::string(GetParam()) == "reference") GTEST_SKIP() << "it has nothing to tune";
  tile_program* program =
      parsed("function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }");
  Tensor a({300, 300}), b({300, 300});
  const DLTensor* inputs[] = {&a.dl, &b.dl};
  tile_executable* executable = nullptr;
  EXPECT_EQ(outcome([&] { return tile_program_compile(program, inputs, 2, &executable); }).code,
            "");
  callback_.after(100);
  expect_cancelled(outcome([&] { return tile_executable_tune(executable, 60'000); }), 100,
                   TILE_STAGE_COMPILE);
  callback_.never();
  Tensor c({300, 300});
  DLTensor* outputs[] = {&c.dl};
  EXPECT_EQ(
      outcome([&] { return tile_executable_run(executable, inputs, 2, outputs, 1, nullptr); }).code,
      "");
  tile_executable_free(executable);
  tile_program_free(program);
}

INSTANTIATE_TEST_SUITE_P(Backends, Cancellation, testing::Values("cpu", "reference"),
                         [](const auto& tested) { return std::string(tested.param); });

// Time and other limits: each is an error that names its option.
TEST(Limits, AreOptionsWithDefaults) {
  struct Limited {
    uint64_t tile_engine_options::* option;
    uint64_t value;
    const char* name;
    std::string text;
  };
  const std::string product =
      "function (A[N], B[N]) -> (O) { O[i, j: N, N] = +(A[i] * B[j] * A[k]); }";
  const Limited cases[] = {
      {&tile_engine_options::limit_compile_ms, 1, "limit_compile_ms", statements(3'000)},
      {&tile_engine_options::limit_nodes, 100, "limit_nodes", statements(100)},
      {&tile_engine_options::limit_points, 1000, "limit_points", product},
  };
  for (const Limited& limited : cases) {
    SCOPED_TRACE(limited.name);
    tile_engine_options options{};
    options.struct_size = sizeof options;
    options.backend = "reference";
    options.*limited.option = limited.value;
    tile_engine* engine = nullptr;
    ASSERT_EQ(tile_engine_create(&options, &engine), nullptr);
    tile_program* program = nullptr;
    Outcome o = outcome([&] {
      return tile_program_parse(engine, "tile", "t", limited.text.data(), limited.text.size(),
                                &program);
    });
    if (program != nullptr) {
      size_t count = tile_program_input_count(program);
      Tensor a({50}), b({50}), r({50, 50}), s({50});
      const DLTensor* inputs[] = {&a.dl, &b.dl};
      DLTensor* outputs[] = {count == 2 ? &r.dl : &s.dl};
      o = outcome([&] { return tile_program_run(program, inputs, count, outputs, 1, nullptr); });
    }
    EXPECT_EQ(o.code, "limit") << o.rendered;
    EXPECT_NE(o.rendered.find(limited.name), std::string::npos) << o.rendered;
    EXPECT_GE(o.line, 1);
    tile_program_free(program);
    tile_engine_free(engine);
  }
}

}  // namespace
