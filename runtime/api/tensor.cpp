#include <cstddef>

#include "core/support/rank_limit.h"
#include "runtime/api/handles.h"
#include "runtime/engine/constants.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/launch/dlpack_types.h"

namespace tile::api {
namespace {

DType dtype_of(const DLDataType& type, const Argument& argument) {
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
  for (size_t d = 0; d < strides.size(); ++d) {
    if (t.shape[d] == 1) strides[d] = 0;
  }
  return strides;
}

}  // namespace

TensorView view_of(const DLTensor* tensor, const Argument& argument, bool needs_data) {
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
  if (tensor->ndim < 0 || tensor->ndim > static_cast<int>(kMostDimensions))
    bad("has a rank outside [0, 64]");
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

// `constant`: whether an input may be left out as one; `input`: of a number.
template <class Constant, class Input>
std::vector<TensorView> views_of_inputs(const InputDefaults& defaults,
                                        const DLTensor* const* tensors, size_t count,
                                        bool needs_data, const Constant& constant,
                                        const Input& input) {
  if (count != 0 && tensors == nullptr) fail(Stage::run, "argument", {}, "inputs is NULL");
  size_t missing = count;
  while (missing < defaults.size() && (defaults[missing].has_value() || constant(missing))) {
    ++missing;
  }
  if (count > defaults.size() || missing < defaults.size()) {
    std::vector<std::string> names;
    for (size_t i = 0; i < defaults.size(); ++i) names.emplace_back(input(i).name);
    refuse_count("input", names, count, missing);
  }
  std::vector<TensorView> list;
  list.reserve(defaults.size());
  for (size_t i = 0; i < defaults.size(); ++i) {
    bool given = i < count && tensors[i] != nullptr;
    if (!given && constant(i)) {
      list.emplace_back();
    } else if (!given && defaults[i]) {
      list.push_back(view_of(*defaults[i]));
    } else {
      list.push_back(view_of(tensors[i], input(i), needs_data));
    }
  }
  return list;
}

}  // namespace

std::vector<TensorView> input_views(const Program& program, const InputDefaults& defaults,
                                    const DLTensor* const* tensors, size_t count, bool needs_data) {
  return views_of_inputs(
      defaults, tensors, count, needs_data, [](size_t) { return false; },
      [&](size_t i) { return input_of(program, i); });
}

std::vector<TensorView> input_views(const Executable& e, const DLTensor* const* tensors,
                                    size_t count) {
  return views_of_inputs(
      e.defaults, tensors, count, true, [&](size_t i) { return constant_at(e, i) != nullptr; },
      [&](size_t i) { return input_of(e.bound, i); });
}

std::vector<TensorView> output_views(const Executable& e, DLTensor* const* tensors, size_t count) {
  if (count != 0 && tensors == nullptr) fail(Stage::run, "argument", {}, "outputs is NULL");
  std::vector<TensorView> list;
  list.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    bool known = i < e.bound.outputs.size();
    list.push_back(
        view_of(tensors[i], {"output", i, known ? e.output(i).name : std::string_view()}, true));
  }
  return list;
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
