#include "core/kernel/narrow_arguments.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "core/ir/analysis/accesses.h"
#include "core/kernel/argument_layout.h"
#include "core/kernel/coverage.h"
#include "core/support/checked.h"

namespace tile {
namespace {

struct Reading {
  const Piece* piece;
  Access* access;
};
struct Range {
  int64_t first, end;
  bool literal;  // the index moves with nothing
};

std::vector<Reading> readings_of(Kernel& kernel, TensorId id) {
  std::vector<Reading> list;
  for (KernelStage& stage : kernel.stages) {
    for (Piece& piece : stage.contraction.pieces) {
      for (Access& load : piece.loads) {
        if (load.tensor == id) list.push_back({&piece, &load});
      }
    }
  }
  return list;
}

// What the index can be on the piece's domain, where a form says it and points are there.
std::optional<Range> range_of(const Index& index, const Piece& piece, int64_t extent) {
  bool plain = is_plain_index(index);
  if (!plain || !index.affine.is_integral()) return std::nullopt;
  FormRange reach = range_over_box(index.affine, piece.box);
  // Conditions keep the index inside where the box alone does not.
  int64_t first = std::max<int64_t>(reach.lo.num(), 0);
  bool literal = index.affine.is_constant();
  if (first >= extent) return std::nullopt;
  return Range{first, literal ? first + 1 : extent, literal};
}

std::optional<Range> range_of(const std::vector<Reading>& readings, size_t d, int64_t extent) {
  std::optional<Range> all;
  for (const Reading& r : readings) {
    std::optional<Range> one = range_of(r.access->index[d], *r.piece, extent);
    if (!one) return std::nullopt;
    if (!all) all = one;
    all = Range{std::min(all->first, one->first), std::max(all->end, one->end),
                all->literal && one->literal};
  }
  return all;
}

// The part of a tensor that is read, as ranges of its outermost dimensions. Where an index moves,
// the part goes on to the tensor's end. Elements of a part are dense: inside a dimension of which
// more than one place is read all others stay whole.
std::vector<Range> part_of(const std::vector<Reading>& readings, const Shape& shape) {
  std::vector<Range> part;
  for (size_t d = 0; d < shape.size(); ++d) {
    std::optional<Range> range = range_of(readings, d, shape[d]);
    if (!range) break;
    part.push_back(*range);
    if (range->end - range->first > 1) break;
  }
  return part;
}

class Narrowing {
 public:
  explicit Narrowing(Kernel& kernel) : kernel_(kernel) {}

  void narrow(TensorId id) {
    std::vector<Reading> readings = readings_of(kernel_, id);
    const BoundTensor& t = kernel_.tensors[id];
    if (readings.empty() || element_count(t.shape) == 0) return;
    std::vector<Range> part = part_of(readings, t.shape);
    std::vector<int64_t> strides = dense_strides(t.shape);
    int64_t begin = 0;
    for (size_t d = 0; d < part.size(); ++d) {
      begin = checked_add(begin, checked_mul(part[d].first, strides[d]));
    }
    bool aligned =
        checked_mul(begin, static_cast<int64_t>(byte_size(t.type))) % kPartAlignment == 0;
    if (begin == 0 && !ends_early(part, t.shape)) return;
    if (aligned) take(id, readings, part, begin);
  }

 private:
  static bool ends_early(const std::vector<Range>& part, const Shape& shape) {
    for (size_t d = 0; d < part.size(); ++d) {
      if (part[d].end < shape[d]) return true;
    }
    return false;
  }
  void take(TensorId id, const std::vector<Reading>& readings, const std::vector<Range>& part,
            int64_t begin) {
    for (const Reading& r : readings) {
      for (size_t d = 0; d < part.size(); ++d) {
        Affine& form = r.access->index[d].affine;
        form = form - constant_affine(part[d].first);
      }
    }
    BoundTensor& t = kernel_.tensors.edit(id);
    t.view_of = std::nullopt;  // a view is a whole tensor
    for (size_t d = 0; d < part.size(); ++d) t.shape[d] = part[d].end - part[d].first;
    if (kernel_.shapes.contains(id)) kernel_.shapes[id].clear();
    kernel_.begins.resize(kernel_.tensors.size());
    kernel_.begins[id] = begin;
  }

  Kernel& kernel_;
};

bool fills_with(const Kernel& kernel, TensorId id) {
  return std::any_of(kernel.stages.begin(), kernel.stages.end(),
                     [&](const KernelStage& s) { return s.contraction.fill == id; });
}

}  // namespace

void narrow_arguments(Kernel& kernel, const std::function<bool(TensorId)>& may_begin_elsewhere) {
  if (!kernel.begins.empty()) return;
  for (TensorId id : kernel.reads) {
    const BoundTensor& t = kernel.tensors[id];
    bool fixed = t.fixed || (t.view_of && kernel.tensors[*t.view_of].fixed);
    bool whole = t.tf32_parts || fixed || fills_with(kernel, id) ||
                 std::find(kernel.writes.begin(), kernel.writes.end(), id) != kernel.writes.end();
    if (!whole && (!may_begin_elsewhere || may_begin_elsewhere(id))) Narrowing(kernel).narrow(id);
  }
}

std::vector<size_t> argument_begins(const Kernel& kernel) {
  std::vector<size_t> begins;
  if (kernel.begins.empty()) return begins;
  for (TensorId id : arguments_of(kernel)) {
    begins.push_back(static_cast<size_t>(kernel.begins[id]) * byte_size(kernel.tensors[id].type));
  }
  return begins;
}

}  // namespace tile
