// What every run of an executable would look up again, settled once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/backend.h"
#include "core/ir/bound.h"
#include "tile/dlpack.h"

namespace tile {

struct Executable;

// Plain data without pointers into itself: executables are copied. A run of pointers follows it
// where `inputs` and `outputs` are what a caller gives; with other needs they are what nobody
// gives.
struct CallPlan {
  static constexpr size_t kMost = 16;  // tensors of such a call, or arguments
  static constexpr size_t kNever = SIZE_MAX;
  size_t inputs = kNever, outputs = kNever;
  uintptr_t misaligned = 0;  // bits of an address that must not be set
  // A dense input or output as a caller must give it: fields of a DLTensor, then what they imply.
  struct Tensor {
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    size_t bytes;
  };
  std::vector<Tensor> tensors;  // the inputs, then the outputs
  // Of all of them, one after the other: the extents, then the strides of dense elements.
  std::vector<int64_t> layouts;
  // Inputs declared constant, which a caller may leave out: where theirs is, and the copy.
  struct Constant {
    size_t input;
    const void* given;
    void* copy;
  };
  std::vector<Constant> constants;
  std::vector<size_t> sizing;    // inputs whose values sizes are made of
  bool looks_at_values = false;  // those, or others that have a range

  // A run is a call of this function with these given tensors, and these parameters of the launch.
  Code::Function function = nullptr;
  bool in_order = false;  // the tensors are the first ones of those given
  std::vector<uint32_t> order;
  std::vector<int64_t> parameters;

  // One argument of a launch on the host: the number of a given tensor, an offset in the arena, or
  // the address of a constant's elements.
  struct Argument {
    enum class Base : uint8_t { given, arena, constant } base;
    uintptr_t at;
    size_t begin = 0;  // bytes from the beginning of a given tensor
  };
  std::vector<Argument> arguments;  // of the launches, one launch after the other
};

// Calls the function, whose tensors are not all in order, with tensors as for run_on_host().
void run_reordered(const CallPlan& call, void* const* tensors);

// Calls the function with tensors as for run_on_host().
inline void run_function(const CallPlan& call, void* const* tensors) {
  if (!call.in_order) return run_reordered(call, tensors);
  call.function(tensors, call.parameters.data(), nullptr, nullptr, 0, 1);
}

// Of an executable whose launches and places are final.
CallPlan call_plan(const Executable& executable);
CallPlan::Argument argument_of(const Executable& executable, TensorId id);

}  // namespace tile
