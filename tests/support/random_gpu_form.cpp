#include "tests/support/random_gpu_form.h"

#include <random>

#include "core/kernel/forms/gpu_forms.h"

namespace tile {

std::optional<PieceSchedule> random_gpu_form(const Piece& piece, const Contraction& c,
                                             const Kernel& kernel, uint64_t seed) {
  std::mt19937_64 random(seed);
  auto pick = [&](std::initializer_list<int64_t> list) {
    return list.begin()[random() % list.size()];
  };
  PieceSchedule s;
  uint64_t kind = random() % 3;
  if (kind == 0 && gpu::matrix_form(piece, c, kernel)) {
    SimtGemm g;
    g.m = pick({16, 32, 64});
    g.n = pick({16, 32, 64});
    g.k = pick({4, 8, 16});
    g.thread_m = pick({4, 8});
    g.thread_n = pick({4, 8});
    g.split = pick({1, 1, 2, 3});
    g.stages = pick({2, 2, 3, 4});
    g.ahead = random() % 2 == 0;
    s.gpu_form = g;
    return s;
  }
  if (gpu::transpose_form(piece, kernel) && random() % 2 == 0) {
    s.gpu_form = GpuTranspose{pick({8, 16, 32}), pick({4, 8})};
    return s;
  }
  if (gpu::scans_lines(piece, c, kernel) && random() % 2 == 0) {
    s.gpu_form = GpuScan{pick({2, 8, 64}), pick({1, 2, 4, 6, 8, 16})};
    return s;
  }
  if (kind == 2 || piece.parallel_dims == piece.box.size()) return std::nullopt;
  GpuReduction g;
  g.parallel_dims = pick({1, 2, 3, 8});
  g.lanes = pick({1, 2, 8, 32, 64});
  g.vector = pick({1, 1, 2, 4});
  g.vector_parallel_dims = random() % 2 == 0;
  g.parallel_dims_fastest = random() % 2 == 0;
  g.split = pick({1, 1, 2, 5});
  s.gpu_form = g;
  return s;
}

}  // namespace tile
