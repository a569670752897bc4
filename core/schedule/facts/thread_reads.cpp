#include "core/schedule/facts/thread_reads.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/ir/analysis/accesses.h"
#include "core/kernel/forms/gpu_forms.h"

namespace tile::gpu {
namespace {

constexpr size_t kMostPositions = 4096;  // beyond them overlaps are not looked for
constexpr int64_t kMostTaps = 16;        // of a window's dimension, that are looked at one by one

// An iterator whose values are written out in a turn.
struct Written {
  size_t iterator;
  int64_t count;
};

// Whether conditions bound a reduction's loop, so that it has a run-time number of values: those of
// whose iterators the register tile has none (core/lower/context/constraints.h).
bool is_bounded(IteratorId reduction, const PieceSchedule& s, const Piece& piece) {
  return std::any_of(piece.constraints.begin(), piece.constraints.end(), [&](const Constraint& c) {
    auto in = [&](IteratorId u) { return !c.form.coefficient(u.index()).is_zero(); };
    return in(reduction) && std::none_of(s.tile.begin(), s.tile.end(),
                                         [&](const Loop& l) { return in(l.iterator); });
  });
}

std::vector<Written> written_out(const PieceSchedule& s, const Piece& piece) {
  std::vector<Written> list;
  for (const Loop& l : s.tile) {
    if (l.binding == Binding::vector) continue;
    int64_t block = piece.box[l.iterator];
    for (const Loop& o : s.outer) {
      if (o.iterator == l.iterator) block = std::min(block, o.step);
    }
    list.push_back({l.iterator.index(), std::max<int64_t>(block, 1)});
  }
  for (const Loop& l : s.reduce) {
    int64_t count = std::max<int64_t>(piece.box[l.iterator], 1);
    bool whole = l.binding == Binding::unroll && !is_bounded(l.iterator, s, piece);
    if (whole) list.push_back({l.iterator.index(), count});
  }
  return list;
}

int64_t vector_of(const PieceSchedule& s) {
  if (s.tile.empty() || s.tile.back().binding != Binding::vector) return 1;
  int64_t width = 1;
  for (const Loop& l : s.outer) {
    if (l.iterator == s.tile.back().iterator) width = l.step;
  }
  return width;
}

// Elements from the tensor's begin where all iterators are 0.
int64_t constant_offset(const Access& a, const Kernel& kernel) {
  std::vector<int64_t> strides = dense_strides(kernel.tensors[a.tensor].shape);
  Rational sum = 0;
  for (size_t d = 0; d < a.index.size(); ++d) {
    sum += a.index[d].affine.constant * Rational(strides[d]);
  }
  return sum.num() / sum.den();
}

// Whether equal elements have equal addresses in the code, which a compiler sees.
bool is_plain(const Access& a) {
  return std::all_of(a.index.begin(), a.index.end(),
                     [](const Index& i) { return is_plain_index(i) && i.affine.is_integral(); });
}

class Counting {
 public:
  Counting(const PieceSchedule& s, const Piece& piece, const Kernel& kernel, const Target& target)
      : piece_(piece), kernel_(kernel), vector_(vector_of(s)), warp_(target.gpu.warp_size) {
    written_ = written_out(s, piece);
    for (const Written& w : written_) positions_ *= static_cast<double>(w.count);
    FlatIndex cells = flat_parallel_dims(piece, kernel);
    if (!cells.iterators.empty()) fastest_ = cells.iterators.back();
  }

  ThreadReads run() {
    ThreadReads reads;
    reads.vector = static_cast<double>(vector_);
    reads.positions = positions_;
    for (const Access& a : piece_.loads) {
      double distinct = fresh(a);
      reads.each += positions_;
      reads.distinct += distinct;
      reads.read_lines += distinct * lines(a);
    }
    double cells = 1;
    for (const Written& w : written_) {
      if (w.iterator < piece_.parallel_dims) cells *= static_cast<double>(w.count);
    }
    for (const Access& a : piece_.stores) reads.stored_lines += cells * lines(a);
    return reads;
  }

