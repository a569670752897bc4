// Random chains of stencils on engines, in poisoned memory: what ranks that overlap give is what
// ranks give that do one thing after the other.
#include <gtest/gtest.h>

#include "runtime/ranks/local_mesh.h"
#include "tests/distribute/random_stencils.h"
#include "tests/distribute/sharded_run.h"
#include "tests/random/agreement/agreement.h"
#include "tests/random/random_program.h"
#include "tests/ranks/watched_memory.h"
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

class OverlappedStencils : public testing::Test {
 protected:
  // The sign of a sum that is zero is the kernel's.
  static std::string different_cell(const HostTensor& one, const HostTensor& other) {
    for (int64_t i = 0; i < one.count(); ++i) {
      Scalar a = one.at(i), b = other.at(i);
      bool zeros = is_float(a.type) && a.f == 0 && b.f == 0;
      if (!zeros && !same_value(a, b)) return "cell " + std::to_string(i);
    }
    return one.count() == other.count() ? "" : "another shape";
  }

  std::shared_ptr<Engine> engine_of(const std::string& backend) {
    EngineOptions options;
    options.backend = backend;
    options.cache_mode = "off";
    options.threads = 1;
    options.host_allocator = memory_.allocator();
    return Engine::create(options);
  }

  static void expect_same_bits(const std::shared_ptr<Engine>& engine, uint64_t seed) {
    RandomStencils drawn = random_stencils(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + drawn.text());
    try {
      PartitionedProgram parts = divided(drawn.program, drawn.mesh, drawn.layouts);
      LocalMesh blocking(engine, drawn.source, drawn.program, parts, {Overlap::never, {}, {}});
      LocalMesh overlapping(engine, drawn.source, drawn.program, parts, {Overlap::always, {}, {}});
      Interpretation expected = interpret(drawn.program, drawn.inputs, {}, true);
      for (int run = 0; run < 2; ++run) {
        std::vector<HostTensor> one = blocking.run(drawn.inputs);
        std::vector<HostTensor> other = overlapping.run(drawn.inputs);
        EXPECT_EQ(difference(expected, one, true), "");
        for (size_t o = 0; o < one.size(); ++o) EXPECT_EQ(different_cell(one[o], other[o]), "");
      }
    } catch (const std::exception& failure) {
      ADD_FAILURE() << failure.what();
    }
  }

  WatchedMemory memory_;
};

TEST_F(OverlappedStencils, OnTheReference) {
  std::shared_ptr<Engine> engine = engine_of("reference");
  for (uint64_t seed : seeds(61000, 60)) expect_same_bits(engine, seed);
}

TEST_F(OverlappedStencils, OnTheCpu) {
  std::shared_ptr<Engine> engine = engine_of("cpu");
  for (uint64_t seed : seeds(62000, 15)) expect_same_bits(engine, seed);
}

}  // namespace
}  // namespace tile::test
