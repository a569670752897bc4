// How a kernel with a streamed axis lies in shared memory and registers. Used by the files that
// print it only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backends/cuda/print/printer.h"

namespace tile::cuda {

constexpr int64_t kStreamRowLanes = 8;    // of a warp: lanes that have different rows
constexpr int64_t kStreamGroupRows = 64;  // of four warps
constexpr int64_t kStreamGroupThreads = 128;
constexpr int64_t kStreamLineBytes = 128;
constexpr int64_t kStreamChunkBytes = 16;  // that one lane loads or copies at once

// A value of each column of a block, as cells need it: as it is, as a divisor, and as what is
// subtracted in an exponent, each with the byte of a stage of values where the first one is.
struct StreamValue {
  const nest::Copy* copy = nullptr;
  std::optional<int64_t> plain, divisor, subtrahend;
};

// What the parts of the text share.
struct Printer::StreamLayout {
  bool groups = false;      // of four warps, by wgmma
  bool by_threads = false;  // factors are f32, which threads multiply
  int64_t lane_rows = 2;    // that a lane has elements of in each fragment
  // Boxes come by bulk copies, made by a group of warps that does nothing else: the others wait for
  // what they need alone, and not for each other.
  bool bulk = false;
  CudaKernel* kernel = nullptr;
  bool divided = false;  // into those that copy and those that multiply, where the text has come to
  // More tiles than multiprocessors: as many blocks as those take tiles in turns, so that the next
  // tile's boxes travel while this one's results leave. 0: a block for each tile.
  int64_t tiles = 0, resident = 0;
  size_t indices_at = 0;  // where the text begins that derives indices from the tile
  int64_t rows = 0, threads = 0, stages = 0;
  std::map<nest::BufferId, int64_t> at;        // bytes of the shared buffers, in a stage or before
  std::vector<const nest::Copy*> once, steps;  // copies before the loop and in it
  // Those in the loop of one value for each column, which threads make.
  std::map<nest::BufferId, StreamValue> values;
  int64_t once_bytes = 0, stage_bytes = 0, value_bytes = 0;
  int64_t values_at() const { return once_bytes + stages * stage_bytes; }
  // Of weights that the lanes of a warp give each other, of all warps.
  int64_t exchange_bytes = 0;
  int64_t exchange_at() const { return values_at() + stages * value_bytes; }
  int64_t bytes() const { return exchange_at() + exchange_bytes; }
  int64_t warp_rows() const { return kStreamRowLanes * lane_rows; }
  const nest::For* loop = nullptr;
  // Sums of rows that the loop adds to and does not read: each lane's own part, until it ends.
  std::set<nest::BufferId> parts;
  std::map<int64_t, std::string> functions;  // of wgmma, by columns
  std::string type;                          // of the factors
};

// The stores of a block, inside conditions and loops too.
std::vector<const nest::Store*> stores_in(const nest::Block& block);
inline bool is_narrow(DType type) { return type == DType::f16 || type == DType::bf16; }

}  // namespace tile::cuda
