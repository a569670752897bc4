#include <limits>

#include "runtime/api/handles.h"
#include "runtime/engine/engine.h"

namespace tile::api {
namespace {

constexpr int kRankLimit = 64;

std::string text_of(Argument argument) {
  return std::string(argument.kind) + " " + std::to_string(argument.number);
}

DType dtype_of(DLDataType type, Argument argument) {
  struct Row {
    uint8_t code, bits;
    DType type;
  };
  constexpr Row kRows[] = {
      {kDLBool, 8, DType::bool_}, {kDLInt, 8, DType::i8},       {kDLInt, 16, DType::i16},
      {kDLInt, 32, DType::i32},   {kDLInt, 64, DType::i64},     {kDLUInt, 8, DType::u8},
      {kDLUInt, 16, DType::u16},  {kDLUInt, 32, DType::u32},    {kDLUInt, 64, DType::u64},
      {kDLFloat, 16, DType::f16}, {kDLBfloat, 16, DType::bf16}, {kDLFloat, 32, DType::f32},
      {kDLFloat, 64, DType::f64}};
  for (const Row& row : kRows) {
    if (row.code == type.code && row.bits == type.bits && type.lanes == 1) return row.type;
  }
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

// Where an engine's runs use tensors in place.
DLDevice device_of(const Engine& engine) {
  if (engine.session() == nullptr) return {kDLCPU, 0};
  return {kDLCUDA, engine.ordinal()};
}

// The bytes of a dense tensor on the device that is exactly `expected`; 0 for anything else, an
// empty one too.
size_t exact_bytes(const DLTensor* t, const BoundTensor& expected, const DLDevice& device) {
  if (t == nullptr || t->device.device_type != device.device_type ||
      t->device.device_id != device.device_id || t->data == nullptr || t->byte_offset != 0) {
    return 0;
  }
  constexpr uintptr_t kDeviceAlignment = 16;
  bool misaligned = reinterpret_cast<uintptr_t>(t->data) % kDeviceAlignment != 0;
  if (device.device_type == kDLCUDA && misaligned) return 0;
  DLDataType type = dl_type(expected.type);
  size_t rank = expected.shape.size();
  if (t->dtype.code != type.code || t->dtype.bits != type.bits || t->dtype.lanes != 1 ||
      t->ndim != static_cast<int32_t>(rank)) {
    return 0;
  }
  int64_t elements = 1;
  for (size_t d = rank; d-- > 0;) {
    if (t->shape[d] != expected.shape[d]) return 0;
    if (t->strides != nullptr && t->strides[d] != elements && t->shape[d] != 1) return 0;
    elements *= t->shape[d];  // fits: the executable was compiled for it
  }
  return static_cast<size_t>(elements) * byte_size(expected.type);
}

}  // namespace

bool take_pointers(const Executable& e, const DLTensor* const* inputs, size_t input_count,
                   DLTensor* const* outputs, size_t output_count, CallPointers& pointers) {
  constexpr size_t kMost = CallPointers::kMost;
  if (!e.direct || input_count != e.bound.inputs.size() || output_count != e.bound.outputs.size() ||
      input_count > kMost || output_count > kMost || (input_count != 0 && inputs == nullptr) ||
      outputs == nullptr) {
    return false;
  }
  const DLDevice device = device_of(*e.engine);
  const std::byte* input_ends[kMost];
  for (size_t i = 0; i < input_count; ++i) {
    const BoundTensor& expected = e.bound.tensors[static_cast<size_t>(e.bound.inputs[i])];
    size_t bytes = exact_bytes(inputs[i], expected, device);
    if (bytes == 0) return false;
    pointers.inputs[i] = inputs[i]->data;
    input_ends[i] = static_cast<const std::byte*>(inputs[i]->data) + bytes;
  }
  for (size_t i = 0; i < output_count; ++i) {
    size_t bytes = exact_bytes(outputs[i], e.output(i), device);
    if (bytes == 0) return false;
    pointers.outputs[i] = outputs[i]->data;
    const auto* begin = static_cast<const std::byte*>(outputs[i]->data);
    const std::byte* end = begin + bytes;
    for (size_t j = 0; j < input_count; ++j) {
      if (begin < input_ends[j] && pointers.inputs[j] < end) return false;
    }
    for (size_t j = 0; j < i; ++j) {
      const auto* other = static_cast<const std::byte*>(pointers.outputs[j]);
      size_t other_bytes = exact_bytes(outputs[j], e.output(j), device);
      if (begin < other + other_bytes && other < end) return false;
    }
  }
  return true;
}

DLDataType dl_type(DType type) {
  uint8_t code = type == DType::bool_        ? kDLBool
                 : type == DType::bf16       ? kDLBfloat
                 : is_float(type)            ? kDLFloat
                 : is_unsigned_integer(type) ? kDLUInt
                                             : kDLInt;
  return {code, static_cast<uint8_t>(bit_width(type)), 1};
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
