// What is drawn from a seed in each language.
#pragma once

#include <vector>

#include "core/language/language.h"
#include "tests/programs/configuration.h"

namespace tile::test {

// The cases of a random program: a whole Tile program, a filter or a composition of patterns,
// mostly as it is and sometimes differentiated once or twice; before the last, where the
// configuration asks for classes, the program at other sizes.
std::vector<WholeCase> drawn_cases(Language language, uint64_t seed,
                                   const Configuration& configuration);

}  // namespace tile::test
