// Random programs divided among ranks that are threads, on engines.
#pragma once

#include <memory>
#include <string>

#include "runtime/ranks/local_mesh.h"

namespace tile::test {

std::shared_ptr<Engine> engine_of(const std::string& backend);
// The random program of that seed, under random layouts, gives what it gives undivided in each run.
void expect_same_values(const std::shared_ptr<Engine>& engine, uint64_t seed,
                        const OverlapOptions& overlap = {}, int runs = 1);

}  // namespace tile::test
