// Scatter: rows of the updates are added to the rows that the indices name, one after another, so
// that the order of additions is that of the indices. Threads share out the trailing elements.
#include <algorithm>

#include "core/kernel/argument_layout.h"
#include "core/lower/launch/gpu_launch.h"
#include "core/lower/launch/nest_builders.h"
#include "core/nest/source_lines.h"

namespace tile {
namespace {

using lowering::append;
using lowering::make_loop;
using lowering::statement;

constexpr int64_t kThreadedElements = 1 << 15;

class ScatterLowering {
 public:
  ScatterLowering(const Scatter& scatter, const BoundTensors& tensors, const Target& target,
                  const Strides& strides)
      : scatter_(scatter),
        tensors_(tensors),
        strides_(strides),
        updates_(tensors[scatter.updates]),
        indices_(tensors[scatter.indices]),
        result_(tensors[scatter.result]),
        target_(target) {}

  nest::Nest run() {
    nest_.name = "scatter";
    nest::BufferId updates = argument(scatter_.updates, false),
                   indices = argument(scatter_.indices, false);
    nest::BufferId result = argument(scatter_.result, true);
    total_ = result;
    DType wide = compute_type(result_.type);
    bool rounds = is_float(wide) && wide != result_.type;
    if (rounds) {
      nest::Buffer sums = nest_.buffers[result];
      sums.name = "sums";
      sums.type = wide;
      sums.scope = nest::Scope::workspace;
      total_ = nest_.buffers.add(sums);
      nest_.body.push_back({nest::Alloc{total_}});
    }
    append(nest_.body, over(0, result_.shape, {},
                            [&](const std::vector<Expr>& at) { return plain(total_, at, {}); }));
    append(nest_.body, additions(updates, indices));
    if (rounds) {
      append(nest_.body, over(0, result_.shape, {}, [&](const std::vector<Expr>& at) {
               return plain(result, at, total_);
             }));
    }
    nest::give_span(nest_.body, scatter_.span);
    return std::move(nest_);
  }

 private:
  using Element = std::function<nest::Store(const std::vector<Expr>&)>;

  nest::BufferId argument(TensorId id, bool written) {
    const BoundTensor& t = tensors_[id];
    bool dense = !strides_.contains(id) || strides_[id].empty();
    nest::Buffer b;
    b.name = "t" + std::to_string(nest_.buffers.size());
    b.type = t.type;
    b.shape = t.shape;
    b.strides = dense ? dense_strides(t.shape) : strides_[id];
    b.written = written;
    return nest_.buffers.add(std::move(b));
  }
  DType type_of(nest::BufferId buffer) const { return nest_.buffers[buffer].type; }

  // target[at] = source[at], converted, or zero.
  nest::Store plain(nest::BufferId target, const std::vector<Expr>& at,
                    nest::BufferId source) const {
    nest::Store s;
    s.target.buffer = target;
    s.target.index = at;
    NodeId zero;
    if (source.valid()) {
      s.loads.push_back({source, at, {}});
      zero = s.body.cast(s.body.load(0, type_of(source)), type_of(target));
    } else if (is_float(type_of(target))) {
      zero = s.body.real(0, type_of(target));
    } else {
      zero = s.body.integer(0, type_of(target));
    }
    s.body.results = {zero};
    return s;
  }

  // Loops over the dimensions from d on, the last one a vector at a time.
  nest::Block over(size_t d, const Shape& shape, std::vector<Expr> at, const Element& element) {
    if (d == shape.size()) return {statement(element(at))};
    std::string name = "r" + std::to_string(d);
    Expr v = Expr::variable(name);
    if (d + 1 < shape.size()) {
      nest::For loop = make_loop(name, 0, shape[d], nest::LoopKind::serial);
      at.push_back(v);
      loop.body = over(d + 1, shape, at, element);
      return {statement(std::move(loop))};
    }
    return lanes(name, 0, shape[d], at, element);
  }
  nest::Block lanes(const std::string& name, const Expr& begin, const Expr& size,
                    const std::vector<Expr>& before, const Element& element) {
    int64_t width = std::max<int64_t>(1, target_.vector_bits / bit_width(result_.type));
    width = std::min<int64_t>(width, target_.vector_bits / 32);
    auto vector = [&](const Expr& base, const Expr& extent) {
      nest::For loop = make_loop(name, 0, extent, nest::LoopKind::vector);
      loop.width = width;
      std::vector<Expr> at = before;
      at.push_back(lowering::tidy(begin + base + Expr::variable(name)));
      loop.body = {statement(element(at))};
      return statement(std::move(loop));
    };
    nest::Block out;
    Expr full = floor_div(size, Expr(width)), rest = floor_mod(size, Expr(width));
    if (!full.is_constant(0)) {
      nest::For loop = make_loop(name + "c", 0, full, nest::LoopKind::serial);
      loop.body = {vector(Expr(width) * Expr::variable(name + "c"), width)};
      out.push_back(statement(std::move(loop)));
    }
    if (!rest.is_constant(0)) out.push_back(vector(lowering::tidy(Expr(width) * full), rest));
    return out;
  }

