// Layouts that a tensor may get, and ways in which a statement may be divided.
#pragma once

#include <vector>

#include "core/distribute/distribution.h"

namespace tile {

// How a statement is divided: where its result's cells are computed, without the axes of the cuts,
// and how its terms are.
struct Way {
  TensorLayout computed;
  std::vector<ReductionCut> cuts;

  std::vector<size_t> axes() const { return axes_of(cuts); }
};
bool operator==(const Way& a, const Way& b);

// Cuts that the text writes with sizes of its own: dimensions of that extent may be cut alike.
using UnevenCuts = std::vector<DimLayout>;
UnevenCuts uneven_cuts(const Distribution& named);

// Every way to give the axes of the mesh to the dimensions that may be cut; beyond a limit without
// the shortest dimensions. The whole layout is the first.
std::vector<TensorLayout> possible_layouts(const Mesh& mesh, const Shape& shape,
                                           const std::vector<bool>& may_be_cut,
                                           const UnevenCuts& uneven);

// The same for a statement, with indices of its reductions besides. Named cuts are in all ways, and
// then there are no others.
struct WayOptions {
  const std::vector<ReductionCut>* named = nullptr;
  bool divide_terms = true;
};
std::vector<Way> possible_ways(const BoundProgram& program, const Mesh& mesh,
                               const BoundStatement& statement, const UnevenCuts& uneven,
                               const WayOptions& options);

// How a tensor that the statement reads lies where each rank has what it reads of it in this way,
// as far as single indices tell; whole where they do not.
TensorLayout suitable_layout(const BoundProgram& program, const Mesh& mesh,
                             const BoundStatement& statement, const Way& way, TensorId tensor);

// Dimensions of the result that ranks may divide: not those of a tuple's components, a sort's axis
// or a scatter's rows.
std::vector<bool> dims_to_cut(const BoundProgram& program, const BoundStatement& statement);

}  // namespace tile
