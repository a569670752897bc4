#include "core/distribute/mesh/mesh.h"

#include "core/distribute/mesh/layout_reader.h"

namespace tile {
namespace {

// Axes with one rank change nothing, so that there is no reason for many.
constexpr size_t kMostAxes = 16;

}  // namespace

size_t Mesh::ranks() const {
  size_t count = 1;
  for (const MeshAxis& axis : axes) count *= static_cast<size_t>(axis.size);
  return count;
}

std::optional<size_t> Mesh::find(std::string_view name) const {
  for (size_t a = 0; a < axes.size(); ++a) {
    if (axes[a].name == name) return a;
  }
  return std::nullopt;
}

std::vector<int64_t> Mesh::coordinates(size_t rank) const {
  std::vector<int64_t> at(axes.size());
  auto rest = static_cast<int64_t>(rank);
  for (size_t a = axes.size(); a-- > 0;) {
    at[a] = rest % axes[a].size;
    rest /= axes[a].size;
  }
  return at;
}

Mesh parse_mesh(const SourcePtr& source) {
  LayoutReader reader(source);
  Mesh mesh;
  int64_t ranks = 1;
  do {
    Word name = reader.name("the name of an axis, as in `x=2, y=4`");
    if (mesh.axes.size() == kMostAxes) {
      fail(Stage::parse, "limit", name.span,
           "the mesh has more than " + std::to_string(kMostAxes) + " axes");
    }
    if (mesh.find(name.text)) {
      fail(Stage::parse, "mesh", name.span, "the mesh has two axes " + name.text);
    }
    reader.expect('=', "`=` and the number of ranks along " + name.text);
    Number size = reader.number("the number of ranks along " + name.text);
    if (size.value < 1) {
      fail(Stage::parse, "mesh", size.span, "the axis " + name.text + " has no ranks",
           "an axis has at least one rank");
    }
    if (size.value > kMostRanks / ranks) {
      fail(Stage::parse, "limit", size.span,
           "the mesh has more than " + std::to_string(kMostRanks) + " ranks");
    }
    ranks *= size.value;
    mesh.axes.push_back({name.text, size.value});
  } while (reader.accept(','));
  if (!reader.at_end()) reader.wrong("a comma or the end of the mesh");
  return mesh;
}

std::string to_string(const Mesh& mesh) {
  std::string text;
  for (const MeshAxis& axis : mesh.axes) {
    text += (text.empty() ? "" : ", ") + axis.name + "=" + std::to_string(axis.size);
  }
  return text;
}

}  // namespace tile
