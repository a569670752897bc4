#include <algorithm>
#include <limits>

#include "core/interpret/interpret.h"
#include "runtime/engine/constants.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/launch/device_run.h"
#include "runtime/engine/launch/host_memory.h"
#include "runtime/engine/launch/host_run.h"
#include "runtime/engine/launch/memory_plan.h"
#include "runtime/engine/launch/pointer_array.h"
#include "runtime/engine/launch/strided_copy.h"
#include "runtime/engine/parameter_ranges.h"

namespace tile {
namespace {

constexpr size_t kInterpreted = size_t{1} << 30;  // bytes that the interpreter may take

void run_reference(const Executable& e, std::span<const TensorView> inputs,
                   std::span<const TensorView> outputs, const RunOptions& options) {
  std::vector<HostTensor> given;
  for (const TensorView& view : inputs) {
    HostTensor t(view.type, view.shape);
    if (!t.bytes.empty()) copy_to_dense(view, t.bytes.data());
    given.push_back(std::move(t));
  }
  Controlled now(options.control);
  InterpretOptions limits;
  limits.point_limit = e.engine->options().limits.points;
  limits.byte_limit = static_cast<int64_t>(std::clamp<size_t>(
      e.engine->options().memory_limit, kInterpreted, std::numeric_limits<int64_t>::max()));
  Interpretation result = interpret(e.bound, given, limits);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!result.outputs[i].bytes.empty())
      copy_from_dense(result.outputs[i].bytes.data(), outputs[i]);
  }
}

void run_launches(const Executable& e, std::span<const TensorView> inputs,
                  std::span<const TensorView> outputs, const RunOptions& options) {
  size_t count = inputs.size();
  PointerArray tensors(count + outputs.size());
  for (size_t i = 0; i < count; ++i) tensors[i] = inputs[i].data;
  for (size_t i = 0; i < outputs.size(); ++i) tensors[count + i] = outputs[i].data;
  run_on_host(e, tensors.all().data(), options);
}

// The inputs with the copies of those that are constant.
std::vector<TensorView> with_copies(const Executable& e, std::span<const TensorView> inputs) {
  std::vector<TensorView> all(inputs.begin(), inputs.end());
  for (const ConstantInput& c : e.constants) all[c.input] = c.copy;
  return all;
}

void look_at_parameters(const Executable& e, std::span<const TensorView> inputs) {
  if (e.constants.empty()) return e.ranges->look_at(*e.engine, inputs);
  e.ranges->look_at(*e.engine, with_copies(e, inputs));
}

// Whether launches write output `o` where it is.
bool is_written_in_place(const Executable& e, size_t o, const TensorView& output) {
  bool strided = o < e.output_strides.size();
  return strided ? output.strides == e.output_strides[o] : output.strides.empty();
}

// As run_plainly(), of views.
bool run_views_plainly(const CallPlan& call, std::span<const TensorView> inputs,
                       std::span<const TensorView> outputs) {
  if (call.function == nullptr) return false;
  for (const TensorView& t : outputs) {
    if (!t.strides.empty()) return false;
  }
  void* pointers[CallPlan::kMost];
  void** next = pointers;
  for (uint32_t tensor : call.order) {
    bool input = tensor < inputs.size();
    *next++ = input ? inputs[tensor].data : outputs[tensor - inputs.size()].data;
  }
  call.function(pointers, call.parameters.data(), nullptr, nullptr, 0, 1);
  return true;
}

// Outputs that launches do not write where they are get dense memory for the run.
void run_with_staged_outputs(const Executable& e, std::span<const TensorView> inputs,
                             std::span<const TensorView> outputs, const RunOptions& options) {
  std::vector<size_t> apart;
  size_t bytes = 0;
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (is_written_in_place(e, o, outputs[o])) continue;
    internal_check(o >= e.output_strides.size() || e.output_strides[o].empty(),
                   "run: an output with other strides than compiled for");
    apart.push_back(o);
    bytes += byte_count(outputs[o]);
  }
  if (apart.empty()) return run_launches(e, inputs, outputs, options);
  check_memory_limit(e, Stage::run, bytes);
  std::vector<HostMemory> staged;
  std::vector<TensorView> views(outputs.begin(), outputs.end());
  for (size_t o : apart) {
    staged.emplace_back(*e.engine, byte_count(views[o]));
    views[o].data = staged.back().data();
    views[o].strides.clear();
  }
  run_launches(e, inputs, views, options);
  for (size_t i = 0; i < apart.size(); ++i) {
    const TensorView& output = outputs[apart[i]];
    if (byte_count(output) != 0) copy_from_dense(staged[i].data(), output);
  }
}

}  // namespace

void run(const Executable& e, std::span<const TensorView> inputs,
         std::span<const TensorView> outputs, const RunOptions& options) {
  if (e.ranges) look_at_parameters(e, inputs);
  bool plain = options.control == nullptr && options.profile == nullptr;
  if (plain && run_views_plainly(e.call, inputs, outputs)) return;
  std::vector<TensorView> copies;
  if (!e.constants.empty()) {
    copies = with_copies(e, inputs);
    inputs = copies;
  }
  if (e.engine->is_reference()) {
    run_reference(e, inputs, outputs, options);
    return;
  }
  if (is_gpu(e.engine->target())) {
    if (e.engine->session() == nullptr) {
      fail(Stage::run, "target", {}, "this engine makes code for another GPU and runs nothing",
           "leave its features empty to run on the GPU of this machine");
    }
    run_on_device(e, inputs, outputs, options);
    return;
  }
  run_with_staged_outputs(e, inputs, outputs, options);
}

}  // namespace tile
