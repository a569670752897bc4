// Reads whose indices split one position, A[g / M, g % M], as reads of the same elements in fewer
// dimensions: A's elements in a row, at g. No copy is made.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/passes/bind/bind_context.h"
#include "core/simplify/simplify.h"

namespace tile {

// The access with neighbouring dimensions joined (in a view of its tensor) wherever that makes an
// index affine that was not; nullopt if that is nowhere so. Joined indices are in range at every
// point of `ranges`.
std::optional<SymbolicAccess> flattened(BindContext& context, const SymbolicAccess& access,
                                        const std::vector<std::string>& indices,
                                        const Ranges& ranges);

}  // namespace tile