 private:
  // How many elements (or vectors) the access names that none before it named.
  double fresh(const Access& a) {
    if (!is_plain(a)) return positions_;
    std::vector<int64_t> at{constant_offset(a, kernel_)};
    double moving = 1;
    for (const Written& w : written_) {
      int64_t step = stride_of(a, w.iterator, kernel_);
      if (step == 0 || w.count == 1) continue;
      moving *= static_cast<double>(w.count);
      if (moving > static_cast<double>(kMostPositions)) return moving;
      std::vector<int64_t> more;
      for (int64_t offset : at) {
        for (int64_t i = 0; i < w.count; ++i) more.push_back(offset + i * step);
      }
      at = std::move(more);
    }
    Named named{a.tensor, {}, 0};
    for (size_t u = 0; u < piece_.box.size(); ++u) named.steps.push_back(free_step(a, u));
    double count = 0;
    for (int64_t offset : at) {
      named.offset = offset;
      count += seen_.insert(named).second ? 1 : 0;
    }
    return count;
  }

  // The step of an iterator whose values are not written out.
  int64_t free_step(const Access& a, size_t u) const {
    bool written = std::any_of(written_.begin(), written_.end(),
                               [&](const Written& w) { return w.iterator == u; });
    return written ? 0 : stride_of(a, u, kernel_);
  }

  // Whether a thread's neighbours stand at a multiple of their number.
  bool is_aligned(const Access& a) const {
    if (constant_offset(a, kernel_) % vector_ != 0 || !is_plain(a)) return false;
    for (size_t u = 0; u < piece_.box.size(); ++u) {
      if (u == *fastest_ || piece_.box[u] <= 1) continue;
      if (stride_of(a, u, kernel_) % vector_ != 0) return false;
    }
    return true;
  }

  // Lines for one read of a thread's neighbours by a warp.
  double lines(const Access& a) const {
    if (!fastest_) return 1;
    auto stride = static_cast<double>(std::abs(stride_of(a, *fastest_, kernel_)));
    if (stride == 0) return 1;
    auto vector = static_cast<double>(vector_), warp = static_cast<double>(warp_);
    auto bytes = static_cast<double>(byte_size(kernel_.tensors[a.tensor].type));
    if (stride == 1 && vector > 1 && is_aligned(a)) {
      double accesses = std::max(1.0, vector * bytes / kWideAccessBytes);
      return accesses * std::max(1.0, std::ceil(warp * vector * bytes / accesses / kLineBytes));
    }
    return vector * std::clamp(std::ceil(warp * vector * stride * bytes / kLineBytes), 1.0, warp);
  }

  struct Named {
    TensorId tensor;
    std::vector<int64_t> steps;
    int64_t offset;
    auto operator<=>(const Named&) const = default;
  };

  const Piece& piece_;
  const Kernel& kernel_;
  int64_t vector_;
  int warp_;
  std::vector<Written> written_;
  double positions_ = 1;
  std::optional<size_t> fastest_;
  std::set<Named> seen_;
};

}  // namespace

ThreadReads thread_reads(const PieceSchedule& schedule, const Piece& piece, const Kernel& kernel,
                         const Target& target) {
  return Counting(schedule, piece, kernel, target).run();
}

bool windows_overlap(IteratorId parallel_dim, const Piece& piece, const Kernel& kernel,
                     const Target& target) {
  if (piece.box[parallel_dim] < 2) return false;
  Piece moving = piece;
  std::erase_if(moving.loads, [&](const Access& a) { return !moves_with(a, parallel_dim); });
  if (moving.loads.empty() || !std::all_of(moving.loads.begin(), moving.loads.end(), is_plain)) {
    return false;
  }
  PieceSchedule pair;
  for (IteratorId u : piece.box.ids()) {
    if (piece.is_parallel(u)) {
      pair.outer.push_back({u, u == parallel_dim ? 2 : 1, Binding::parallel});
      pair.tile.push_back({u, 1, Binding::unroll});
    } else {
      bool taps = piece.box[u] <= kMostTaps;
      pair.reduce.push_back({u, 1, taps ? Binding::unroll : Binding::serial});
    }
  }
  ThreadReads reads = thread_reads(pair, moving, kernel, target);
  return reads.distinct < reads.each;
}

}  // namespace tile::gpu
