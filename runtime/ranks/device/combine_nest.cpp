#include "runtime/ranks/device/combine_nest.h"

#include "runtime/engine/launch/copy_nest.h"

namespace tile {
namespace {

constexpr int64_t kThreads = 256;  // of a block

nest::Buffer flat_argument(const char* name, DType type, int64_t cells) {
  nest::Buffer buffer;
  buffer.name = name;
  buffer.type = type;
  buffer.shape = {cells};
  buffer.strides = {1};
  return buffer;
}

// Where the tensor and the part have the box's cell number `flat`.
struct Places {
  Expr tensor, part;
};
Places places_of(const BoxLevels& levels, const Expr& flat) {
  Places at{static_cast<int64_t>(levels.tensor_first), static_cast<int64_t>(levels.part_first)};
  int64_t inner = 1;
  for (size_t l = levels.levels.size(); l-- > 0;) {
    const BoxLevels::Level& level = levels.levels[l];
    auto extent = static_cast<int64_t>(level.extent);
    Expr outer = floor_div(flat, inner);
    Expr step = l == 0 ? outer : floor_mod(outer, extent);
    at.tensor = at.tensor + step * static_cast<int64_t>(level.tensor_stride);
    at.part = at.part + step * static_cast<int64_t>(level.part_stride);
    inner *= extent;
  }
  return at;
}

// Neighbours that one thread combines: as many as it loads and stores at once, where the cells are
// one run in the tensor and in the part.
int64_t lanes_of(const Combination& what, int64_t count) {
  constexpr size_t kPackBytes = 16;
  size_t lanes = kPackBytes / byte_size(what.type);
  const std::vector<BoxLevels::Level>& levels = what.levels.levels;
  bool is_run = levels.size() == 1 && levels[0].tensor_stride == 1 && levels[0].part_stride == 1;
  bool even = static_cast<size_t>(count) % lanes == 0 && what.levels.tensor_first % lanes == 0 &&
              what.levels.part_first % lanes == 0;
  return what.aligned && is_run && even ? static_cast<int64_t>(lanes) : 1;
}

nest::Store combined(const Combination& what, const Places& at) {
  nest::Store store;
  nest::Access all{nest::BufferId(0), {at.tensor}, {}};
  store.target = all;
  if (what.of_two) {
    store.loads = {{nest::BufferId(1), {at.part}, {}}, {nest::BufferId(2), {at.part}, {}}};
  } else {
    store.loads = {all, {nest::BufferId(1), {at.part}, {}}};
  }
  DType compute = compute_type(what.type);
  NodeId before = store.body.cast(store.body.load(0, what.type), compute);
  NodeId value = store.body.cast(store.body.load(1, what.type), compute);
  NodeId both = store.body.operation(what.op, {before, value}, compute);
  store.body.results = {store.body.cast(both, what.type)};
  return store;
}

}  // namespace

nest::Nest combine_nest(const Combination& what) {
  nest::Nest nest;
  nest.name = "combine";
  nest.buffers = {flat_argument("all", what.type, what.cells)};
  nest.buffers[nest::BufferId(0)].written = true;
  if (what.of_two) nest.buffers.push_back(flat_argument("first", what.type, what.part_cells));
  nest.buffers.push_back(flat_argument("part", what.type, what.part_cells));
  int64_t count = 1;
  for (const BoxLevels::Level& level : what.levels.levels) {
    count *= static_cast<int64_t>(level.extent);
  }
  int64_t lanes = lanes_of(what, count), turns = count / lanes;
  Expr turn = Expr::variable("b") * kThreads + Expr::variable("t");
  nest::Statement work;
  if (lanes > 1) {
    Expr flat = turn * lanes + Expr::variable("l");
    nest::For vector = loop_around("l", lanes, nest::LoopKind::vector,
                                   {combined(what, places_of(what.levels, flat))});
    vector.width = lanes;
    work.what = std::move(vector);
  } else {
    work.what = combined(what, places_of(what.levels, turn));
  }
  nest::If inside;
  inside.nonnegative = {Expr(turns - 1) - turn};
  inside.then.push_back(std::move(work));
  int64_t blocks = (turns + kThreads - 1) / kThreads;
  nest.body.push_back(
      {loop_around("b", blocks, nest::LoopKind::grid,
                   {loop_around("t", kThreads, nest::LoopKind::thread, {std::move(inside)})})});
  return nest;
}

}  // namespace tile
