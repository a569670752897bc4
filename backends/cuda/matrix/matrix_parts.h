// Nests of matrix tiles: the parts of such a grid loop, and which result leaves a block as boxes.
#pragma once

#include <optional>
#include <vector>

#include "backends/cuda/source.h"
#include "core/nest/nest.h"

namespace tile::cuda {

// The statements of a grid loop that multiplies matrices.
struct MatrixParts {
  std::vector<const nest::For*> tile_values;  // loops of one iteration that name values
  const nest::For* steps = nullptr;
  std::vector<const nest::For*> step_values;
  const nest::Copy* a = nullptr;
  const nest::Copy* b = nullptr;
  const nest::Copy* a_rest = nullptr;
  const nest::Copy* b_rest = nullptr;
  const nest::MatrixTile* multiply = nullptr;
  std::vector<const nest::For*> cell_values;
  const nest::For* rows = nullptr;
  const nest::For* columns = nullptr;
  const nest::If* guard = nullptr;
  const nest::Block* cell = nullptr;  // what is done under the guard
  // Where some tiles are cut: the turns whose tiles are whole and finished, those that keep the
  // sums of a part, and where. All others have no steps.
  const nest::If* whole = nullptr;
  const nest::If* part = nullptr;
  const nest::Access* kept = nullptr;
};

// nullopt: the loop multiplies no matrices.
std::optional<MatrixParts> matrix_parts(const nest::For& grid);

// The dimensions of a buffer that a tensor map has.
std::vector<size_t> mapped(const nest::Buffer& b, const std::vector<size_t>& order);
// Of an argument, the map of boxes of these dimensions, the innermost first; sizes by dimension of
// the buffer.
TensorMap tensor_map(const nest::Buffer& b, nest::BufferId argument,
                     const std::vector<size_t>& dimensions, const std::vector<int64_t>& limit,
                     const std::vector<int64_t>& box, const std::vector<int64_t>& stride);

// The result of a tile's cells that panels of 64 rows and 128 bytes can bring to memory as boxes.
struct BoxedResult {
  const nest::Store* store = nullptr;
  TensorMap map;
  // Of each dimension of the map, innermost first, over the tile's variables, `row` and `column`.
  std::vector<Expr> index;
};
// nullopt where the last store is none. `columns`: those that a block finishes.
std::optional<BoxedResult> boxed_result(const nest::Nest& nest, const MatrixParts& parts,
                                        int64_t columns);

}  // namespace tile::cuda
