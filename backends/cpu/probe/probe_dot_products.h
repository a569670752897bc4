// Instructions on packed neighbours beside f32 multiply-adds, as this machine runs them.
#pragma once

#include <llvm/ADT/StringMap.h>

#include "core/target/target.h"

namespace tile::cpu {

// Sets the target's dot_…_per_ns from its fma_per_ns. Takes a tenth of a millisecond; rates are
// rounded to powers of two of each other, so that the target is the same in every process.
void probe_dot_products(const llvm::StringMap<bool>& features, Target& target);

}  // namespace tile::cpu
