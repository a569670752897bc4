// What is drawn from a seed in each language.
#pragma once

#include <vector>

#include "core/language/language.h"
#include "tests/programs/configuration.h"

namespace tile::test {

struct Drawn {
  std::vector<WholeCase> cases;
  std::string refused;  // why the cases are without a gradient that was drawn; empty: none is
};

// The cases of a random program: a whole Tile program, a filter or a composition of patterns,
// mostly as it is and sometimes differentiated once or twice; before the last, where the
// configuration asks for classes, the program at other sizes. Throws Failure where a valid program
// or its gradient is refused and the specification does not allow it.
Drawn drawn_cases(Language language, uint64_t seed, const Configuration& configuration);

// Whether a gradient of a valid program may be refused with this error: a limit (8.2 of tile.md),
// and in languages other than Tile, whose every operation has a derivative (7.1), an index or a
// loop that has none.
bool may_refuse_gradient(Language language, const Diagnostic& error);

}  // namespace tile::test
