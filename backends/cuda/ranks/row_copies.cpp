#include "backends/cuda/ranks/row_copies.h"

#include <algorithm>
#include <climits>

namespace tile::cuda {
namespace {

// The driver's limit of a pitch, CU_DEVICE_ATTRIBUTE_MAX_PITCH on all GPUs.
constexpr size_t kMostPitch = INT_MAX;

CUdeviceptr address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

bool is_run(const RowCopy::Side& side, const RowCopy& c) {
  return (c.rows[1] == 1 || side.pitch == c.width) &&
         (c.rows[0] == 1 || side.slice == c.width * c.rows[1]);
}

// Rows from one slice to the next.
size_t height(const RowCopy::Side& side, const RowCopy& c) {
  return c.rows[0] == 1 ? c.rows[1] : side.slice / side.pitch;
}

void copy_each(Session& session, const RowCopy& c, CUstream stream) {
  for (size_t s = 0; s < c.rows[0]; ++s) {
    for (size_t r = 0; r < c.rows[1]; ++r) {
      session.copy(c.to.first + s * c.to.slice + r * c.to.pitch,
                   c.from.first + s * c.from.slice + r * c.from.pitch, c.width, stream);
    }
  }
}

}  // namespace

void copy_rows(Session& session, const RowCopy& c, CUstream stream) {
  size_t rows = c.rows[0] * c.rows[1];
  if (c.width == 0 || rows == 0) return;
  if (rows == 1 || (is_run(c.from, c) && is_run(c.to, c))) {
    return session.copy(c.to.first, c.from.first, c.width * rows, stream);
  }
  if (std::max({c.from.pitch, c.to.pitch, c.width}) > kMostPitch) {
    return copy_each(session, c, stream);
  }
  CUDA_MEMCPY3D what{};
  what.srcMemoryType = what.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  what.srcDevice = address(c.from.first);
  what.dstDevice = address(c.to.first);
  what.srcPitch = c.from.pitch;
  what.dstPitch = c.to.pitch;
  what.srcHeight = height(c.from, c);
  what.dstHeight = height(c.to, c);
  what.WidthInBytes = c.width;
  what.Height = c.rows[1];
  what.Depth = c.rows[0];
  session.check(session.device()->driver().cuMemcpy3DAsync_(&what, stream),
                "copying a box on the device");
}

}  // namespace tile::cuda
