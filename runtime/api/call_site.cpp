#include "runtime/api/call_site.h"

#include <algorithm>
#include <span>

#include "runtime/api/options.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/launch/device_run.h"
#include "runtime/engine/launch/host_run.h"
#include "runtime/engine/parameter_ranges.h"

namespace tile::api {
namespace {

// Whether parameters that set sizes have the values that the executable is for.
bool has_sizes(const Executable& e, void* const* pointers) {
  return std::all_of(e.call.sizing.begin(), e.call.sizing.end(), [&](size_t i) {
    const InputType& type = e.inputs[i].type;
    return load_element(static_cast<const std::byte*>(pointers[i]), type.type).i == *type.value;
  });
}

}  // namespace

bool are_dense(const int64_t* strides, const int64_t* layout, size_t rank) {
  const int64_t *shape = layout, *dense = layout + rank;
  if (same_numbers(strides, dense, rank)) return true;
  for (size_t d = 0; d < rank; ++d) {
    if (strides[d] != dense[d] && shape[d] != 1) return false;
  }
  return true;
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
  if (e.ranges && !on_device && e.ranges->has_news(pointers)) return false;
  if (on_device ? !call.sizing.empty() : !has_sizes(e, pointers)) return false;
  if (call.function != nullptr) {
    run_function(call, pointers);
    return true;
  }
  RunOptions options;
  options.stream = asked.stream;
  options.memory = workspace_of(e, asked);
  if (on_device) {
    std::span<void* const> all(pointers, input_count + output_count);
    run_in_place(e, all.first(input_count), all.subspan(input_count), options);
  } else {
    run_on_host(e, pointers, options);
  }
  return true;
}

}  // namespace tile::api
