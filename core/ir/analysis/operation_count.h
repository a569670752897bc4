// How much useful work a contraction is, whatever the schedule.
#pragma once

#include <optional>

#include "core/ir/bound.h"

namespace tile {

// Integer points of a piece that the bounds pass has given a box: exact, each set of iterators that
// constraints tie together by enumeration. Throws Failure (code "limit") where such a set is too
// large.
double count_points(const Piece& piece);

// The body's operations without casts, those inside of folds once for each iteration, and the
// aggregation; nullopt where the number of a fold's iterations is no constant.
std::optional<double> operations_with_folds(const Contraction& contraction, const Piece& piece);

}  // namespace tile
