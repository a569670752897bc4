#include "tests/random/sweep.h"

#include <cstdlib>

#include "tests/random/random_program.h"

namespace tile::test {
namespace {

bool is_quick() { return std::getenv("TILE_TEST_SEEDS") == nullptr; }

}  // namespace

std::vector<uint64_t> sweep(uint64_t first, uint64_t count, uint64_t quick) {
  return seeds(first, is_quick() ? quick : count);
}

bool swept(uint64_t number, uint64_t of, uint64_t turn) {
  return !is_quick() || (number + turn) % of == 0;
}

}  // namespace tile::test
