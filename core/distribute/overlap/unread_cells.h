// What an overlapped program does not read any more: tensors of which only parts are read, and
// cells of exchanges' results that are read where they come from.
#pragma once

#include <cstdint>
#include <set>

#include "core/ir/ranks/rank_program.h"

namespace tile {

// Parts of tensors that nobody reads whole are tensors of their own.
void drop_unread_wholes(RankProgram& program);

// Of these exchanges: what the rank gives itself is no more than what statements read of it, and
// the result no larger than the box that holds what is received.
void drop_unread_cells(RankProgram& program, int64_t rank, const std::set<size_t>& exchanges);

}  // namespace tile
