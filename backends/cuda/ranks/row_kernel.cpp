#include "backends/cuda/ranks/row_kernel.h"

#include <algorithm>
#include <array>
#include <string>

#include "backends/cuda/driver/nvrtc.h"

namespace tile::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 1 << 15;  // each thread of more copies several pieces
// Bytes that a thread copies at once, the most that all addresses and distances are multiples of.
constexpr std::array<size_t, 3> kPieces{16, 4, 1};

const std::vector<std::string> kParameters{"width",      "rows",     "count",    "from_pitch",
                                           "from_slice", "to_pitch", "to_slice", "blocks"};

// Pieces are counted in `width` of a row, `rows` of a slice, `count` in all; so are distances.
std::string text_of(size_t piece) {
  std::string bytes = std::to_string(piece), text = "struct alignas(" + bytes + ") Piece" + bytes;
  text += " { unsigned char bytes[" + bytes + "]; };\n";
  text += "extern \"C\" __global__ void rows_" + bytes + "(const Piece" + bytes + " *from, Piece";
  text += bytes + " *to, void *workspace, ";
  for (const std::string& name : kParameters) {
    text += "long long " + name + (name == kParameters.back() ? ") {\n" : ", ");
  }
  return text +
         R"(  for (long long t = blockIdx.x * 256LL + threadIdx.x; t < count; t += blocks * 256) {
    long long row = count >> 31 ? t / width : (unsigned)t / (unsigned)width;
    long long slice = count >> 31 ? row / rows : (unsigned)row / (unsigned)rows;
    long long at = t - row * width, line = row - slice * rows;
    to[slice * to_slice + line * to_pitch + at] = from[slice * from_slice + line * from_pitch + at];
  }
}
)";
}

Object compiled(const Device& device) {
  CudaSource source;
  for (size_t piece : kPieces) {
    CudaKernel kernel;
    kernel.name = "rows_" + std::to_string(piece);
    kernel.grid = Expr::variable("blocks");
    kernel.block = kThreads;
    source.text += text_of(piece);
    source.kernels.push_back(std::move(kernel));
  }
  Compiled compiled =
      Nvrtc::open(device.driver().version())->compile(source.text, device.target().features);
  return {std::move(source.kernels), 0, false, std::move(compiled.image)};
}

}  // namespace

RowKernel::RowKernel(const std::shared_ptr<const Device>& device)
    : code_(compiled(*device), "rows", kParameters, device) {}

void RowKernel::copy(Session& session, const RowCopy& c, CUstream stream) const {
  size_t all =
      c.width | reinterpret_cast<uintptr_t>(c.from.first) | reinterpret_cast<uintptr_t>(c.to.first);
  if (c.rows[1] > 1) all |= c.from.pitch | c.to.pitch;
  if (c.rows[0] > 1) all |= c.from.slice | c.to.slice;
  size_t kernel = 0;
  while (all % kPieces[kernel] != 0) ++kernel;
  auto pieces = [&](size_t bytes) { return static_cast<int64_t>(bytes / kPieces[kernel]); };
  auto rows = static_cast<int64_t>(c.rows[1]);
  int64_t count = pieces(c.width) * rows * static_cast<int64_t>(c.rows[0]);
  std::array<void*, 2> pointers{c.from.first, c.to.first};
  std::array<int64_t, 8> parameters{pieces(c.width),
                                    rows,
                                    count,
                                    pieces(c.from.pitch),
                                    pieces(c.from.slice),
                                    pieces(c.to.pitch),
                                    pieces(c.to.slice),
                                    std::min((count + kThreads - 1) / kThreads, kMostBlocks)};
  code_.launch_one(kernel, pointers, parameters, nullptr, session, stream);
}

}  // namespace tile::cuda
