#include "core/kernel/alike.h"

#include <algorithm>

#include "core/ir/same_body.h"

namespace tile {
namespace {

template <class List, class Same>
bool all_same(const List& a, const List& b, const Same& same_one) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_one);
}
bool same(const Constraint& a, const Constraint& b) {
  return a.lo == b.lo && a.hi == b.hi && a.integral == b.integral && a.form == b.form;
}
bool same(const Index& a, const Index& b) {
  return a.value == b.value && a.boundary == b.boundary && (a.value >= 0 || a.affine == b.affine);
}

// Tensors of the one kernel stand for those of the other.
class Comparison {
 public:
  Comparison(const Kernel& a, const Kernel& b)
      : a_(a), b_(b), to_(a.tensors.size()), from_(b.tensors.size()) {}

  bool run() {
    return tensors(a_.reads, b_.reads) &&
           all_same(a_.stages, b_.stages,
                    [&](const KernelStage& x, const KernelStage& y) { return stage(x, y); }) &&
           tensors(a_.writes, b_.writes);
  }

 private:
  bool stage(const KernelStage& x, const KernelStage& y) {
    return x.attach == y.attach && x.residence == y.residence && x.rows == y.rows &&
           x.stream == y.stream && x.rescale == y.rescale &&
           contraction(x.contraction, y.contraction);
  }
  bool contraction(const Contraction& x, const Contraction& y) {
    return x.aggregation == y.aggregation && x.accumulator == y.accumulator &&
           x.normalized == y.normalized && x.promised_injective == y.promised_injective &&
           all_same(x.outputs, y.outputs, [&](TensorId p, TensorId q) { return seen(p, q); }) &&
           all_same(x.pieces, y.pieces,
                    [&](const Piece& p, const Piece& q) { return piece(p, q); }) &&
           x.fill.has_value() == y.fill.has_value() && (!x.fill || tensor(*x.fill, *y.fill));
  }
  bool piece(const Piece& x, const Piece& y) {
    auto accesses = [&](const Access& p, const Access& q) { return access(p, q); };
    return x.iterators.size() == y.iterators.size() && x.box == y.box &&
           x.parallel_dims == y.parallel_dims &&
           all_same(x.constraints, y.constraints,
                    [](const Constraint& p, const Constraint& q) { return same(p, q); }) &&
           all_same(x.stores, y.stores, accesses) && all_same(x.loads, y.loads, accesses) &&
           same_body(x.body, y.body);
  }
  bool access(const Access& x, const Access& y) {
    return seen(x.tensor, y.tensor) &&
           all_same(x.index, y.index, [](const Index& p, const Index& q) { return same(p, q); });
  }

  bool tensors(const std::vector<TensorId>& x, const std::vector<TensorId>& y) {
    return all_same(x, y, [&](TensorId p, TensorId q) { return tensor(p, q); });
  }
  // Under its own shape.
  bool seen(TensorId x, TensorId y) {
    return tensor(x, y) && a_.tensors[x].shape == b_.tensors[y].shape;
  }
  bool tensor(TensorId x, TensorId y) {
    if (!to_.contains(x) || !from_.contains(y)) return false;
    if (to_[x].valid() || from_[y].valid()) return to_[x] == y && from_[y] == x;
    to_[x] = y;
    from_[y] = x;
    const BoundTensor &p = a_.tensors[x], &q = b_.tensors[y];
    bool constants = p.constant == q.constant ||
                     (p.constant != nullptr && q.constant != nullptr && *p.constant == *q.constant);
    return constants && p.type == q.type && p.role == q.role && p.tf32_parts == q.tf32_parts &&
           p.fixed == q.fixed && p.view_of.has_value() == q.view_of.has_value() &&
           (!p.view_of || tensor(*p.view_of, *q.view_of));
  }

  const Kernel &a_, &b_;
  IdVector<TensorId, TensorId> to_, from_;  // invalid: not seen yet
};

}  // namespace

bool alike(const Kernel& a, const Kernel& b) { return Comparison(a, b).run(); }

}  // namespace tile
