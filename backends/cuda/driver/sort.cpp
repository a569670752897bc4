#include "backends/cuda/driver/sort.h"

#include <algorithm>
#include <array>

#include "backends/sorted_rows.h"
#include "core/support/diagnostic.h"

namespace tile::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kRowInShared = 2048;  // positions that one block sorts on chip
enum SortKernel : size_t { kRow, kBegin, kStep, kWrite };

const char* element_name(DType type) {
  switch (type) {
    case DType::i8:
      return "signed char";
    case DType::i16:
      return "short";
    case DType::u16:
    case DType::f16:
    case DType::bf16:
      return "unsigned short";
    case DType::i32:
      return "int";
    case DType::u32:
      return "unsigned int";
    case DType::i64:
      return "long long";
    case DType::u64:
      return "unsigned long long";
    case DType::f32:
      return "float";
    case DType::f64:
      return "double";
    default:
      return "unsigned char";
  }
}

// Of a float held as its bits, the encoding of the largest number; above it are NaN.
const char* largest_of(DType type) {
  switch (type) {
    case DType::f8e4m3:
      return "0x7e";
    case DType::f8e5m2:
      return "0x7c";
    case DType::f16:
      return "0x7c00";
    default:
      return "0x7f80";
  }
}

// Whether a comes before b, NaN after everything. Floats below 32 bits are their bits: as integers
// that order like the values.
std::string before_text(DType type) {
  if (type == DType::f32 || type == DType::f64) {
    return "  return b != b ? a == a : a < b;\n";
  }
  if (!is_float(type)) return "  return a < b;\n";
  bool byte = bit_width(type) == 8;
  std::string sign = byte ? "0x80" : "0x8000", magnitude = byte ? " & 0x7f" : " & 0x7fff";
  std::string nan = magnitude + ") > " + largest_of(type);
  auto order = [&](const std::string& x) {
    return x + " & " + sign + " ? -(" + x + magnitude + ") : " + x;
  };
  return "  bool m = (a" + nan + ", n = (b" + nan + ";\n  int x = " + order("a") +
         ", y = " + order("b") + ";\n  return n ? !m : !m && x < y;\n";
}

constexpr const char* kParameters =
    "(const T *from, void *to, unsigned *order, long long rows, long long length, long long step,\n"
    "    long long padded, long long span, long long distance, long long indices, long long "
    "blocks)";

// Positions beyond the row are its greatest; equal elements keep their places.
constexpr const char* kShared = R"(
__device__ long long first_of(long long row, long long length, long long step) {
  return row / step * step * length + row % step;
}
__device__ bool sorted(const T *row, long long length, long long step, unsigned a, unsigned b) {
  if (a >= length || b >= length) return a < b;
  T x = row[a * step], y = row[b * step];
  if (before(x, y)) return true;
  return !before(y, x) && a < b;
}
__device__ void exchange(const T *row, long long length, long long step, unsigned *order,
                         long long pair, long long span, long long distance) {
  long long i = pair / distance * 2 * distance + pair % distance;
  unsigned a = order[i], b = order[i + distance];
  bool rising = (i & span) == 0;
  if (sorted(row, length, step, a, b) != rising) {
    order[i] = b;
    order[i + distance] = a;
  }
}
__device__ void write(const T *from, void *to, long long first, long long step, long long at,
                      unsigned position, long long indices) {
  if (indices) {
    ((long long *)to)[first + at * step] = position;
  } else {
    ((T *)to)[first + at * step] = from[first + position * step];
  }
}
)";

std::string kernel_text(const char* name, const char* body) {
  return std::string("extern \"C\" __global__ void ") + name + kParameters + " {\n" + body + "}\n";
}

