// MFG and Lift programs in double precision, whose gradients central differences can measure.
#pragma once

#include "core/ir/program.h"

namespace tile::test {

// The program with f64 in place of f32 everywhere.
Program in_double(Program program);

}  // namespace tile::test
