// The accesses of a program as flat index expressions, before sizes are bound
// (core/language/lift/REFERENCE.md 2.1).
#pragma once

#include <string>

#include "core/ir/program.h"

namespace tile {

// One line for each access of each contraction: "tap 1: IN[g]". Positions are row-major in the
// tensor; where its sizes are not known the dimensions stand apart. An argument called `input` is
// shown as IN, as the deck does. Boundary rules are written out as far as ranges leave them open.
std::string print_views(const Program& program);

}  // namespace tile