constexpr const char* kRowBody = R"(  extern __shared__ unsigned char shared_memory[];
  unsigned *mine = (unsigned *)shared_memory;
  for (long long r = blockIdx.x; r < rows; r += blocks) {
    long long first = first_of(r, length, step);
    for (long long i = threadIdx.x; i < padded; i += 256) mine[i] = (unsigned)i;
    __syncthreads();
    for (long long s = 2; s <= padded; s *= 2) {
      for (long long d = s / 2; d > 0; d /= 2) {
        for (long long p = threadIdx.x; p < padded / 2; p += 256) {
          exchange(from + first, length, step, mine, p, s, d);
        }
        __syncthreads();
      }
    }
    for (long long i = threadIdx.x; i < length; i += 256) {
      write(from, to, first, step, i, mine[i], indices);
    }
    __syncthreads();
  }
)";
constexpr const char* kBeginBody =
    R"(  for (long long t = blockIdx.x * 256LL + threadIdx.x; t < rows * padded; t += blocks * 256) {
    order[t] = (unsigned)(t % padded);
  }
)";
constexpr const char* kStepBody = R"(  long long half = padded / 2;
  for (long long t = blockIdx.x * 256LL + threadIdx.x; t < rows * half; t += blocks * 256) {
    long long r = t / half;
    exchange(from + first_of(r, length, step), length, step, order + r * padded, t % half, span,
             distance);
  }
)";
constexpr const char* kWriteBody =
    R"(  for (long long t = blockIdx.x * 256LL + threadIdx.x; t < rows * length; t += blocks * 256) {
    long long r = t / length, i = t % length;
    write(from, to, first_of(r, length, step), step, i, order[r * padded + i], indices);
  }
)";

int64_t blocks_for(int64_t work) {
  return std::min<int64_t>((work + kThreads - 1) / kThreads, int64_t{1} << 20);
}

}  // namespace

CudaSource sort_source(DType type) {
  CudaSource source;
  source.text = std::string("typedef ") + element_name(type) +
                " T;\n__device__ bool before(T a, T b) {\n" + before_text(type) + "}\n" + kShared +
                kernel_text("sort_row", kRowBody) + kernel_text("sort_begin", kBeginBody) +
                kernel_text("sort_step", kStepBody) + kernel_text("sort_write", kWriteBody);
  for (const char* name : {"sort_row", "sort_begin", "sort_step", "sort_write"}) {
    CudaKernel kernel;
    kernel.name = name;
    kernel.grid = Expr::variable("blocks");
    kernel.block = kThreads;
    if (source.kernels.empty()) kernel.shared_bytes = kRowInShared * sizeof(uint32_t);
    source.kernels.push_back(kernel);
  }
  return source;
}

std::vector<std::string> sort_parameters() {
  return {"rows", "length", "step", "padded", "span", "distance", "indices", "blocks"};
}

size_t sort_workspace_bytes(const Sort& sort, const BoundTensor& source) {
  SortedRows rows = sorted_rows(source, sort.axis);
  if (rows.padded() <= kRowInShared) return 0;
  return static_cast<size_t>(rows.count * rows.padded()) * sizeof(uint32_t);
}

void sort_on_device(const CudaCode& code, const Sort& sort, const BoundTensor& source,
                    const void* from, void* to, const LaunchOptions& options, Session& session) {
  SortedRows rows = sorted_rows(source, sort.axis);
  if (rows.count == 0 || rows.length == 0) return;
  internal_check(rows.length < int64_t{1} << 31, "positions of a sort have 32 bits");
  std::array<void*, 2> pointers = {const_cast<void*>(from), to};
  auto launch = [&](SortKernel kernel, int64_t span, int64_t distance, int64_t blocks) {
    std::array<int64_t, 8> parameters = {rows.count,           rows.length, rows.step,
                                         rows.padded(),        span,        distance,
                                         sort.indices ? 1 : 0, blocks};
    code.launch_one(kernel, pointers, parameters, options.workspace, session, options.stream);
  };
  if (rows.padded() <= kRowInShared) {
    launch(kRow, 0, 0, std::min<int64_t>(rows.count, int64_t{1} << 20));
    return;
  }
  launch(kBegin, 0, 0, blocks_for(rows.count * rows.padded()));
  for (int64_t span = 2; span <= rows.padded(); span *= 2) {
    for (int64_t distance = span / 2; distance > 0; distance /= 2) {
      launch(kStep, span, distance, blocks_for(rows.count * rows.padded() / 2));
    }
  }
  launch(kWrite, 0, 0, blocks_for(rows.count * rows.length));
}

}  // namespace tile::cuda
