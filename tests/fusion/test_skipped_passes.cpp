// Every optional pass may be left out: the nests of random programs give the reference's values
// without it, on CPUs and GPUs, and what each pass leaves is verified.
#include <gtest/gtest.h>

#include "core/fusion/group.h"
#include "core/nest/passes/nest_passes.h"
#include "core/pipeline/pipeline.h"
#include "tests/fusion/row_programs.h"
#include "tests/random/agreement/agreement.h"
#include "tests/random/random_program.h"
#include "tests/support/run_tile.h"
#include "tests/support/step_runner.h"

namespace tile::test {
namespace {

std::vector<std::string> optional_names() {
  std::vector<std::string> names;
  auto append = [&](const auto& table) {
    for (const PassInfo& pass : table) {
      if (pass.optional) names.emplace_back(pass.name);
    }
  };
  append(passes());
  append(fusion_passes());
  append(nest::nest_passes());
  return names;
}

// The passes that were run.
class Names final : public PassObserver {
 public:
  void ends(const PassInfo& pass, const PassText&) override { all.emplace_back(pass.name); }
  std::vector<std::string> all;
};

void expect_agreement(const std::string& text, const std::vector<InputType>& types,
                      const std::vector<HostTensor>& inputs, bool exact,
                      const std::vector<std::string>& skip, const Target& target, bool always) {
  SCOPED_TRACE(to_string(target) + ":\n" + text);
  try {
    BoundProgram program = bind_text(text, types);
    Interpretation expected = interpret(program, inputs, {}, true);
    Names run;
    PassOptions passes{skip, &run, true};
    run_pipeline(program, target, {passes});
    GroupOptions options{
        .streams = always, .siblings = always, .pools = always, .rows = always, .passes = passes};
    std::vector<Step> steps = group(program, target, options);
    StepRunner runner(program, inputs, passes);
    for (const Step& step : steps) {
      runner.run(step, 0, target);
      if (::testing::Test::HasFatalFailure()) return;
    }
    EXPECT_EQ(difference(expected, runner.outputs(), exact), "");
    for (const std::string& name : skip) {
      EXPECT_EQ(std::count(run.all.begin(), run.all.end(), name), 0) << name;
    }
    EXPECT_EQ(std::count(run.all.begin(), run.all.end(), "reduce"), 1);
  } catch (const InternalError& error) {
    ADD_FAILURE() << error.what();
  } catch (const Failure& failure) {
    ADD_FAILURE() << failure.what();
  }
}

Target target_of(uint64_t seed) {
  switch (seed % 4) {
    case 0:
      return testing::small_target();
    case 1:
      return testing::wide_target();
    case 2:
      return h200_target();
    default:
      return a100_target();
  }
}

// Other programs for each list.
void expect_all_agree(const std::vector<std::string>& skip, uint64_t first, uint64_t count) {
  for (uint64_t seed : seeds(first, count)) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RowProgram rows = row_program(seed);
    expect_agreement(rows.text, rows.types, rows.inputs, rows.exact, skip, target_of(seed / 2),
                     seed % 2 == 0);
    RandomCase drawn = random_case(seed);
    expect_agreement(drawn.text, drawn.types, drawn.inputs, drawn.exact, skip, target_of(seed),
                     seed % 2 == 0);
    if (::testing::Test::HasFailure()) return;
  }
}

class SkippedPass : public ::testing::TestWithParam<std::string> {};

TEST_P(SkippedPass, NestsAgree) {
  const std::vector<std::string> names = optional_names();
  auto place = std::find(names.begin(), names.end(), GetParam()) - names.begin();
  expect_all_agree({GetParam()}, 40'000 + 100 * static_cast<uint64_t>(place), 16);
}

std::string name_of(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Each, SkippedPass, ::testing::ValuesIn(optional_names()), name_of);

TEST(SkippedPasses, AllAtOnce) { expect_all_agree(optional_names(), 30'000, 40); }

}  // namespace
}  // namespace tile::test
