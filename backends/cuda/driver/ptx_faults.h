// PTX that NVIDIA's assembler of it translates wrongly.
#pragma once

#include <string_view>

namespace tile::cuda {

// Whether a minimum (or maximum) of 32-bit integers has an operand that is a minimum (or maximum)
// too, and one of the two an operand that is a negated number: of max(max(a, -b), c) ptxas makes
// one instruction of three operands, VIMNMX3, which cannot negate, and forgets to (seen in 13.0.88,
// for sm_90 and sm_100, at every level of optimisation above 0). May be true of what is translated
// rightly.
bool has_negated_minimum_of_three(std::string_view ptx);

}  // namespace tile::cuda
