// Every pass of the pipeline keeps the meaning of random programs.
#include "core/pipeline/pipeline.h"
#include "tests/random/agreement/agreement.h"
#include "tests/random/random_program.h"
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

void expect_same_meaning(uint64_t seed, const RandomOptions& options) {
  RandomCase drawn = random_case(seed, options);
  BoundProgram program = bind_text(drawn.text, drawn.types);
  Interpretation expected = interpret(program, drawn.inputs, {}, true);
  PipelineOptions watch;
  watch.after = [&](std::string_view pass, const BoundProgram& now) {
    std::string wrong = difference(expected, interpret(now, drawn.inputs).outputs, drawn.exact);
    EXPECT_EQ(wrong, "") << "after " << pass << ", seed " << seed << ":\n" << drawn.text;
  };
  run_pipeline(program, {}, watch);
}

TEST(PassesRandom, SmallPrograms) {
  for (uint64_t seed : seeds(0, 500)) expect_same_meaning(seed, {});
}

TEST(PassesRandom, LargePrograms) {
  RandomOptions large;
  large.large = true;
  for (uint64_t seed : seeds(0, 12)) expect_same_meaning(seed, large);
}

TEST(PassesRandom, RealsNanAndInfinities) {
  RandomOptions reals;
  reals.real_values = true;
  for (uint64_t seed : seeds(0, 200)) expect_same_meaning(seed, reals);
}

TEST(PassesRandom, OptionalPassesMayBeSkipped) {
  for (uint64_t seed : seeds(700, 60)) {
    RandomCase drawn = random_case(seed);
    BoundProgram program = bind_text(drawn.text, drawn.types);
    Interpretation expected = interpret(program, drawn.inputs, {}, true);
    PipelineOptions options;
    for (const Pass& pass : passes()) {
      if (pass.optional) options.passes.skip.emplace_back(pass.name);
    }
    run_pipeline(program, {}, options);
    EXPECT_EQ(difference(expected, interpret(program, drawn.inputs).outputs, drawn.exact), "")
        << drawn.text;
  }
}

}  // namespace
}  // namespace tile::test
