#include "runtime/api/call_site.h"

#include <algorithm>
#include <span>

#include "runtime/engine/device_run.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/host_run.h"

namespace tile::api {
namespace {

// Whether strides are those of dense elements, whatever they are in dimensions of extent one.
bool are_dense(const int64_t* strides, const int64_t* shape, int rank) {
  int64_t elements = 1;
  for (int d = rank; d-- > 0;) {
    if (strides[d] != elements && shape[d] != 1) return false;
    elements *= shape[d];  // fits: the executable was compiled for it
  }
  return true;
}

// Whether parameters that set sizes have the values that the executable is for.
bool has_sizes(const Executable& e, void* const* pointers) {
  return std::all_of(e.call.sizing.begin(), e.call.sizing.end(), [&](size_t i) {
    const InputType& type = e.inputs[i].type;
    return load_element(static_cast<const std::byte*>(pointers[i]), type.type).i == *type.value;
  });
}

}  // namespace

bool is_exact_and_dense(const DLTensor& t, const CallPlan::Tensor& expected, const int64_t* shape,
                        uintptr_t misaligned) {
  if (difference(SideBySide(t), SideBySide(expected)) != 0) return false;
  auto address = reinterpret_cast<uintptr_t>(t.data);
  if (address == 0 || ((address & misaligned) | t.byte_offset) != 0) return false;
  if (expected.ndim == 0) return true;
  if (t.shape == nullptr || !same_extents(t.shape, shape, rank_of(expected))) return false;
  return t.strides == nullptr || are_dense(t.strides, shape, expected.ndim);
}

bool is_constant(const CallPlan& call, size_t input) {
  return std::any_of(call.constants.begin(), call.constants.end(),
                     [&](const CallPlan::Constant& c) { return c.input == input; });
}

bool take_constants(const CallPlan& call, void** pointers) {
  for (const CallPlan::Constant& c : call.constants) {
    if (pointers[c.input] != nullptr && pointers[c.input] != c.given) return false;
    pointers[c.input] = c.copy;
  }
  return true;
}

bool run_directly(const Executable& e, const DLTensor* const* inputs, size_t input_count,
                  DLTensor* const* outputs, size_t output_count, const tile_run_options& asked) {
  const CallPlan& call = e.call;
  void* pointers[CallPlan::kMost];
  if (asked.cancel != nullptr || input_count != call.inputs || output_count != call.outputs ||
      !take_pointers(call, inputs, outputs, pointers)) {
    return false;
  }
  bool on_device = e.engine->session() != nullptr;
  if (on_device ? !call.sizing.empty() : !has_sizes(e, pointers)) return false;
  if (call.function != nullptr) {
    run_function(call, pointers);
    return true;
  }
  RunOptions options;
  options.stream = asked.stream;
  if (on_device) {
    std::span<void* const> all(pointers, input_count + output_count);
    run_in_place(e, all.first(input_count), all.subspan(input_count), options);
  } else {
    run_on_host(e, pointers, options);
  }
  return true;
}

}  // namespace tile::api
