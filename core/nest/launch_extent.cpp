#include "core/nest/launch_extent.h"

#include <map>

namespace tile::nest {

int64_t first_extent(const Nest& nest, const Buffer& buffer, std::span<const int64_t> parameters) {
  if (!buffer.extent) return buffer.shape.at(0);
  std::map<std::string, int64_t, std::less<>> given;
  size_t next = 0;
  for (const Parameter& p : nest.parameters) {
    if (!p.from.valid() && next < parameters.size()) given[p.name] = parameters[next++];
  }
  std::optional<int64_t> extent = value_at(*buffer.extent, given);
  internal_check(extent && *extent >= 0, "nest: an extent without a value");
  return *extent;
}

}  // namespace tile::nest
