#include "backends/cuda/matrix/matrix_parts.h"

#include <algorithm>

#include "core/support/checked.h"

namespace tile::cuda {

using nest::LoopKind;

namespace {

const nest::For* only_loop(const nest::Block& block) {
  return block.size() == 1 ? std::get_if<nest::For>(&block[0].what) : nullptr;
}

// Enters loops of one iteration.
const nest::Block& values_before(const nest::Block& block, std::vector<const nest::For*>& values) {
  const nest::Block* inside = &block;
  for (const nest::For* f = only_loop(*inside);
       f != nullptr && f->kind == LoopKind::serial && f->extent.is_constant(1);
       f = only_loop(*inside)) {
    values.push_back(f);
    inside = &f->body;
  }
  return *inside;
}

void take_steps(const nest::For& steps, MatrixParts& parts) {
  parts.steps = &steps;
  std::vector<const nest::Copy*> copies;
  for (const nest::Statement& s : values_before(steps.body, parts.step_values)) {
    if (const auto* copy = std::get_if<nest::Copy>(&s.what)) copies.push_back(copy);
    if (const auto* m = std::get_if<nest::MatrixTile>(&s.what)) parts.multiply = m;
  }
  for (const nest::Copy* copy : copies) {
    if (parts.multiply != nullptr && copy->to == parts.multiply->a) parts.a = copy;
    if (parts.multiply != nullptr && copy->to == parts.multiply->b) parts.b = copy;
    if (parts.multiply != nullptr && copy->to == parts.multiply->a_rest) parts.a_rest = copy;
    if (parts.multiply != nullptr && copy->to == parts.multiply->b_rest) parts.b_rest = copy;
  }
}

void take_cells(const nest::For& rows, MatrixParts& parts) {
  const nest::For* columns = only_loop(rows.body);
  if (columns == nullptr || columns->kind != LoopKind::thread) return;
  parts.rows = &rows;
  parts.columns = columns;
  parts.cell_values.clear();
  parts.cell = &values_before(columns->body, parts.cell_values);
  parts.guard = nullptr;
  if (parts.cell->size() != 1) return;
  const auto* guard = std::get_if<nest::If>(&parts.cell->front().what);
  if (guard == nullptr || !guard->otherwise.empty() || !guard->predicate.results.empty()) return;
  parts.guard = guard;
  parts.cell = &guard->then;
}

// The first condition is for whole tiles, the second for parts of others.
void take_cut(const nest::If& condition, MatrixParts& parts) {
  const nest::For* rows = only_loop(condition.then);
  if (rows == nullptr) return;
  if (parts.whole == nullptr) {
    parts.whole = &condition;
    return take_cells(*rows, parts);
  }
  const nest::For* columns = only_loop(rows->body);
  if (columns == nullptr || columns->body.size() != 1) return;
  const auto* store = std::get_if<nest::Store>(&columns->body[0].what);
  if (store == nullptr) return;
  parts.part = &condition;
  parts.kept = &store->target;
}

}  // namespace

std::optional<MatrixParts> matrix_parts(const nest::For& grid) {
  MatrixParts parts;
  for (const nest::Statement& s : values_before(grid.body, parts.tile_values)) {
    if (const auto* condition = std::get_if<nest::If>(&s.what)) {
      take_cut(*condition, parts);
      continue;
    }
    const auto* loop = std::get_if<nest::For>(&s.what);
    if (loop == nullptr) continue;
    if (loop->pipeline > 0) take_steps(*loop, parts);
    if (loop->kind == LoopKind::thread) take_cells(*loop, parts);  // the last finishes the tile
  }
  bool whole =
      parts.steps != nullptr && parts.a != nullptr && parts.b != nullptr && parts.rows != nullptr;
  whole = whole && (parts.whole == nullptr) == (parts.part == nullptr);
  return whole ? std::optional(parts) : std::nullopt;
}

std::vector<size_t> mapped(const nest::Buffer& b, const std::vector<size_t>& order) {
  std::vector<size_t> result;
  std::copy_if(order.begin(), order.end(), std::back_inserter(result),
               [&](size_t d) { return b.shape[d] > 1; });
  return result;
}

TensorMap tensor_map(const nest::Buffer& b, nest::BufferId argument,
                     const std::vector<size_t>& dimensions, const std::vector<int64_t>& limit,
                     const std::vector<int64_t>& box, const std::vector<int64_t>& stride) {
  TensorMap map;
  map.argument = argument.index();
  map.type = b.type;
  map.swizzle_bytes = 128;
  for (size_t i = 0; i < dimensions.size(); ++i) {
    size_t d = dimensions[i];
    map.sizes.push_back(static_cast<uint64_t>(limit[d]));
    if (i > 0) {
      map.strides_bytes.push_back(static_cast<uint64_t>(b.strides[d]) * byte_size(b.type));
    }
    map.box.push_back(static_cast<uint32_t>((box[d] - 1) * stride[d] + 1));
    map.element_strides.push_back(static_cast<uint32_t>(stride[d]));
  }
  // Rows that begin inside a line of the cache share it with their neighbours.
  bool lines = std::all_of(map.strides_bytes.begin(), map.strides_bytes.end(),
                           [](uint64_t bytes) { return bytes % 128 == 0; });
  map.l2_promotion = lines ? 256 : 128;
  return map;
}

}  // namespace tile::cuda
