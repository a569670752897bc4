// The steps of a loop written out share their code: programs that read a tensor at literal indices
// compute what the interpreter computes, by few codes, however inputs lie and whoever compiled
// them.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/autodiff/differentiate.h"
#include "core/language/tile/tile.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/inspect/pass_times.h"
#include "tests/cache/cache_directory.h"
#include "tests/executors/run_backends.h"

namespace tile::test {
namespace {

constexpr int kSteps = 12;

// H = relu(X[t] + H W) with a look at the step before, and a loss.
std::string recurrence() {
  std::string text = "function (X[" + std::to_string(kSteps) +
                     ", B, N], Start[B, N], W[N, N]) -> (Y, Loss) {\n"
                     "  H0[b, n: B, N] = =(X[0, b, n] + Start[b, n]);\n";
  for (int t = 1; t < kSteps; ++t) {
    std::string now = std::to_string(t), before = std::to_string(t - 1);
    text += "  Q" + now + "[b, n: B, N] = +(H" + before + "[b, k] * W[k, n]);\n  H" + now +
            "[b, n: B, N] = =(X[" + now + ", b, n] - X[" + before + ", b, n] + 0.125 * Q" + now +
            "[b, n]);\n";
  }
  return text + "  Y = H" + std::to_string(kSteps - 1) + ";\n  Loss[] = +(Y[b, n]);\n}\n";
}

// With the gradients of all inputs.
std::string trained() {
  Program program = parse_tile(std::make_shared<const Source>(Source{"steps.tile", recurrence()}));
  return print(differentiate(program, "Loss", {"X", "Start", "W"}));
}

std::vector<HostTensor> inputs(int64_t batch, int64_t units) {
  return {integers({kSteps, batch, units}, 1), integers({batch, units}, 2),
          integers({units, units}, 3)};
}
std::vector<InputType> types_of(const std::vector<HostTensor>& list) {
  std::vector<InputType> types;
  for (const HostTensor& t : list) types.push_back({t.type, t.shape});
  return types;
}
std::vector<HostTensor> with_seed(std::vector<HostTensor> list) {
  list.push_back(integers({}, 4));
  return list;
}

std::vector<HostTensor> expected(const std::string& text, const std::vector<HostTensor>& given) {
  std::shared_ptr<Engine> reference = test_engine("reference");
  std::vector<InputLayout> layouts;
  for (const HostTensor& t : given) layouts.push_back({{t.type, t.shape}, {}});
  std::shared_ptr<const Executable> e = loaded(reference, text)->executable(layouts);
  return interpret(e->bound, given).outputs;
}

void expect_near(const std::vector<HostTensor>& want, const std::vector<HostTensor>& got) {
  ASSERT_EQ(want.size(), got.size());
  for (size_t o = 0; o < want.size(); ++o) {
    double scale = 1;
    for (int64_t i = 0; i < want[o].count(); ++i) {
      scale = std::max(scale, std::abs(want[o].at(i).f));
    }
    for (int64_t i = 0; i < want[o].count(); ++i) {
      ASSERT_NEAR(want[o].at(i).f, got[o].at(i).f, 1e-5 * scale) << "output " << o << ", " << i;
    }
  }
}

class SharedSteps : public CacheDirectory {
 protected:
  std::shared_ptr<Engine> engine(const std::string& mode = "off", bool timed = false) {
    EngineOptions options;
    options.time_passes = timed;
    options.backend = "cpu";
    options.cache_dir = directory_ + "/cache";
    options.cache_mode = mode;
    options.log = [this](LogLevel, const std::string& line) { note(line); };
    return Engine::create(std::move(options));
  }
};

void expect_few_codes(const std::shared_ptr<Engine>& engine, const std::string& text,
                      const std::vector<HostTensor>& given, uint64_t most) {
  Laid laid = dense_layouts(types_of(given), given);
  std::shared_ptr<const Executable> e = loaded(engine, text)->executable(laid.layouts);
  std::vector<HostTensor> want = expected(text, given);
  expect_near(want, run_code(*e, given));
  expect_near(want, run_nests(*e, given));
  EXPECT_LE(engine->kernels().compiled, most) << e->launches.size() << " launches";
}

TEST_F(SharedSteps, ForwardAndTrained) {
  for (auto [batch, units] : {std::pair<int64_t, int64_t>{4, 16}, {16, 32}, {1, 64}, {32, 8}}) {
    SCOPED_TRACE(std::to_string(batch) + "x" + std::to_string(units));
    expect_few_codes(engine(), recurrence(), inputs(batch, units), 6);
    expect_few_codes(engine(), trained(), with_seed(inputs(batch, units)), 24);
  }
}

// Sees every kernel lowered.
class Lowered final : public PassObserver {
 public:
  void ends(const PassInfo& pass, const PassText&) override { runs += pass.name == "lower"; }
  size_t runs = 0;
};

TEST_F(SharedSteps, EqualKernelsAreLoweredOnce) {
  std::vector<HostTensor> given = with_seed(inputs(4, 16));
  std::shared_ptr<const Executable> e =
      loaded(engine("off", true), trained())
          ->executable(dense_layouts(types_of(given), given).layouts);
  Lowered lowered;
  std::shared_ptr<Executable> known = compile_stages(*e), each = compile_stages(*e, &lowered);
  ASSERT_EQ(known->launches.size(), each->launches.size());
  size_t runs = 0;
  for (const PassTimes::Row& row : e->pass_times->rows()) {
    if (row.pass.name == "lower") runs = row.runs;
  }
  EXPECT_GT(runs, 0U);
  EXPECT_LT(runs, lowered.runs);
  for (size_t i = 0; i < each->launches.size(); ++i) {
    const Launch &once = known->launches[i], &alone = each->launches[i];
    if (!once.kernel) continue;
    EXPECT_EQ(print(*once.nest, true), print(*alone.nest, true));
    EXPECT_EQ(print(once.schedule), print(alone.schedule));
    EXPECT_EQ(once.nest->name, alone.nest->name);
    for (size_t b = 0; b < once.nest->buffers.size(); ++b) {
      EXPECT_EQ(once.nest->buffers[b].name, alone.nest->buffers[b].name) << print(*once.nest);
    }
  }
}

// Steps that do not begin at cache lines have codes of their own, and the same values.
TEST_F(SharedSteps, UnalignedStepsAreRight) {
  for (auto [batch, units] : {std::pair<int64_t, int64_t>{1, 1}, {3, 5}, {2, 7}}) {
    expect_few_codes(engine(), trained(), with_seed(inputs(batch, units)), 1000);
  }
}

TEST_F(SharedSteps, StridedInputs) {
  std::vector<HostTensor> given = inputs(4, 16);
  std::vector<HostTensor> want = expected(recurrence(), given);
  for (int which = 0; which < 3; ++which) {
    // Elements two apart, in a larger memory.
    Laid laid = dense_layouts(types_of(given), given);
    auto at = static_cast<size_t>(which);
    std::vector<int64_t> strides = dense_strides(given[at].shape);
    for (int64_t& stride : strides) stride *= 2;
    laid.layouts[at].strides = strides;
    std::shared_ptr<const Executable> e = loaded(engine(), recurrence())->executable(laid.layouts);
    expect_near(want, run_code(*e, given));
  }
}

// A record of the program has what launches need.
TEST_F(SharedSteps, RunFromTheirRecord) {
  std::vector<HostTensor> given = with_seed(inputs(4, 16));
  Laid laid = dense_layouts(types_of(given), given);
  std::vector<HostTensor> want = expected(trained(), given);
  std::shared_ptr<const Executable> cold =
      loaded(engine("rw"), trained())->executable(laid.layouts);
  std::shared_ptr<Engine> warm_engine = engine("rw");
  std::shared_ptr<const Executable> warm = loaded(warm_engine, trained())->executable(laid.layouts);
  EXPECT_TRUE(warm->restored);
  EXPECT_EQ(warm_engine->kernels().compiled, 0U);
  std::vector<HostTensor> first = run_code(*cold, given), second = run_code(*warm, given);
  expect_near(want, first);
  for (size_t i = 0; i < first.size(); ++i) EXPECT_EQ(first[i].bytes, second[i].bytes);
}

// Batches of one class share the code of all steps.
TEST_F(SharedSteps, ClassesOfSizes) {
  std::shared_ptr<Engine> one = engine();
  std::shared_ptr<LoadedProgram> program = loaded(one, recurrence());
  for (int64_t batch : {8, 20, 21, 22, 33}) {
    std::vector<HostTensor> given = inputs(batch, 16);
    Laid laid = dense_layouts(types_of(given), given);
    expect_near(expected(recurrence(), given), run_code(*program->executable(laid.layouts), given));
  }
  EXPECT_LE(one->kernels().compiled, 20U);
}

}  // namespace
}  // namespace tile::test
