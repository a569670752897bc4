// The short way of a call: its tensors are compared with what the executable was compiled for, and
// its code is called. Inline, as the comparison of a small call's tensors is most of what the call
// costs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "runtime/engine/call_plan.h"
#include "tile/tile.h"

namespace tile::api {

// What takes longer, out of the way of the rest.

// Whether the tensor is where the engine runs, dense (whatever its strides are in dimensions of
// extent one) and exactly as planned.
bool is_exact_and_dense(const DLTensor& t, const CallPlan::Tensor& expected, const int64_t* shape,
                        uintptr_t misaligned);
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

// Whether two shapes of this rank, which is not zero, are the same: from both ends inwards, so that
// few ranks need a loop.
inline bool same_extents(const int64_t* a, const int64_t* b, size_t rank) {
  size_t last = rank - 1;
  if (((a[0] ^ b[0]) | (a[last] ^ b[last])) != 0) return false;
  if (rank <= 2) return true;
  if (((a[1] ^ b[1]) | (a[last - 1] ^ b[last - 1])) != 0) return false;
  for (size_t d = 2; d + 2 < rank; ++d) {
    if (a[d] != b[d]) return false;
  }
  return true;
}

// As is_exact_and_dense(). What is zero of a dense tensor without strides is tested at once.
inline bool is_exact(const DLTensor& t, const CallPlan::Tensor& expected, const int64_t* shape,
                     uintptr_t misaligned) {
  auto address = reinterpret_cast<uintptr_t>(t.data);
  uint64_t unlike = difference(SideBySide(t), SideBySide(expected));
  unlike |= (address & misaligned) | t.byte_offset | reinterpret_cast<uintptr_t>(t.strides);
  if (unlike != 0 || rank_of(expected) == 0) {
    return is_exact_and_dense(t, expected, shape, misaligned);
  }
  return address != 0 && t.shape != nullptr && same_extents(t.shape, shape, rank_of(expected));
}

// Whether `bytes` from `data` share some with one of the first `count` tensors.
inline bool overlaps(const void* data, size_t bytes, void* const* tensors, const CallPlan& call,
                     size_t count) {
  auto begin = reinterpret_cast<uintptr_t>(data);
  const CallPlan::Tensor* planned = call.tensors.data();
  for (size_t i = 0; i < count; ++i) {
    auto other = reinterpret_cast<uintptr_t>(tensors[i]);
    if (begin < other + planned[i].bytes && other < begin + bytes) return true;
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
  const int64_t* shape = call.shapes.data();
  const uintptr_t misaligned = call.misaligned;
  const size_t count = call.inputs, all = count + call.outputs;
  for (size_t i = 0; i < count; ++i, shape += rank_of(*expected), ++expected) {
    const DLTensor* t = inputs[i];
    if (t != nullptr) {
      if (!is_exact(*t, *expected, shape, misaligned)) return false;
      pointers[i] = t->data;
    } else {
      if (!is_constant(call, i)) return false;
      pointers[i] = nullptr;
    }
  }
  if (!call.constants.empty() && !take_constants(call, pointers)) return false;
  for (size_t i = count; i < all; ++i, shape += rank_of(*expected), ++expected) {
    const DLTensor* t = *outputs++;
    if (t == nullptr || !is_exact(*t, *expected, shape, misaligned)) return false;
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
      !call.sizing.empty() || !take_pointers(call, inputs, outputs, pointers)) {
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
