#include "backends/cpu/sort.h"

#include <tbb/parallel_for.h>
#include <tbb/parallel_sort.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <type_traits>
#include <vector>

#include "core/support/diagnostic.h"

namespace tile::cpu {
namespace {

constexpr int64_t kParallelRow = 1 << 16;

// f16 and bf16 are their bits: as integers that order like the values.
template <int kMantissa>
struct Narrow {
  uint16_t bits;
  bool is_nan() const {
    constexpr uint16_t kInfinity = 0x7fff & ~((1 << kMantissa) - 1);
    return (bits & 0x7fff) > kInfinity;
  }
  int order() const { return (bits & 0x8000) != 0 ? -(bits & 0x7fff) : bits; }
};

// Whether a comes before b, NaN after everything; equal elements keep their places.
template <class T>
bool before(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::isnan(b) ? !std::isnan(a) : a < b;
  } else if constexpr (std::is_integral_v<T>) {
    return a < b;
  } else {
    return b.is_nan() ? !a.is_nan() : !a.is_nan() && a.order() < b.order();
  }
}

struct Rows {
  int64_t count = 1;   // of rows
  int64_t length = 1;  // elements of a row
  int64_t step = 1;    // elements from one of a row to the next
};
Rows rows_of(const BoundTensor& t, int64_t axis) {
  Rows r;
  for (size_t d = 0; d < t.shape.size(); ++d) {
    if (static_cast<int64_t>(d) == axis) {
      r.length = t.shape[d];
    } else {
      r.count *= t.shape[d];
      if (static_cast<int64_t>(d) > axis) r.step *= t.shape[d];
    }
  }
  return r;
}

template <class T>
struct Element {
  T value;
  int64_t at;
};

template <class T>
void sort_row(const T* from, void* to, const Rows& rows, bool indices, bool parallel) {
  auto n = static_cast<size_t>(rows.length);
  std::vector<Element<T>> row(n);
  for (size_t i = 0; i < n; ++i) {
    auto at = static_cast<int64_t>(i);
    row[i] = {from[at * rows.step], at};
  }
  // With the position as the second key no two elements are equal: any sort is stable.
  auto less = [](const Element<T>& a, const Element<T>& b) {
    if (before(a.value, b.value)) return true;
    return !before(b.value, a.value) && a.at < b.at;
  };
  if (parallel) {
    tbb::parallel_sort(row.begin(), row.end(), less);
  } else {
    std::sort(row.begin(), row.end(), less);
  }
  for (size_t i = 0; i < n; ++i) {
    int64_t at = static_cast<int64_t>(i) * rows.step;
    if (indices) {
      static_cast<int64_t*>(to)[at] = row[i].at;
    } else {
      static_cast<T*>(to)[at] = row[i].value;
    }
  }
}

template <class T>
void sort_typed(const Sort& sort, const BoundTensor& source, const void* from, void* to,
                int threads) {
  Rows rows = rows_of(source, sort.axis);
  if (rows.count == 0 || rows.length == 0) return;
  auto one = [&](int64_t r, bool parallel) {
    int64_t first = r / rows.step * rows.step * rows.length + r % rows.step;
    size_t size = sort.indices ? sizeof(int64_t) : sizeof(T);
    sort_row(static_cast<const T*>(from) + first,
             static_cast<std::byte*>(to) + static_cast<size_t>(first) * size, rows, sort.indices,
             parallel);
  };
  bool several = threads > 1 && rows.count * rows.length >= 4096;
  if (rows.count < threads || !several) {
    for (int64_t r = 0; r < rows.count; ++r) one(r, several && rows.length >= kParallelRow);
  } else {
    int64_t chunks = std::min<int64_t>(rows.count, threads);
    tbb::parallel_for(int64_t{0}, chunks, [&](int64_t c) {
      for (int64_t r = c; r < rows.count; r += chunks) one(r, false);
    });
  }
}

}  // namespace

void sort_axis(const Sort& sort, const BoundTensor& source, const void* from, void* to,
               int threads) {
  switch (source.type) {
    case DType::bool_:
    case DType::u8:
      return sort_typed<uint8_t>(sort, source, from, to, threads);
    case DType::i8:
      return sort_typed<int8_t>(sort, source, from, to, threads);
    case DType::i16:
      return sort_typed<int16_t>(sort, source, from, to, threads);
    case DType::i32:
      return sort_typed<int32_t>(sort, source, from, to, threads);
    case DType::i64:
      return sort_typed<int64_t>(sort, source, from, to, threads);
    case DType::u16:
      return sort_typed<uint16_t>(sort, source, from, to, threads);
    case DType::u32:
      return sort_typed<uint32_t>(sort, source, from, to, threads);
    case DType::u64:
      return sort_typed<uint64_t>(sort, source, from, to, threads);
    case DType::f16:
      return sort_typed<Narrow<10>>(sort, source, from, to, threads);
    case DType::bf16:
      return sort_typed<Narrow<7>>(sort, source, from, to, threads);
    case DType::f32:
      return sort_typed<float>(sort, source, from, to, threads);
    case DType::f64:
      return sort_typed<double>(sort, source, from, to, threads);
    case DType::none:
      break;
  }
  throw InternalError("cpu: a sort of no type");
}

}  // namespace tile::cpu
