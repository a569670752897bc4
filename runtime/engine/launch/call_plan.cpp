#include "runtime/engine/launch/call_plan.h"

#include <algorithm>

#include "backends/trace.h"
#include "runtime/engine/constants.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/launch/dlpack_types.h"

namespace tile {
namespace {

constexpr uintptr_t kDeviceAlignment = 16;

void add_tensor(CallPlan& plan, const BoundTensor& t, const DLDevice& device) {
  size_t bytes = static_cast<size_t>(element_count(t.shape)) * byte_size(t.type);
  plan.tensors.push_back({device, static_cast<int32_t>(t.shape.size()), dl_type(t.type), bytes});
  plan.layouts.insert(plan.layouts.end(), t.shape.begin(), t.shape.end());
  // Those of no elements may be more than a number holds, and no call is compared with them.
  std::vector<int64_t> strides(t.shape.size());
  if (bytes != 0) strides = dense_strides(t.shape);
  plan.layouts.insert(plan.layouts.end(), strides.begin(), strides.end());
}

}  // namespace

CallPlan::Argument argument_of(const Executable& e, TensorId id) {
  using Base = CallPlan::Argument::Base;
  const Place& place = e.places[id];
  switch (place.kind) {
    case Place::Kind::input:
      if (const ConstantInput* c = constant_at(e, place.at); c != nullptr && c->host) {
        return {Base::constant, reinterpret_cast<uintptr_t>(c->copy.data)};
      }
      return {Base::given, place.at};
    case Place::Kind::output:
      return {Base::given, e.inputs.size() + place.at};
    case Place::Kind::constant:
      return {Base::constant,
              reinterpret_cast<uintptr_t>(e.program.tensors[place.at].constant->data())};
    default:
      return {Base::arena, place.at};
  }
}

namespace {

void begin_at(CallPlan::Argument& argument, size_t bytes) {
  bool given = argument.base == CallPlan::Argument::Base::given;
  (given ? argument.begin : argument.at) += bytes;
}

// Whether dense tensors where the engine runs need nothing but their pointers.
bool takes_pointers(const Executable& e, const CallPlan& plan) {
  const Engine& engine = *e.engine;
  bool elsewhere = engine.session() == nullptr && is_gpu(engine.target());
  bool empty = std::any_of(plan.tensors.begin(), plan.tensors.end(),
                           [](const CallPlan::Tensor& t) { return t.bytes == 0; });
  bool dense = std::all_of(e.inputs.begin(), e.inputs.end(),
                           [](const InputLayout& i) { return i.strides.empty(); });
  return dense && !empty && !elsewhere && !engine.options().cancels_runs() &&
         plan.tensors.size() <= CallPlan::kMost;
}

bool is_in_order(const std::vector<uint32_t>& numbers) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] != i) return false;
  }
  return true;
}

void take_function(CallPlan& plan, const Executable& e) {
  // A trace has every launch, and runs that are counted are no plain calls.
  if (trace::is_on() || e.own_code_later || e.launches.size() != 1 || !e.launches[0].code ||
      !e.copies.empty() || !e.densified.empty() || plan.arguments.size() > CallPlan::kMost) {
    return;
  }
  for (const CallPlan::Argument& a : plan.arguments) {
    if (a.base != CallPlan::Argument::Base::given || a.begin != 0) return;
    plan.order.push_back(static_cast<uint32_t>(a.at));
  }
  plan.in_order = is_in_order(plan.order);
  plan.function = e.launches[0].code->plain_function();
  plan.parameters = e.launches[0].parameters;
}

}  // namespace

void run_reordered(const CallPlan& call, void* const* tensors) {
  void* ordered[CallPlan::kMost];
  void** next = ordered;
  for (uint32_t tensor : call.order) *next++ = tensors[tensor];
  call.function(ordered, call.parameters.data(), nullptr, nullptr, 0, 1);
}

CallPlan call_plan(const Executable& e) {
  CallPlan plan;
  const DLDevice device = device_of(*e.engine);
  if (device.device_type == kDLCUDA) plan.misaligned = kDeviceAlignment - 1;
  for (TensorId id : e.bound.inputs) {
    add_tensor(plan, e.bound.tensors[id], device);
  }
  for (size_t i = 0; i < e.bound.outputs.size(); ++i) add_tensor(plan, e.output(i), device);
  for (size_t i = 0; i < e.inputs.size(); ++i) {
    if (e.inputs[i].type.value) plan.sizing.push_back(i);
  }
  plan.looks_at_values = !plan.sizing.empty() || e.ranges != nullptr;
  for (const ConstantInput& c : e.constants) {
    plan.constants.push_back({c.input, c.given, c.copy.data});
  }
  for (const Launch& launch : e.launches) {
    for (size_t i = 0; i < launch.arguments.size(); ++i) {
      plan.arguments.push_back(argument_of(e, launch.arguments[i]));
      if (!launch.begins.empty()) begin_at(plan.arguments.back(), launch.begins[i]);
    }
    for (const PrepackedCopy& p : launch.prepared) {
      plan.arguments.push_back(
          {CallPlan::Argument::Base::constant, reinterpret_cast<uintptr_t>(p.copy->data())});
    }
  }
  take_function(plan, e);
  if (takes_pointers(e, plan)) {
    plan.inputs = e.inputs.size();
    plan.outputs = e.bound.outputs.size();
  }
  return plan;
}

}  // namespace tile
