// A mesh: ranks in a grid whose axes have names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/support/diagnostic.h"

namespace tile {

// Beyond this the tables of who sends what to whom, which have a row for each pair of ranks, would
// take longer than what they plan.
constexpr int64_t kMostRanks = 256;

struct MeshAxis {
  std::string name;
  int64_t size = 1;
  friend bool operator==(const MeshAxis&, const MeshAxis&) = default;
};

// Ranks are numbered in row-major order: the last axis varies fastest.
struct Mesh {
  std::vector<MeshAxis> axes;

  size_t ranks() const;
  std::optional<size_t> find(std::string_view name) const;
  // The coordinate of each axis.
  std::vector<int64_t> coordinates(size_t rank) const;
  friend bool operator==(const Mesh&, const Mesh&) = default;
};

// "x=2, y=4". Throws Failure (stage parse; codes "syntax", "mesh", "limit") with a span of the
// text.
Mesh parse_mesh(const SourcePtr& source);
std::string to_string(const Mesh& mesh);

}  // namespace tile
