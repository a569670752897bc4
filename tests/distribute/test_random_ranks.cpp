// Random programs on random meshes under random layouts mean what they mean undivided.
#include <gtest/gtest.h>

#include "core/ir/ranks/rank_program.h"
#include "tests/distribute/random_layouts.h"
#include "tests/distribute/received_cells.h"
#include "tests/distribute/sharded_run.h"
#include "tests/random/agreement/agreement.h"
#include "tests/random/random_program.h"
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

// How tensors without a layout get theirs.
enum class Unnamed : uint8_t { follow, chosen };

PartitionedProgram divided_so(const BoundProgram& program, const RandomLayouts& layouts,
                              bool divide, Unnamed unnamed) {
  if (unnamed == Unnamed::follow) return divided(program, layouts.mesh, layouts.layouts, divide);
  ChoiceOptions options;
  options.links.any = {20, 0.5};
  options.rates = {0.25, 2};
  options.divide_terms = divide;
  return divided_as(program, chosen(program, layouts.mesh, layouts.layouts, options), options);
}

void expect_same_meaning(uint64_t seed, bool divide, const RandomOptions& options,
                         Unnamed unnamed = Unnamed::follow) {
  RandomCase drawn = random_case(seed, options);
  BoundProgram program = bind_text(drawn.text, drawn.types);
  RandomLayouts layouts = random_layouts(program, seed, divide);
  SCOPED_TRACE("seed " + std::to_string(seed) + ", mesh " + layouts.mesh + "\n" + layouts.layouts +
               drawn.text);
  try {
    PartitionedProgram p = divided_so(program, layouts, divide, unnamed);
    std::vector<HostTensor> got = run_ranks(p, program, drawn.inputs);
    Interpretation expected = interpret(program, drawn.inputs, kInOrder, true);
    if (divide) {
      EXPECT_EQ(difference(expected, got, drawn.exact), "");
    } else {
      expect_same_bits(expected.outputs, got);
    }
    EXPECT_EQ(first_unlike_brute_force(p), "");
    EXPECT_EQ(bytes_by_brute_force(p), bytes_told(p));
    for (const RankProgram& rank : p.ranks) {
      auto text = std::make_shared<const Source>(Source{"rank", print(rank)});
      EXPECT_EQ(print(parse_rank_program(text)), text->text);
    }
  } catch (const Failure& failure) {
    ADD_FAILURE() << failure.diagnostic().message;
  }
}

TEST(RandomRanks, OwnersComputeTheSameBits) {
  for (uint64_t seed : seeds(0, 150)) expect_same_meaning(seed, false, {});
}

TEST(RandomRanks, DividedTermsAgree) {
  for (uint64_t seed : seeds(5000, 150)) expect_same_meaning(seed, true, {});
}

TEST(RandomRanks, OwnersOfChosenLayoutsComputeTheSameBits) {
  for (uint64_t seed : seeds(12000, 150)) expect_same_meaning(seed, false, {}, Unnamed::chosen);
}

TEST(RandomRanks, ChosenLayoutsAgree) {
  for (uint64_t seed : seeds(15000, 150)) expect_same_meaning(seed, true, {}, Unnamed::chosen);
}

TEST(RandomRanks, RealsNanAndInfinities) {
  RandomOptions reals;
  reals.real_values = true;
  for (uint64_t seed : seeds(9000, 40)) expect_same_meaning(seed, false, reals);
}

}  // namespace
}  // namespace tile::test
