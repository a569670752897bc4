// Where spaces stand between two pieces of one line.
#pragma once

#include <span>
#include <vector>

#include "runtime/cli/format/pieces.h"

namespace tile::cli {

enum class Space : uint8_t { none, one, keep };

// What each piece wants on its sides, by its meaning in the language.
struct Sides {
  Space before = Space::keep;
  Space after = Space::keep;
};
std::vector<Sides> sides_of(Language language, std::span<const Piece> pieces);

// Whether a space stands between `left` and `right` on one line: none if one of them wants none,
// else one if one wants it, else as it was written. Two names or numbers are always apart.
bool space_between(const Piece& left, const Sides& of_left, const Piece& right,
                   const Sides& of_right);

}  // namespace tile::cli
