// The short way of a call: its tensors are compared with what the executable was compiled for, and
// its code is called. Inline, as the comparison of a small call's tensors is most of what the call
// costs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "runtime/engine/launch/call_plan.h"
#include "tile/tile.h"

namespace tile::api {

// What takes longer, out of the way of the rest.

// Whether strides are those of dense elements, whatever they are in dimensions of extent one;
// `layout` is a plan's, of a rank that is not zero.
bool are_dense(const int64_t* strides, const int64_t* layout, size_t rank);
bool is_constant(const CallPlan& call, size_t input);
// Puts the copies in place of constants; false where one is given that is not the one declared.
bool take_constants(const CallPlan& call, void** pointers);

// Device, rank and type stand side by side in a DLTensor and in the plan, and are compared as two
// words.
struct SideBySide {
  uint64_t words[2];
  explicit SideBySide(const DLTensor& t) { take(&t, offsetof(DLTensor, device)); }
  explicit SideBySide(const CallPlan::Tensor& t) { take(&t, offsetof(CallPlan::Tensor, device)); }

 private:
  void take(const void* tensor, size_t at) {
    std::memcpy(words, static_cast<const std::byte*>(tensor) + at, sizeof words);
  }
};
static_assert(offsetof(DLTensor, shape) - offsetof(DLTensor, device) == sizeof(SideBySide));
static_assert(offsetof(CallPlan::Tensor, bytes) - offsetof(CallPlan::Tensor, device) ==
              sizeof(SideBySide));
// Zero if they are the same.
inline uint64_t difference(const SideBySide& a, const SideBySide& b) {
  return (a.words[0] ^ b.words[0]) | (a.words[1] ^ b.words[1]);
}

// Of a rank that is not negative: nothing extends a sign.
inline size_t rank_of(const CallPlan::Tensor& planned) {
  return static_cast<uint32_t>(planned.ndim);
}

// Whether two lists of numbers, one for each dimension of a rank that is not zero, are the same:
// from both ends inwards, so that few ranks need a loop.
inline bool same_numbers(const int64_t* a, const int64_t* b, size_t rank) {
  size_t last = rank - 1;
  if (((a[0] ^ b[0]) | (a[last] ^ b[last])) != 0) return false;
  if (rank <= 2) [[likely]]
    return true;
  if (((a[1] ^ b[1]) | (a[last - 1] ^ b[last - 1])) != 0) return false;
  for (size_t d = 2; d + 2 < rank; ++d) {
    if (a[d] != b[d]) return false;
  }
  return true;
}

// Whether the tensor is where the engine runs, dense and exactly as planned; `layout` is the
// plan's, its extents and strides.
inline bool is_exact(const DLTensor& t, const CallPlan::Tensor& expected, const int64_t* layout,
                     uintptr_t misaligned) {
  auto address = reinterpret_cast<uintptr_t>(t.data);
  uint64_t unlike = difference(SideBySide(t), SideBySide(expected));
  unlike |= (address & misaligned) | t.byte_offset;
  if (unlike != 0 || address == 0) return false;
  size_t rank = rank_of(expected);
  if (rank == 0) return true;
  if (t.shape == nullptr || !same_numbers(t.shape, layout, rank)) return false;
  return t.strides == nullptr || are_dense(t.strides, layout, rank);
}

// Whether `bytes` from `data` share some with one of the first `count` tensors; all have bytes. One
// comparison for each: its last byte may lie nowhere from the first of `data` to as many bytes
// further as both have, less one.
inline bool overlaps(const void* data, size_t bytes, void* const* tensors, const CallPlan& call,
                     size_t count) {
  auto begin = reinterpret_cast<uintptr_t>(data);
  const CallPlan::Tensor* planned = call.tensors.data();
  for (size_t i = 0; i < count; ++i) {
    uintptr_t last = reinterpret_cast<uintptr_t>(tensors[i]) + planned[i].bytes - 1;
    if (last - begin < planned[i].bytes + bytes - 1) return true;
  }
  return false;
}

// With as many tensors as planned: pointers to the inputs, then to the outputs, if all are dense,
// lie where the engine runs, are exactly what the executable was compiled for and do not overlap.
// False for anything else, errors included.
[[gnu::always_inline]] inline bool take_pointers(const CallPlan& call,
                                                 const DLTensor* const* inputs,
                                                 DLTensor* const* outputs, void** pointers) {
  if (inputs == nullptr || outputs == nullptr) return false;
  const CallPlan::Tensor* expected = call.tensors.data();
  const int64_t* layout = call.layouts.data();
  const uintptr_t misaligned = call.misaligned;
  const size_t count = call.inputs, all = count + call.outputs;
  for (size_t i = 0; i < count; ++i, layout += 2 * rank_of(*expected), ++expected) {
    const DLTensor* t = inputs[i];
    if (t != nullptr) [[likely]] {
      if (!is_exact(*t, *expected, layout, misaligned)) return false;
      pointers[i] = t->data;
    } else {
      if (!is_constant(call, i)) return false;
      pointers[i] = nullptr;
    }
  }
  if (!call.constants.empty() && !take_constants(call, pointers)) return false;
  for (size_t i = count; i < all; ++i, layout += 2 * rank_of(*expected), ++expected) {
    const DLTensor* t = *outputs++;
    if (t == nullptr || !is_exact(*t, *expected, layout, misaligned)) return false;
    if (overlaps(t->data, expected->bytes, pointers, call, i)) return false;
    pointers[i] = t->data;
  }
  return true;
}

// The shortest way of a call: tensors that fit, and a run that is one function. Whether the call
// was run. (Inline in spite of its length: in a frame of its own it would save all registers
// twice.)
[[gnu::always_inline]] inline bool run_at_once(const CallPlan& call, const DLTensor* const* inputs,
                                               size_t input_count, DLTensor* const* outputs,
                                               size_t output_count) noexcept {
  void* pointers[CallPlan::kMost];
  if (input_count != call.inputs || output_count != call.outputs || call.function == nullptr ||
      call.looks_at_values || !take_pointers(call, inputs, outputs, pointers)) {
    return false;
  }
  run_function(call, pointers);
  return true;
}

// The short way of any call: the executable fits the tensors, and nothing but a stream is asked for
// beside the results. Whether the call was run. Throws Failure.
bool run_directly(const Executable& e, const DLTensor* const* inputs, size_t input_count,
                  DLTensor* const* outputs, size_t output_count, const tile_run_options& asked);

}  // namespace tile::api
