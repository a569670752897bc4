#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>

#include "runtime/api/handles.h"
#include "runtime/engine/dlpack_types.h"
#include "runtime/engine/engine.h"

namespace tile::api {
namespace {

constexpr int kRankLimit = 64;

std::string text_of(Argument argument) {
  return std::string(argument.kind) + " " + std::to_string(argument.number);
}

DType dtype_of(const DLDataType& type, Argument argument) {
  if (std::optional<DType> known = tile::dtype_of(type)) return *known;
  fail(Stage::run, "argument", {},
       text_of(argument) + " has an element type that is not supported (DLPack code " +
           std::to_string(type.code) + ", " + std::to_string(type.bits) + " bits, " +
           std::to_string(type.lanes) + " lanes)");
}

// Dense strides are left out, whatever the strides of dimensions of extent one say.
std::vector<int64_t> canonical_strides(const DLTensor& t) {
  if (t.strides == nullptr) return {};
  int64_t expected = 1;
  bool dense = true, empty = false;
  for (int d = 0; d < t.ndim; ++d) empty = empty || t.shape[d] == 0;
  for (int d = t.ndim; d-- > 0;) {
    dense = dense && (t.shape[d] == 1 || t.strides[d] == expected);
    expected = checked_mul(expected, t.shape[d]);
  }
  if (dense || empty) return {};
  std::vector<int64_t> strides(t.strides, t.strides + t.ndim);
  for (int d = 0; d < t.ndim; ++d) {
    if (t.shape[d] == 1) strides[static_cast<size_t>(d)] = 0;
  }
  return strides;
}

}  // namespace

TensorView view_of(const DLTensor* tensor, Argument argument, bool needs_data) {
  auto bad = [&](const char* why) {
    fail(Stage::run, "argument", {}, text_of(argument) + " " + why);
  };
  if (tensor == nullptr) bad("is NULL");
  Memory memory = Memory::host;
  if (tensor->device.device_type == kDLCUDA || tensor->device.device_type == kDLCUDAManaged) {
    memory = Memory::device;
  } else if (tensor->device.device_type != kDLCPU && tensor->device.device_type != kDLCUDAHost) {
    bad("is neither in host memory nor on a CUDA device");
  }
  if (tensor->ndim < 0 || tensor->ndim > kRankLimit) bad("has a rank outside [0, 64]");
  if (tensor->ndim > 0 && tensor->shape == nullptr) bad("has no shape");
  TensorView view;
  view.memory = memory;
  view.device = memory == Memory::device ? tensor->device.device_id : 0;
  view.type = dtype_of(tensor->dtype, argument);
  view.shape.assign(tensor->shape, tensor->shape + tensor->ndim);
  for (int64_t extent : view.shape) {
    if (extent < 0) bad("has a negative extent");
  }
  try {
    int64_t bytes =
        checked_mul(element_count(view.shape), static_cast<int64_t>(byte_size(view.type)));
    if (bytes > 0 && needs_data && tensor->data == nullptr) bad("has a null data pointer");
    view.strides = canonical_strides(*tensor);
  } catch (const Overflow&) {
    bad("has more bytes than 64-bit addresses reach");
  }
  if (tensor->data != nullptr) {
    view.data = static_cast<std::byte*>(tensor->data) + tensor->byte_offset;
  }
  return view;
}

namespace {

// Device, rank and type stand side by side in a DLTensor and in the plan, and are compared at once.
constexpr size_t kSideBySide = sizeof(DLDevice) + sizeof(int32_t) + sizeof(DLDataType);
static_assert(offsetof(DLTensor, shape) - offsetof(DLTensor, device) == kSideBySide);
static_assert(offsetof(CallPlan::Tensor, bytes) - offsetof(CallPlan::Tensor, device) ==
              kSideBySide);

// Whether strides are those of dense elements, whatever they are in dimensions of extent one.
bool are_dense(const int64_t* strides, const int64_t* shape, int rank) {
  int64_t elements = 1;
  for (int d = rank; d-- > 0;) {
    if (strides[d] != elements && shape[d] != 1) return false;
    elements *= shape[d];  // fits: the executable was compiled for it
  }
  return true;
}

// Whether the tensor is where the engine runs, dense and exactly as planned; `shape` is that of the
// plan, and goes on to the next tensor's.
inline bool is_exact(const DLTensor* t, const CallPlan::Tensor& expected, uintptr_t misaligned,
                     const int64_t*& shape) {
  if (t == nullptr || std::memcmp(&t->device, &expected.device, kSideBySide) != 0) return false;
  auto address = reinterpret_cast<uintptr_t>(t->data);
  if (address == 0 || ((address & misaligned) | t->byte_offset) != 0) return false;
  const int64_t *given = t->shape, *begin = shape, *end = shape + expected.ndim;
  for (; shape != end; ++shape, ++given) {
    if (*given != *shape) return false;
  }
  return t->strides == nullptr || are_dense(t->strides, begin, expected.ndim);
}

bool is_constant(const CallPlan& call, size_t input) {
  return std::any_of(call.constants.begin(), call.constants.end(),
                     [&](const CallPlan::Constant& c) { return c.input == input; });
}

// Whether `bytes` from `data` share some with one of the first `count` tensors.
bool overlaps(const void* data, size_t bytes, void* const* tensors, const CallPlan& call,
              size_t count) {
  auto begin = reinterpret_cast<uintptr_t>(data);
  for (size_t i = 0; i < count; ++i) {
    auto other = reinterpret_cast<uintptr_t>(tensors[i]);
    if (begin < other + call.tensors[i].bytes && other < begin + bytes) return true;
  }
  return false;
}

}  // namespace

bool take_pointers(const CallPlan& call, const DLTensor* const* inputs, DLTensor* const* outputs,
                   void** pointers) {
  if (inputs == nullptr || outputs == nullptr) return false;
  const CallPlan::Tensor* expected = call.tensors.data();
  const int64_t* shape = call.shapes.data();
  const uintptr_t misaligned = call.misaligned;
  for (size_t i = 0; i < call.inputs; ++i, ++expected) {
    if (is_exact(inputs[i], *expected, misaligned, shape)) {
      pointers[i] = inputs[i]->data;
      continue;
    }
    if (inputs[i] != nullptr || !is_constant(call, i)) return false;
    pointers[i] = nullptr;
    shape += expected->ndim;
  }
  for (const CallPlan::Constant& c : call.constants) {
    if (pointers[c.input] != nullptr && pointers[c.input] != c.given) return false;
    pointers[c.input] = c.copy;
  }
  for (size_t i = 0; i < call.outputs; ++i, ++expected) {
    if (!is_exact(outputs[i], *expected, misaligned, shape)) return false;
    void* data = outputs[i]->data;
    if (overlaps(data, expected->bytes, pointers, call, call.inputs + i)) return false;
    pointers[call.inputs + i] = data;
  }
  return true;
}

TensorView view_of(const HostTensor& tensor) {
  TensorView view;
  // The view type has no const.
  view.data = const_cast<std::byte*>(tensor.bytes.data());
  view.type = tensor.type;
  view.shape = tensor.shape;
  return view;
}

}  // namespace tile::api
