#include "runtime/engine/launch/copy_nest.h"

#include <algorithm>

namespace tile {
namespace {

constexpr int64_t kThreads = 256;

DType bits_of(DType type) {
  switch (byte_size(type)) {
    case 1:
      return DType::u8;
    case 2:
      return DType::u16;
    case 4:
      return DType::u32;
    default:
      return DType::u64;
  }
}

nest::Buffer argument(const char* name, DType type, const Shape& shape,
                      const std::vector<int64_t>& strides) {
  nest::Buffer buffer;
  buffer.name = name;
  buffer.type = type;
  buffer.shape = shape;
  buffer.strides = strides.empty() ? dense_strides(shape) : strides;
  return buffer;
}

// The coordinates of the flat position.
std::vector<Expr> coordinates(const Expr& flat, const Shape& shape) {
  std::vector<Expr> index(shape.size());
  int64_t inner = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    Expr outer = floor_div(flat, inner);
    index[d] = d == 0 ? outer : floor_mod(outer, shape[d]);
    inner *= shape[d];
  }
  return index;
}

}  // namespace

nest::For loop_around(const char* variable, int64_t extent, nest::LoopKind kind,
                      nest::Statement inner) {
  nest::For f;
  f.variable = variable;
  f.extent = extent;
  f.kind = kind;
  f.body.push_back(std::move(inner));
  return f;
}

nest::Nest copy_nest(DType type, const Shape& shape, const std::vector<int64_t>& from,
                     const std::vector<int64_t>& to) {
  nest::Nest nest;
  nest.name = "copy";
  DType bits = bits_of(type);
  nest.buffers = {argument("from", bits, shape, from), argument("to", bits, shape, to)};
  nest.buffers[1].written = true;
  int64_t count = element_count(shape);
  Expr flat = Expr::variable("b") * kThreads + Expr::variable("t");
  nest::Store store;
  store.target = {nest::BufferId(1), coordinates(flat, shape), {}};
  store.loads.push_back({nest::BufferId(0), coordinates(flat, shape), {}});
  store.body.results = {store.body.load(0, bits)};
  nest::If inside;
  inside.nonnegative = {Expr(count - 1) - flat};
  inside.then.push_back({std::move(store)});
  int64_t blocks = (count + kThreads - 1) / kThreads;
  nest.body.push_back(
      {loop_around("b", blocks, nest::LoopKind::grid,
                   {loop_around("t", kThreads, nest::LoopKind::thread, {std::move(inside)})})});
  return nest;
}

}  // namespace tile
