#include "backends/cuda/matrix/stream_source.h"

namespace tile::cuda {
namespace {

// Sums of a lane: of each eight columns two neighbours of `rows` rows, one row after the other.
// Four of them, of sixteen columns, are neighbours; which they are is print_stream_threads.cpp's.
// Elements k of four terms come by one load of 16 bytes from each line. Loops over terms stay
// loops, twice unrolled: longer code was slower [H200].
constexpr const char* kPrelude = R"(
#ifndef TILE_STREAM_THREADS
#define TILE_STREAM_THREADS
struct alignas(16) StreamQuad { f32 x, y, z, w; };
FN f32 exp_of(f32 x) { return power_of_two(rounded_product(x, 1.44269504f)); }
// Where a column's line lies: lanes load lines that are neighbours, from different banks.
FN int stream_line(int column) {
  return column / 16 * 16 + column / 2 % 2 * 8 + column / 4 % 4 * 2 + column % 2;
}
FN StreamQuad stream_quad(const unsigned char* from) {
  return *reinterpret_cast<const StreamQuad*>(from);
}
// Chunks of 16 bytes are swizzled by the last three bits of their line's number, which are the same
// for all lines that a lane has, or are two numbers: what follows from them is spelled out.
template <int rows, int columns, int depth, int a_lines, int b_lines>
FN void stream_scores(f32 (&sum)[rows * columns / 4], const unsigned char* a,
                      const unsigned char* b, int first_row, int column_lane) {
  a += first_row * 128;
  b += column_lane * 256;
  #pragma unroll 2
  for (int k = 0; k < depth; k += 4) {
    const int part = k / 32, chunk = k / 4 % 8;
    const unsigned char* const from = a + part * (a_lines * 128) + (chunk ^ first_row & 7) * 16;
    const int even = part * (b_lines * 128) + (chunk ^ 2 * column_lane) * 16, odd = even ^ 16;
    StreamQuad x[rows];
    #pragma unroll
    for (int h = 0; h < rows; ++h) x[h] = stream_quad(from + h * 1024);
    #pragma unroll
    for (int c = 0; c < columns / 4; ++c) {
      // The line of column c / 4 * 16 + c % 4 + 4 * column_lane.
      const int line = c / 4 * 16 + c / 2 % 2 * 8 + c % 2;
      const StreamQuad y = stream_quad(b + line * 128 + (c % 2 == 0 ? even : odd));
      #pragma unroll
      for (int h = 0; h < rows; ++h) {
        f32& to = sum[2 * rows * (c / 2) + 2 * h + c % 2];
        to = fmaf(x[h].x, y.x, to);
        to = fmaf(x[h].y, y.y, to);
        to = fmaf(x[h].z, y.z, to);
        to = fmaf(x[h].w, y.w, to);
      }
    }
  }
}
template <int rows, int columns, int lines>
FN void stream_weigh(f32 (&sum)[rows * columns / 4], const f32 (&weight)[rows],
                     const unsigned char* b, int line, int column_lane) {
  const unsigned char* const from = b + line * 128;
  const int near = (column_lane ^ line & 7) * 16;
  #pragma unroll
  for (int c = 0; c < columns / 16; ++c) {
    const StreamQuad y = stream_quad(from + c / 2 * (lines * 128) + (c % 2 == 0 ? near : near ^ 64));
    #pragma unroll
    for (int h = 0; h < rows; ++h) {
      f32* const to = sum + 4 * rows * c + 2 * h;
      to[0] = fmaf(weight[h], y.x, to[0]);
      to[1] = fmaf(weight[h], y.y, to[1]);
      to[2 * rows] = fmaf(weight[h], y.z, to[2 * rows]);
      to[2 * rows + 1] = fmaf(weight[h], y.w, to[2 * rows + 1]);
    }
  }
}
// The lanes of a row give each other their weights through `own`, the warp's part of shared memory.
template <int rows, int columns, int depth, int lines>
FN void stream_weighed(f32 (&sum)[rows * columns / 4], const f32 (&weight)[rows * depth / 4],
                       unsigned char* own, const unsigned char* b, int row_lane, int column_lane) {
  constexpr int own_part = 8 * rows * 128;
  own += row_lane * 128;
  __syncwarp();
  #pragma unroll
  for (int n = 0; n < depth / 8; n += 2) {
    const int chunk = n % 4 * 2 + column_lane;
    unsigned char* const to = own + n / 4 * own_part + (chunk ^ row_lane) * 16;
    #pragma unroll
    for (int h = 0; h < rows; ++h) {
      const f32* const w = weight + 2 * rows * n + 2 * h;
      *reinterpret_cast<StreamQuad*>(to + h * 1024) = {w[0], w[1], w[2 * rows], w[2 * rows + 1]};
    }
  }
  __syncwarp();
  #pragma unroll 2
  for (int k = 0; k < depth; k += 4) {
    const unsigned char* const from = own + k / 32 * own_part + (k / 4 % 8 ^ row_lane) * 16;
    f32 x[rows], y[rows], z[rows], w[rows];
    #pragma unroll
    for (int h = 0; h < rows; ++h) {
      const StreamQuad q = stream_quad(from + h * 1024);
      x[h] = q.x, y[h] = q.y, z[h] = q.z, w[h] = q.w;
    }
    const int line = stream_line(k);
    stream_weigh<rows, columns, lines>(sum, x, b, line, column_lane);
    stream_weigh<rows, columns, lines>(sum, y, b, line + 1, column_lane);
    stream_weigh<rows, columns, lines>(sum, z, b, line + 8, column_lane);
    stream_weigh<rows, columns, lines>(sum, w, b, line + 9, column_lane);
  }
}
#endif
)";

}  // namespace

std::string stream_threads_prelude() { return kPrelude; }

}  // namespace tile::cuda
