#include "core/schedule/facts/warp_reads.h"

#include <algorithm>
#include <vector>

#include "core/kernel/forms/gpu_forms.h"
#include "core/schedule/facts/thread_reads.h"

namespace tile::gpu {
namespace {

constexpr int64_t kSector = 32;  // bytes that caches and memory move at least
constexpr auto kLine = static_cast<int64_t>(kLineBytes);

// Elements between the access at a flat index and at zero.
int64_t offset_of(const Access& a, const FlatIndex& index, int64_t at, const Piece& piece,
                  const Kernel& kernel) {
  int64_t offset = 0;
  for (auto u = index.iterators.rbegin(); u != index.iterators.rend(); ++u) {
    int64_t extent = std::max<int64_t>(piece.box[*u], 1);
    offset += at % extent * stride_of(a, *u, kernel);
    at /= extent;
  }
  return offset;
}

double distinct(std::vector<int64_t> list) {
  std::sort(list.begin(), list.end());
  return static_cast<double>(std::unique(list.begin(), list.end()) - list.begin());
}

}  // namespace

WarpReads warp_reads(const GpuReduction& g, const Piece& piece, const Kernel& kernel,
                     const Target& target) {
  FlatIndex cells = flat_parallel_dims(piece, kernel), terms = flat_reductions(piece, kernel);
  const int64_t cell_step = g.vector_parallel_dims ? g.vector : 1;
  const int64_t term_step = g.vector_parallel_dims ? 1 : g.vector;
  WarpReads reads;
  for (const Access& a : piece.loads) {
    auto size = static_cast<int64_t>(byte_size(kernel.tensors[a.tensor].type));
    auto offset = [&](int64_t cell, int64_t term) {
      return offset_of(a, cells, cell * cell_step, piece, kernel) +
             offset_of(a, terms, term * term_step, piece, kernel);
    };
    const FlatIndex& near = g.vector_parallel_dims ? cells : terms;
    int64_t step = near.iterators.empty() ? 0 : stride_of(a, near.iterators.back(), kernel);
    std::vector<int64_t> lines, sectors;
    for (int64_t thread = 0; thread < target.gpu.warp_size; ++thread) {
      bool by_cell = g.parallel_dims_fastest;
      int64_t cell = by_cell ? thread % g.parallel_dims : thread / g.lanes;
      int64_t term = by_cell ? thread / g.parallel_dims : thread % g.lanes;
      int64_t first = offset(cell, term);
      for (int64_t v = 0; v < g.vector; ++v) {
        int64_t byte = (first + v * step) * size;
        lines.push_back(byte / kLine);
        sectors.push_back(byte / kSector);
      }
    }
    reads.lines += distinct(std::move(lines));
    double touched = distinct(std::move(sectors));
    // The bytes from a thread's term to its next one.
    int64_t next = std::abs(offset(0, g.lanes) - offset(0, 0)) * size;
    double reused = static_cast<double>(std::min(next, kSector)) / kSector;
    reads.sectors += touched * reused;
  }
  return reads;
}

}  // namespace tile::gpu
