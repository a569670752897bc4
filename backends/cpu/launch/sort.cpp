#include "backends/cpu/launch/sort.h"

#include <tbb/parallel_for.h>
#include <tbb/parallel_sort.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <span>
#include <type_traits>

#include "backends/cpu/launch/worker_team.h"
#include "backends/sorted_rows.h"
#include "core/support/checked.h"
#include "core/support/diagnostic.h"

namespace tile::cpu {

void SortCall::look() const {
  if (control != nullptr && control->is_over()) throw control->reason(where);
}

namespace {

constexpr int64_t kParallelRow = 1 << 16;

// Narrow floats are their bits: as integers that order like the values. Magnitudes above kLargest
// are NaN.
template <class Bits, int kLargest>
struct Narrow {
  static constexpr int kSign = 1 << (8 * sizeof(Bits) - 1);
  Bits bits;
  int magnitude() const { return bits & (kSign - 1); }
  bool is_nan() const { return magnitude() > kLargest; }
  int order() const { return (bits & kSign) != 0 ? -magnitude() : magnitude(); }
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

template <class T>
struct Element {
  T value;
  int64_t at;
};

// Of any type, as the workspace does not depend on it.
constexpr size_t kElement = sizeof(Element<int64_t>);

// With the position as the second key no two elements are equal: any sort is stable.
template <class T>
bool less(const Element<T>& a, const Element<T>& b) {
  if (before(a.value, b.value)) return true;
  return !before(b.value, a.value) && a.at < b.at;
}

// A comparison of two elements, which asks now and then whether it is still wanted.
template <class T>
struct Asking {
  static constexpr int kBetween = 1 << 16;  // comparisons, of some nanoseconds
  const SortCall& call;
  bool operator()(const Element<T>& a, const Element<T>& b) const {
    thread_local int left = kBetween;
    if (--left < 0) {
      left = kBetween;
      call.look();
    }
    return less(a, b);
  }
};

template <class T, class Less>
void sort_elements(std::span<Element<T>> row, bool parallel, const Less& before_other) {
  if (parallel) {
    tbb::parallel_sort(row.begin(), row.end(), before_other);
  } else {
    std::sort(row.begin(), row.end(), before_other);
  }
}

// `row` has room for the row's elements.
template <class T>
void sort_row(const T* from, void* to, const SortedRows& rows, Element<T>* row, bool indices,
              bool parallel, const SortCall& call) {
  static_assert(sizeof(Element<T>) <= kElement);
  auto n = static_cast<size_t>(rows.length);
  for (size_t i = 0; i < n; ++i) {
    auto at = static_cast<int64_t>(i);
    row[i] = {from[at * rows.step], at};
  }
  std::span<Element<T>> elements(row, n);
  if (call.control != nullptr) {
    sort_elements(elements, parallel, Asking<T>{call});
  } else {
    sort_elements(elements, parallel, [](const auto& a, const auto& b) { return less(a, b); });
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

// How a sort is divided.
struct Division {
  // A host's threads share no single row.
  Division(const SortedRows& rows, int threads, bool hosted = false) {
    bool several = threads > 1 && rows.count * rows.length >= 4096;
    if (several && rows.count >= threads) chunks = threads;
    within_rows = several && !hosted && chunks == 1 && rows.length >= kParallelRow;
  }
  int64_t chunks = 1;  // of rows, at a time
  bool within_rows = false;
};

// Whoever comes takes chunks until none is left.
template <class Chunk>
void share(int64_t chunks, const Chunk& chunk, const SortCall& call) {
  std::atomic<int64_t> next{0};
  WorkerTeam::mine().run(
      chunks,
      [&next, &chunk, chunks](int64_t) {
        for (int64_t c = next++; c < chunks; c = next++) chunk(c);
      },
      call.control, call.pool);
}

template <class T>
void sort_typed(const SortCall& call) {
  SortedRows rows = sorted_rows(call.source, call.sort.axis);
  if (rows.count == 0 || rows.length == 0) return;
  Division division(rows, call.threads, call.pool != nullptr);
  auto chunk = [&](int64_t c) {
    auto* row = reinterpret_cast<Element<T>*>(call.workspace +
                                              static_cast<size_t>(c * rows.length) * kElement);
    for (int64_t r = c; r < rows.count; r += division.chunks) {
      call.look();
      int64_t first = r / rows.step * rows.step * rows.length + r % rows.step;
      size_t size = call.sort.indices ? sizeof(int64_t) : sizeof(T);
      sort_row(static_cast<const T*>(call.from) + first,
               static_cast<std::byte*>(call.to) + static_cast<size_t>(first) * size, rows, row,
               call.sort.indices, division.within_rows, call);
    }
  };
  if (division.chunks == 1) {
    chunk(0);
  } else if (call.pool != nullptr) {
    share(division.chunks, chunk, call);
  } else {
    tbb::parallel_for(int64_t{0}, division.chunks, chunk);
  }
}

}  // namespace

size_t sort_workspace(const Sort& sort, const BoundTensor& source, int threads) {
  SortedRows rows = sorted_rows(source, sort.axis);
  if (rows.count == 0) return 0;
  // Fewer threads may take more rows at a time: many that are more than the rows share each row.
  int64_t most = 1;
  for (int t = 1; t <= threads; ++t) most = std::max(most, Division(rows, t).chunks);
  int64_t elements = checked_mul(most, rows.length);
  return static_cast<size_t>(checked_mul(elements, static_cast<int64_t>(kElement)));
}

void sort_axis(const SortCall& call) {
  switch (call.source.type) {
    case DType::bool_:
    case DType::u8:
      return sort_typed<uint8_t>(call);
    case DType::i8:
      return sort_typed<int8_t>(call);
    case DType::i16:
      return sort_typed<int16_t>(call);
    case DType::i32:
      return sort_typed<int32_t>(call);
    case DType::i64:
      return sort_typed<int64_t>(call);
    case DType::u16:
      return sort_typed<uint16_t>(call);
    case DType::u32:
      return sort_typed<uint32_t>(call);
    case DType::u64:
      return sort_typed<uint64_t>(call);
    case DType::f8e4m3:
      return sort_typed<Narrow<uint8_t, 0x7e>>(call);
    case DType::f8e5m2:
      return sort_typed<Narrow<uint8_t, 0x7c>>(call);
    case DType::f16:
      return sort_typed<Narrow<uint16_t, 0x7c00>>(call);
    case DType::bf16:
      return sort_typed<Narrow<uint16_t, 0x7f80>>(call);
    case DType::f32:
      return sort_typed<float>(call);
    case DType::f64:
      return sort_typed<double>(call);
    case DType::none:
      break;
  }
  throw InternalError("cpu: a sort of no type");
}

}  // namespace tile::cpu
