#include "core/schedule/search/schedule_transfer.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>

namespace tile {
namespace {

// What sizes do not change: accesses, bodies, types, which iterators own cells.
std::string structure(Kernel kernel) {
  kernel.name.clear();
  for (TensorId id : kernel.tensors.ids()) {
    BoundTensor& t = kernel.tensors.edit(id);
    t.name.clear();
    t.shape.assign(t.shape.size(), 1);
    t.constant.reset();
  }
  for (Shape& shape : kernel.shapes) shape.assign(shape.size(), 1);
  for (KernelStage& stage : kernel.stages) {
    for (Piece& piece : stage.contraction.pieces) {
      piece.box.assign(piece.box.size(), 1);
      for (Constraint& c : piece.constraints) c.lo = c.hi = 0;
    }
  }
  return print(kernel);
}

}  // namespace

std::string outline(std::string_view kernel_text) {
  std::string text;
  bool digit = false;
  for (char c : kernel_text) {
    bool now = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (!now) text += c;
    if (now && !digit) text += '#';
    digit = now;
  }
  return text;
}

double distance(const Kernel& a, const Kernel& b) {
  constexpr double kFar = std::numeric_limits<double>::infinity();
  if (structure(a) != structure(b)) return kFar;
  double sum = 0;
  for (size_t s = 0; s < a.stages.size(); ++s) {
    for (size_t p = 0; p < a.stages[s].contraction.pieces.size(); ++p) {
      const std::vector<int64_t>& x = a.stages[s].contraction.pieces[p].box;
      const std::vector<int64_t>& y = b.stages[s].contraction.pieces[p].box;
      for (size_t u = 0; u < x.size(); ++u) {
        sum += std::abs(std::log(static_cast<double>(std::max<int64_t>(x[u], 1)) /
                                 static_cast<double>(std::max<int64_t>(y[u], 1))));
      }
    }
  }
  return sum;
}

// Parts that the kernels do not have stay as they are: such a schedule is legal for neither.
Schedule resized(Schedule schedule, const Kernel& from, const Kernel& to) {
  size_t stages = std::min({schedule.stages.size(), from.stages.size(), to.stages.size()});
  for (size_t s = 0; s < stages; ++s) {
    size_t pieces = std::min({schedule.stages[s].size(), from.stages[s].contraction.pieces.size(),
                              to.stages[s].contraction.pieces.size()});
    for (size_t p = 0; p < pieces; ++p) {
      const IterationBox& before = from.stages[s].contraction.pieces[p].box;
      const IterationBox& after = to.stages[s].contraction.pieces[p].box;
      for (Loop& l : schedule.stages[s][p].outer) {
        IteratorId u = l.iterator;
        if (!before.contains(u) || !after.contains(u)) continue;
        bool whole = l.step > 1 && l.step == before[u];
        if (whole) l.step = after[u];
      }
    }
  }
  return schedule;
}

}  // namespace tile
