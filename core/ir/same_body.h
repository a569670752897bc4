// Whether two bodies are the same.
#pragma once

#include "core/ir/body.h"

namespace tile {

// Node by node, regions included; positions in the text do not count, and a real is its bits: 0 and
// -0 differ. Equal values in another order of nodes are not found: compare what tidied() returns.
bool same_body(const Body& a, const Body& b);

}  // namespace tile
