// Layouts: which part of a tensor each rank of a mesh has.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/distribute/mesh/layout_reader.h"
#include "core/distribute/mesh/mesh.h"
#include "core/ir/bound.h"
#include "core/ir/ranks/box.h"

namespace tile {

// One dimension: whole where there are no axes, else cut into as many parts as the axes have
// ranks; the axis named last varies fastest.
struct DimLayout {
  std::vector<size_t> axes;
  std::vector<int64_t> starts;  // where each part begins, and the extent behind the last

  bool whole() const { return axes.empty(); }
  friend bool operator==(const DimLayout&, const DimLayout&) = default;
};

// A tensor's layout. Ranks that differ along an axis that is not named have the same elements,
// unless the axis is in `partial`: there each has a part of every element, and the sum of these
// parts is the element.
struct TensorLayout {
  std::vector<DimLayout> dims;
  std::vector<size_t> partial;

  bool uses(size_t axis) const;
  friend bool operator==(const TensorLayout&, const TensorLayout&) = default;
};

TensorLayout whole_layout(size_t dims);
// The part of an even cut: parts differ by one at most. A whole dimension where there are no axes.
DimLayout even_cut(const Mesh& mesh, std::vector<size_t> axes, int64_t extent);
size_t parts_of(const Mesh& mesh, const std::vector<size_t>& axes);
// Which part of a cut over the axes a rank has.
size_t part_of(const Mesh& mesh, const std::vector<size_t>& axes, size_t rank);
Box box_of(const TensorLayout& layout, const Shape& shape, const Mesh& mesh, size_t rank);
std::vector<Box> boxes_of(const TensorLayout& layout, const Shape& shape, const Mesh& mesh);
// "C[x, *] + y", with sizes where a cut is not even.
std::string to_string(const TensorLayout& layout, const std::string& tensor, const Mesh& mesh);

// As it is written, before shapes are known.
struct WrittenDim {
  std::vector<size_t> axes;
  std::vector<int64_t> sizes;  // of the parts; empty: even
  Span span;
};
struct WrittenLayout {
  std::vector<WrittenDim> dims;
  std::vector<size_t> partial;
  Span span;  // of the tensor's name
};
// A cut of a contraction along one of its indices.
struct WrittenCut {
  Word index;
  std::vector<size_t> axes;
  std::vector<int64_t> sizes;
};
// What tensors get that the text does not name.
enum class Unnamed : uint8_t {
  open,    // the text does not say: they are chosen
  chosen,  // "auto": the same, inputs and outputs among them
  follow,  // "follow": the layouts of named tensors whose indices they share
};
struct WrittenLayouts {
  std::map<std::string, WrittenLayout> tensors;
  std::map<std::string, std::vector<WrittenCut>> cuts;  // by the tensor that is computed
  Unnamed unnamed = Unnamed::open;

  // Neither a tensor nor that all are to be chosen.
  bool names_nothing() const {
    return tensors.empty() && cuts.empty() && unnamed != Unnamed::chosen;
  }
};

// The text of layouts, one after the other:
//
//   A[x, *]  B[*, y]  C[x, y]    # * whole; x.y over two axes; x(100, 28) parts of these sizes
//   S[*] + x                     # partial sums over x
//   C: k=y                       # the terms of C's sums are divided along the index k
//   auto                         # all tensors that are not named are chosen
//   follow                       # all tensors that are not named follow those that are
//
// Throws Failure (stage parse; codes "syntax", "mesh", "layout") with a span of the text.
WrittenLayouts parse_layouts(const SourcePtr& source, const Mesh& mesh);

}  // namespace tile
