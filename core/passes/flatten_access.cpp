#include "core/passes/flatten_access.h"

#include <algorithm>

#include "core/support/checked.h"

namespace tile {
namespace {

struct Dim {
  Expr index;  // sizes are numbers
  int64_t size = 0;
  bool plain = false;  // in range by rule, not a value of the body
  Boundary boundary = Boundary::in_range;
  int value = -1;
};

bool inside(const Dim& d, const Ranges& ranges) {
  return prove_less(-1, d.index, ranges) == true && prove_less(d.index, d.size, ranges) == true;
}

// A view of the tensor in another shape, made once.
TensorId view_in_shape(BindContext& context, TensorId tensor, const Shape& shape, Span span) {
  TensorId source = context.tensor(tensor).view_of.value_or(tensor);
  for (size_t id = 0; id < context.bound.tensors.size(); ++id) {
    const BoundTensor& t = context.bound.tensors[id];
    if (t.view_of == source && t.shape == shape) return static_cast<TensorId>(id);
  }
  DType type = context.tensor(source).type;
  TensorId view = context.temporary(source, "flat", type, shape, span);
  context.tensor(view).view_of = source;
  return view;
}

}  // namespace

std::optional<SymbolicAccess> flattened(BindContext& context, const SymbolicAccess& access,
                                        const std::vector<std::string>& indices,
                                        const Ranges& ranges) {
  std::vector<Dim> dims;
  const Shape shape = context.shape(access.tensor);
  for (size_t d = 0; d < access.index.size(); ++d) {
    Dim dim;
    dim.size = shape[d];
    if (d < access.boundary.size()) dim.boundary = access.boundary[d];
    if (d < access.values.size()) dim.value = access.values[d];
    dim.plain = dim.boundary == Boundary::in_range && dim.value < 0;
    dim.index = dim.value >= 0 ? access.index[d]
                               : context.with_sizes(access.index[d], indices, ranges, access.tensor,
                                                    access.span);
    dims.push_back(std::move(dim));
  }
  bool any = false;
  for (size_t d = 0; d + 1 < dims.size();) {
    Dim &a = dims[d], &b = dims[d + 1];
    bool computed = !has_affine_form(a.index, indices) || !has_affine_form(b.index, indices);
    bool joins = computed && a.plain && b.plain && inside(a, ranges) && inside(b, ranges);
    Expr flat = joins ? simplify(a.index * b.size + b.index, ranges) : Expr(0);
    if (!joins || !has_affine_form(flat, indices)) {
      ++d;
      continue;
    }
    a.index = flat;
    a.size = checked_mul(a.size, b.size);
    dims.erase(dims.begin() + static_cast<ptrdiff_t>(d) + 1);
    any = true;
    if (d > 0) --d;
  }
  if (!any) return std::nullopt;
  SymbolicAccess out;
  out.span = access.span;
  Shape joined;
  for (const Dim& dim : dims) {
    out.index.push_back(dim.index);
    out.values.push_back(dim.value);
    out.boundary.push_back(dim.boundary);
    joined.push_back(dim.size);
  }
  out.tensor = view_in_shape(context, access.tensor, joined, access.span);
  return out;
}

}  // namespace tile
