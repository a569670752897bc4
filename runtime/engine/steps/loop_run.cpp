#include "runtime/engine/steps/loop_run.h"

#include <algorithm>

#include "backends/trace.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/launch/device_run.h"
#include "runtime/engine/launch/host_run.h"
#include "runtime/engine/launch/pointer_array.h"
#include "runtime/engine/steps/trips.h"

namespace tile {
namespace {

// A device's memory is aligned so.
constexpr size_t kAlignment = 256;

size_t state_bytes(const Executable& step) {
  const BoundTensor& t = step.output(0);
  size_t bytes = static_cast<size_t>(element_count(t.shape)) * byte_size(t.type);
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// What a stream has been given is not taken back: it gets one step at a time.
void ask(const Executable& step, const RunOptions& options) {
  if (options.control == nullptr) return;
  if (DeviceSession* session = step.engine->session()) session->synchronize(options.stream);
  if (options.control->is_over()) throw options.control->reason({});
}

}  // namespace

size_t loop_workspace(const StepLoop& loop) {
  size_t second = loop.trips > 1 ? state_bytes(*loop.step) : 0;
  return second + loop.step->arena_bytes + loop.step->workspace_bytes;
}

bool fits_loop(const StepLoop& loop, size_t bytes) {
  const Executable& step = *loop.step;
  for (size_t part : {step.arena_bytes, step.workspace_bytes}) {
    if (part > bytes) return false;
    bytes -= part;
  }
  return loop.trips == 1 || state_bytes(step) <= bytes;
}

namespace {

// Of a step on the CPU.
void run_with_blocks(const StepLoop& loop, std::span<void* const> pointers, std::byte* workspace,
                     const RunOptions& options) {
  const Executable& step = *loop.step;
  RunOptions own;
  own.control = options.control;
  own.memory = workspace + (loop.trips > 1 ? state_bytes(step) : 0);
  const Feed feed{0, 0};
  void* const other = workspace;
  size_t inputs = pointers.size() - 1;
  std::vector<GivenInTime> given =
      given_in_time(pointers, inputs, {&feed, 1}, {&other, 1}, loop.trips);
  PointerArray tensors(pointers.size());
  auto plain = [&](int64_t first, int64_t count) {
    for (int64_t trip = first; trip < first + count; ++trip) {
      for (size_t i = 0; i < given.size(); ++i) tensors[i] = given[i].at(trip);
      run_on_host(step, tensors.all().data(), own);
      if (trip + 1 < loop.trips) ask(step, options);
    }
  };
  run_trips({step, *loop.blocks, given, own.memory, options.control, plain}, 0, loop.trips);
}

}  // namespace

void run_loop(const StepLoop& loop, std::span<void* const> pointers, std::byte* workspace,
              const RunOptions& options) {
  const Executable& step = *loop.step;
  if (loop.blocks) return run_with_blocks(loop, pointers, workspace, options);
  PointerArray tensors(pointers.size());
  std::copy(pointers.begin(), pointers.end(), tensors.all().begin());
  std::span<void*> inputs = tensors.all().first(pointers.size() - 1);
  void*& output = tensors[pointers.size() - 1];
  void* const result = pointers.back();
  RunOptions own;
  own.stream = options.stream;
  own.control = options.control;
  own.memory = workspace + (loop.trips > 1 ? state_bytes(step) : 0);
  bool device = step.engine->session() != nullptr;
  bool plain = step.call.function != nullptr && own.control == nullptr;
  for (int64_t left = loop.trips; left-- > 0;) {
    output = left % 2 == 0 ? result : workspace;
    if (plain) {
      run_function(step.call, tensors.all().data());
    } else if (device) {
      run_in_place(step, inputs, std::span<void* const>(&output, 1), own);
    } else {
      run_on_host(step, tensors.all().data(), own);
    }
    inputs[0] = output;
    if (left != 0) ask(step, options);
  }
}

}  // namespace tile
