// What somebody may have meant who wrote a name that is not known.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace tile {

// The candidate nearest to `name` by edit distance, if it is near enough to be a slip of the hand.
std::optional<std::string_view> nearest_name(std::string_view name,
                                             const std::vector<std::string_view>& candidates);

}  // namespace tile
