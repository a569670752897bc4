// Programs that are valid but surely not what was meant. A warning changes nothing: the program
// means what the language's reference says, and runs.
#pragma once

#include <vector>

#include "core/ir/bound.h"
#include "core/ir/program.h"

namespace tile {

// Warnings of a program as its author wrote it, of severity warning, in the order of the text, the
// first 200 of them. Of a program that differentiation made there are none. Codes:
//   "unread"    an input that no statement reads and whose sizes nothing else uses, a statement
//               that no output needs, or a `let` of MFG that nothing reads
//   "truncated" a quotient of whole numbers that is 0: 1 / N, 2 / 3          (stage parse)
std::vector<Diagnostic> warnings_of(const Program& program);

// The same and those that need the inputs' shapes and types; `bound` is what bind made of it.
//   "empty"     a contraction without a valid point: all its cells are 0 or its default; an output
//               without elements, though every input has some
//   "aligned"   an operand of broadcasting whose dimension is aligned with another one of the same
//               size, but stands elsewhere in the other operand: of A[N, M] and S[N] the last ones
//   "always"    a condition that holds at every point anyway
//   "unreached" cells of an output that no point reaches, without a default
//   "truncated" a quotient of indices that is 0 at every point, of which a float is made
//   "overflow"  a sum of integers that more terms can leave the type than there are bits for
//   "index"     gather or scatter at positions that are outside whatever inputs hold (stage bind)
// Exact where the lattice decides within a small work limit, silent where it does not.
std::vector<Diagnostic> warnings_of(const Program& program, const BoundProgram& bound);

}  // namespace tile
