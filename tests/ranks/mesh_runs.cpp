#include "tests/ranks/mesh_runs.h"

#include <gtest/gtest.h>

#include "core/language/tile/tile.h"
#include "tests/distribute/random_layouts.h"
#include "tests/distribute/sharded_run.h"
#include "tests/random/agreement/agreement.h"
#include "tests/random/random_program.h"
#include "tests/support/run_tile.h"

namespace tile::test {

std::shared_ptr<Engine> engine_of(const std::string& backend) {
  EngineOptions options;
  options.backend = backend;
  options.cache_mode = "off";
  options.strict_skip = true;
  options.threads = 2;
  return Engine::create(options);
}

void expect_same_values(const std::shared_ptr<Engine>& engine, uint64_t seed,
                        const OverlapOptions& overlap, int runs) {
  RandomCase drawn = random_case(seed);
  auto text = std::make_shared<const Source>(Source{"test.tile", drawn.text});
  auto source = std::make_shared<const Program>(parse_tile(text));
  BoundProgram program = tile::bind(*source, drawn.types);
  RandomLayouts layouts = random_layouts(program, seed, true);
  SCOPED_TRACE("seed " + std::to_string(seed) + ", mesh " + layouts.mesh + "\n" + layouts.layouts +
               drawn.text);
  try {
    LocalMesh mesh(engine, source, program, divided(program, layouts.mesh, layouts.layouts),
                   overlap);
    Interpretation expected = interpret(program, drawn.inputs, {}, true);
    for (int run = 0; run < runs; ++run) {
      EXPECT_EQ(difference(expected, mesh.run(drawn.inputs), drawn.exact), "");
    }
  } catch (const Failure& failure) {
    ADD_FAILURE() << failure.diagnostic().message;
  }
}

}  // namespace tile::test
