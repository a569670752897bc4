#include "core/passes/bind/flatten_access.h"

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

// Makes `count` dimensions one if that gives an affine index; false, and nothing changes, if not.
bool join(std::vector<Dim>& dims, size_t first, size_t count,
          const std::vector<std::string>& indices, const Ranges& ranges) {
  Dim all = dims[first];
  all.index = 0;
  all.size = 1;
  bool computed = false;
  for (size_t d = first; d < first + count; ++d) {
    if (!dims[d].plain || !inside(dims[d], ranges)) return false;
    computed = computed || !has_affine_form(dims[d].index, indices);
    all.index = all.index * dims[d].size + dims[d].index;
    all.size = checked_mul(all.size, dims[d].size);
  }
  all.index = simplify(all.index, ranges);
  if (!computed || !has_affine_form(all.index, indices)) return false;
  dims[first] = std::move(all);
  auto rest = dims.begin() + static_cast<ptrdiff_t>(first) + 1;
  dims.erase(rest, rest + static_cast<ptrdiff_t>(count) - 1);
  return true;
}

// A view of the tensor in another shape, made once.
TensorId view_in_shape(BindContext& context, TensorId tensor, const Shape& shape, Span span) {
  TensorId source = context.tensor(tensor).view_of.value_or(tensor);
  for (TensorId id : context.bound.tensors.ids()) {
    const BoundTensor& t = context.bound.tensors[id];
    if (t.view_of == source && t.shape == shape) return id;
  }
  DType type = context.tensor(source).type;
  TensorId view = context.temporary(source, "flat", type, shape, span);
  context.edit(view).view_of = source;
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
  for (size_t count = 2; count <= dims.size(); ++count) {
    for (size_t first = 0; first + count <= dims.size(); ++first) {
      any = join(dims, first, count, indices, ranges) || any;
    }
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
