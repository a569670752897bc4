#include "core/schedule/cost.h"
#include "core/schedule/lowering.h"

namespace tile::lowering {
namespace {

nest::Store fill_store(Frame& frame, TensorId tensor, std::optional<TensorId> from,
                       const std::vector<Expr>& index) {
  nest::Store store;
  store.target.buffer = frame.buffer_of.at(tensor);
  store.target.index = frame.buffer_index(tensor, index);
  DType type = frame.tensor(tensor).type;
  if (from) {
    nest::Access read;
    read.buffer = frame.buffer_of.at(*from);
    read.index = frame.buffer_index(*from, index);
    store.loads = {read};
    store.body.results = {store.body.load(0, type)};
  } else if (is_float(type)) {
    store.body.results = {store.body.real(0, type)};
  } else {
    store.body.results = {store.body.integer(0, type)};
  }
  return store;
}

// One task for each group of neighbours, over all cells.
nest::Block fill_tasks(Frame& frame, TensorId tensor, std::optional<TensorId> from) {
  const BoundTensor& t = frame.tensor(tensor);
  int64_t fastest = t.shape.empty() ? 1 : t.shape.back(), vector = 1;
  while (vector < 4 && fastest % (2 * vector) == 0) vector *= 2;
  std::vector<Expr> index(t.shape.size());
  std::function<nest::Block(size_t, const Expr&)> digit = [&](size_t left, const Expr& rest) {
    if (left == 0) {
      return vector_lanes("lane", vector, [&](const Expr& lane) {
        std::vector<Expr> at = index;
        if (!at.empty()) at.back() = tidy(at.back() + lane);
        return nest::Block{statement(fill_store(frame, tensor, from, at))};
      });
    }
    bool last = left == t.shape.size();
    int64_t extent = t.shape[left - 1] / (last ? vector : 1);
    Expr value = left == 1 ? rest : floor_mod(rest, Expr(extent));
    std::string name = "f" + std::to_string(left);
    return bound_to(name, value, [&](const Expr& v) {
      index[left - 1] = last ? tidy(Expr(vector) * v) : v;
      if (left == 1) return digit(0, 0);
      return bound_to(name + "r", floor_div(rest, Expr(extent)),
                      [&](const Expr& q) { return digit(left - 1, q); });
    });
  };
  nest::For loop = make_loop("task", 0, element_count(t.shape) / vector, nest::LoopKind::parallel);
  loop.body = digit(t.shape.size(), Expr::variable("task"));
  return {statement(std::move(loop))};
}

}  // namespace

nest::Block fill(Frame& frame, TensorId tensor, std::optional<TensorId> from) {
  const BoundTensor& t = frame.tensor(tensor);
  int64_t width = frame.target.vector_bits / bit_width(t.type);
  std::function<nest::Block(size_t, std::vector<Expr>)> loops =
      [&](size_t d, std::vector<Expr> index) -> nest::Block {
    if (d == t.shape.size()) return {statement(fill_store(frame, tensor, from, index))};
    Expr v = Expr::variable("f" + std::to_string(d));
    bool vector = d + 1 == t.shape.size();
    if (!vector) {
      bool parallel = d == 0 && element_count(t.shape) > 1 << 20;
      nest::For loop = make_loop(v.name(), 0, t.shape[d],
                                 parallel ? nest::LoopKind::parallel : nest::LoopKind::serial);
      if (parallel)
        loop.grain = std::max<int64_t>(1, t.shape[d] * (1 << 16) / element_count(t.shape));
      index.push_back(v);
      loop.body = loops(d + 1, index);
      return {statement(std::move(loop))};
    }
    Expr chunk = Expr::variable("chunk"), lane = Expr::variable("lane");
    auto lanes = [&](const Expr& base, int64_t extent) {
      nest::For loop = make_loop("lane", 0, extent, nest::LoopKind::vector);
      loop.width = width;
      std::vector<Expr> at = index;
      at.push_back(tidy(base + lane));
      loop.body = loops(d + 1, at);
      return statement(std::move(loop));
    };
    nest::Block out;
    int64_t full = t.shape[d] / width, rest = t.shape[d] % width;
    if (full > 0) {
      nest::For loop = make_loop("chunk", 0, full, nest::LoopKind::serial);
      loop.body = {lanes(Expr(width) * chunk, width)};
      out.push_back(statement(std::move(loop)));
    }
    if (rest > 0) out.push_back(lanes(full * width, rest));
    return out;
  };
  if (element_count(t.shape) == 0) return {};
  if (is_gpu(frame.target)) return fill_tasks(frame, tensor, from);
  return loops(0, {});
}

}  // namespace tile::lowering