  // One update element is added to the row that its index names.
  nest::Store addition(nest::BufferId updates, nest::BufferId indices, const std::vector<Expr>& row,
                       const std::vector<Expr>& rest) const {
    nest::Store s;
    s.kind = nest::StoreKind::add;
    std::vector<Expr> from = row;
    from.insert(from.end(), rest.begin(), rest.end());
    s.loads = {{updates, from, {}}, {indices, row, {}}};
    NodeId value = s.body.load(0, updates_.type);
    NodeId index = s.body.load(1, indices_.type);
    DType wide = indices_.type == DType::u64 ? DType::u64 : DType::i64;
    index = s.body.cast(index, wide);
    index = s.body.operation(Op::max, {index, s.body.integer(0, wide)}, wide);
    index = s.body.operation(Op::min, {index, s.body.integer(result_.shape[0] - 1, wide)}, wide);
    s.body.results = {s.body.cast(value, type_of(total_))};
    s.target.buffer = total_;
    s.target.index.assign(1, Expr(0));
    s.target.index.insert(s.target.index.end(), rest.begin(), rest.end());
    s.target.values.assign(result_.shape.size(), -1);
    s.target.values[0] = index.number();
    return s;
  }

  nest::Block additions(nest::BufferId updates, nest::BufferId indices) {
    Shape trailing(result_.shape.begin() + 1, result_.shape.end());
    if (element_count(updates_.shape) == 0) return {};
    bool threaded = !trailing.empty() && target_.threads > 1 &&
                    element_count(updates_.shape) >= kThreadedElements;
    size_t shared = 0;  // the trailing dimension that threads share out
    for (size_t d = 0; d < trailing.size(); ++d) {
      if (trailing[d] > trailing[shared]) shared = d;
    }
    if (!threaded || trailing[shared] < 2) return rows(updates, indices, trailing, 0, {}, 0, 0);
    int64_t block = ceil_div(trailing[shared], int64_t{4} * target_.threads);
    block = ceil_div(block, 16) * 16;
    nest::For loop =
        make_loop("task", 0, ceil_div(trailing[shared], block), nest::LoopKind::parallel);
    Expr begin = Expr(block) * Expr::variable("task");
    Expr size = min(Expr(block), lowering::tidy(Expr(trailing[shared]) - begin));
    loop.body = rows(updates, indices, trailing, shared, begin, size, 0);
    return {statement(std::move(loop))};
  }

  // Serial loops over the index tensor, then the trailing elements (of a block of dimension
  // `shared` if `size` is not the constant 0).
  nest::Block rows(nest::BufferId updates, nest::BufferId indices, const Shape& trailing,
                   size_t shared, const Expr& begin, const Expr& size, size_t d,
                   std::vector<Expr> row = {}) {
    if (d < indices_.shape.size()) {
      Expr v = Expr::variable("i" + std::to_string(d));
      nest::For loop = make_loop(v.name(), 0, indices_.shape[d], nest::LoopKind::serial);
      row.push_back(v);
      loop.body = rows(updates, indices, trailing, shared, begin, size, d + 1, row);
      return {statement(std::move(loop))};
    }
    return trailing_loops(trailing, shared, begin, size, 0, {}, [&](const std::vector<Expr>& rest) {
      return addition(updates, indices, row, rest);
    });
  }
  nest::Block trailing_loops(const Shape& trailing, size_t shared, const Expr& begin,
                             const Expr& size, size_t d, std::vector<Expr> at,
                             const Element& element) {
    if (d == trailing.size()) return {statement(element(at))};
    bool block = d == shared && !size.is_constant(0);
    Expr from = block ? begin : Expr(0), count = block ? size : Expr(trailing[d]);
    std::string name = "x" + std::to_string(d);
    if (d + 1 == trailing.size()) return lanes(name, from, count, at, element);
    nest::For loop = make_loop(name, from, count, nest::LoopKind::serial);
    at.push_back(Expr::variable(name));
    loop.body = trailing_loops(trailing, shared, begin, size, d + 1, at, element);
    return {statement(std::move(loop))};
  }

  const Scatter& scatter_;
  const BoundTensors& tensors_;
  const Strides& strides_;
  const BoundTensor& updates_;
  const BoundTensor& indices_;
  const BoundTensor& result_;
  const Target& target_;
  nest::Nest nest_;
  nest::BufferId total_;
};

}  // namespace

nest::Nest lower_scatter(const Scatter& scatter, const BoundTensors& tensors, const Target& target,
                         const Strides& strides) {
  nest::Nest nest = ScatterLowering(scatter, tensors, target, strides).run();
  return is_gpu(target) ? gpu::bind_grid(std::move(nest), target) : std::move(nest);
}

}  // namespace tile
