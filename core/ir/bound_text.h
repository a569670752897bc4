// The words of the text form of bound programs (print_bound.cpp shows it).
#pragma once

#include <array>
#include <string_view>

namespace tile {

// In the order of TensorRole and of Boundary.
constexpr auto kRoleNames = std::to_array<std::string_view>({"input", "temporary", "output"});
constexpr auto kBoundaryNames =
    std::to_array<std::string_view>({"in_range", "clamp", "mirror", "wrap", "constant"});

}  // namespace tile
