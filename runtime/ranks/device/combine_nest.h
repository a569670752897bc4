// The kernel that combines received values with those that came before them.
#pragma once

#include "core/ir/operation.h"
#include "core/nest/nest.h"
#include "runtime/ranks/box_rows.h"

namespace tile {

// Of a tensor of `cells` elements and of parts that have `part_cells`; `levels` are the cells that
// are combined. Values are combined in the type's compute type, as PartReducer does it.
struct Combination {
  DType type;
  Op op;
  BoxLevels levels;
  int64_t cells = 0, part_cells = 0;
  // Whether two parts of the same box set the tensor; else one is combined with what is there.
  bool of_two = false;
  // Whether the parts, like the tensor, begin at multiples of 16 bytes.
  bool aligned = false;
};
// Arguments: the tensor, which is updated; where there are two parts the first one; the part.
nest::Nest combine_nest(const Combination& what);

}  // namespace tile
