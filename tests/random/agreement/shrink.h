// Makes a failing whole program smaller.
#pragma once

#include <functional>

#include "tests/random/whole_program.h"

namespace tile::test {

// Whether a program still fails, in the same way.
using StillFails = std::function<bool(const WholeProgram&)>;

// The smallest program found that still fails: fewer outputs, gradients, statements and inputs,
// smaller sizes, plainer values. At most `most` programs are tried.
WholeProgram shrunk(const WholeProgram& program, const StillFails& fails, int most = 600);

}  // namespace tile::test
