// Seeds of random tests that take long.
#pragma once

#include <cstdint>
#include <vector>

namespace tile::test {

// As seeds() where TILE_TEST_SEEDS is set, which the tests with the label `sweep` do by "all"; else
// the first `quick` of them.
std::vector<uint64_t> sweep(uint64_t first, uint64_t count, uint64_t quick);
// Of cases that are listed: all of them, or each `of`-th, another one for each `turn`.
bool swept(uint64_t number, uint64_t of, uint64_t turn = 0);

}  // namespace tile::test
