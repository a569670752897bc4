// Layouts for whoever gives none: the inputs and outputs are spread over the whole mesh.
#pragma once

#include "core/distribute/mesh/layout.h"

namespace tile {

// Each axis, in the mesh's order, cuts the dimension of each input and output whose parts are the
// longest then. Dimensions of tuples' components stay whole, as do those that would get parts
// without cells.
WrittenLayouts spread_layouts(const BoundProgram& program, const Mesh& mesh,
                              Unnamed others = Unnamed::open);

}  // namespace tile
