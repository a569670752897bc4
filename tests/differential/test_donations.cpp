// Random programs in the memory of their inputs, and from their saved form: the bits are those of a
// run with memory of its own.
#include <gtest/gtest.h>

#include "runtime/engine/cache/saved_executable.h"
#include "tests/executors/run_backends.h"
#include "tests/random/sweep.h"

namespace tile::test {
namespace {

std::vector<HostTensor> results_of(const Executable& e) {
  std::vector<HostTensor> results;
  for (size_t i = 0; i < e.bound.outputs.size(); ++i) {
    results.emplace_back(e.output(i).type, e.output(i).shape);
  }
  return results;
}

std::vector<HostTensor> run_apart(const Executable& e, std::vector<HostTensor> inputs) {
  std::vector<HostTensor> results = results_of(e);
  run(e, views_of(inputs), views_of(results));
  return results;
}

std::vector<HostTensor> run_in_place(const Executable& e, std::vector<HostTensor> inputs,
                                     const Donation& pair) {
  std::vector<HostTensor> results = results_of(e);
  std::vector<TensorView> outputs = views_of(results), given = views_of(inputs);
  outputs[pair.output].data = given[pair.input].data;
  check_tensors(e, given, outputs);
  run(e, given, outputs);
  results[pair.output] = inputs[pair.input];
  return results;
}

void expect_same(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b) {
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].bytes == b[i].bytes) << "output " << i;
}

// How many pairs were tried.
size_t expect_in_place(const std::shared_ptr<Engine>& engine, const RandomCase& drawn) {
  std::shared_ptr<const Executable> e = compiled(engine, drawn);
  std::vector<HostTensor> apart = run_apart(*e, drawn.inputs);
  for (const Donation& pair : e->donations) {
    SCOPED_TRACE("input " + std::to_string(pair.input) + ", output " + std::to_string(pair.output));
    expect_same(apart, run_in_place(*e, drawn.inputs, pair));
  }
  return e->donations.size();
}

TEST(Donations, OfRandomPrograms) {
  std::shared_ptr<Engine> engine = test_engine("cpu");
  size_t pairs = 0;
  std::vector<uint64_t> drawn_seeds = sweep(5000, 500, 200);
  for (uint64_t seed : drawn_seeds) {
    RandomOptions options;
    options.large = seed % 10 == 0;
    RandomCase drawn = random_case(seed, options);
    SCOPED_TRACE("seed " + std::to_string(seed) + ":\n" + drawn.text);
    pairs += expect_in_place(engine, drawn);
  }
  RecordProperty("pairs", std::to_string(pairs));
  EXPECT_GT(pairs, drawn_seeds.size() / 50);
}

TEST(SavedExecutables, OfRandomPrograms) {
  std::shared_ptr<Engine> engine = test_engine("cpu"), other = test_engine("cpu");
  for (uint64_t seed : seeds(6000, 150)) {
    RandomCase drawn = random_case(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + ":\n" + drawn.text);
    std::shared_ptr<const Executable> e = compiled(engine, drawn);
    std::shared_ptr<const Executable> again = loaded_executable(other, saved_executable(*e));
    expect_same(run_apart(*e, drawn.inputs), run_apart(*again, drawn.inputs));
    EXPECT_EQ(again->donations, e->donations);
  }
  EXPECT_EQ(other->kernels().compiled, 0U);
}

}  // namespace
}  // namespace tile::test
