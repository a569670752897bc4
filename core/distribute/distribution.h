// A distribution: the layout of every tensor of a program, and how its statements are cut.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "core/distribute/mesh/layout.h"

namespace tile {

// The terms of a contraction are divided: each rank has those with the index in its part.
struct ReductionCut {
  std::string index;
  DimLayout parts;  // `starts` are values of the index
};
std::vector<size_t> axes_of(const std::vector<ReductionCut>& cuts);

struct Distribution {
  Mesh mesh;
  // Of views it follows from what they are views of, and is not here.
  IdVector<TensorId, TensorLayout> layouts;
  IdVector<TensorId, bool> named;                      // whether the text names it
  std::map<TensorId, std::vector<ReductionCut>> cuts;  // by the tensor that is computed
  // Where a statement computes its result, if that is not where it lies then; without the axes of
  // the cuts. A statement that stands here and has no cut has none.
  std::map<TensorId, TensorLayout> computed;
};

// Fits layouts that are written to a program. Throws Failure (stage bind; codes "layout", "rank")
// with a span of the layouts' text.
Distribution named_layouts(const BoundProgram& program, const Mesh& mesh,
                           const WrittenLayouts& written);

// The same, and gives layouts to the tensors that they do not
// name: a dimension is cut as the dimension of a named tensor that the same index walks, and whole
// where there is none.
Distribution distribution_of(const BoundProgram& program, const Mesh& mesh,
                             const WrittenLayouts& written);

// Gives layouts to the tensors that are not named.
void complete_layouts(const BoundProgram& program, Distribution& distribution);

// The index that alone, with factor 1 and no constant but an integer one, makes the form.
std::optional<size_t> single_iterator(const Affine& form);
// Whether an index that is a value decides which points of the contraction are valid.
bool data_decides(const Contraction& c);
// How a view's elements lie where its source has a layout; nullopt: some rank would have cells that
// are no box of the view.
std::optional<TensorLayout> layout_of_view(const BoundProgram& program, TensorId view,
                                           const TensorLayout& source);
// The source's layout with every dimension whole that the view cannot follow.
TensorLayout followed_by_view(const BoundProgram& program, TensorId view, TensorLayout source);

}  // namespace tile
