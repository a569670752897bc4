#include "runtime/engine/launch/device_run.h"

#include <algorithm>
#include <array>
#include <memory>

#include "backends/trace.h"
#include "runtime/engine/arguments/memory_errors.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/inspect/names.h"
#include "runtime/engine/launch/copy_nest.h"
#include "runtime/engine/launch/device_replay.h"
#include "runtime/engine/launch/pointer_array.h"
#include "runtime/engine/launch/strided_copy.h"
#include "runtime/engine/steps/loop_run.h"

namespace tile {
namespace {

// Temporaries of a recording at most: programs with more spend no time on launches worth saving.
constexpr size_t kMostRecorded = 64 << 20;
// Kernels of one at most: the steps of a longer loop are given to the stream one by one.
constexpr size_t kMostKernels = 1 << 14;

using DimensionStrides = std::vector<int64_t>;  // of one tensor

bool aligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % kTensorAlignment == 0;
}

// Nests store along strides that are not negative: both sides of a copy walk such a dimension from
// its other end.
void turn_backward_stores(DType type, const Shape& shape, void*& from,
                          DimensionStrides& from_strides, void*& to, DimensionStrides& to_strides) {
  if (to_strides.empty()) return;
  if (from_strides.empty()) from_strides = dense_strides(shape);
  auto size = static_cast<int64_t>(byte_size(type));
  auto turn = [&](void*& first, int64_t& stride, int64_t steps) {
    first = static_cast<std::byte*>(first) + steps * stride * size;
    stride = -stride;
  };
  for (size_t d = 0; d < shape.size(); ++d) {
    if (to_strides[d] >= 0) continue;
    turn(from, from_strides[d], shape[d] - 1);
    turn(to, to_strides[d], shape[d] - 1);
  }
}

// Gives the stream a copy between device memory of different strides.
void copy_strided(const Executable& e, DType type, const Shape& shape, void* from,
                  DimensionStrides from_strides, void* to, DimensionStrides to_strides,
                  void* stream) {
  if (element_count(shape) == 0) return;
  turn_backward_stores(type, shape, from, from_strides, to, to_strides);
  Engine& engine = *e.engine;
  std::shared_ptr<const Code> code =
      engine.kernels().get(copy_nest(type, shape, from_strides, to_strides), engine.target());
  std::array<void*, 2> pointers = {from, to};
  LaunchOptions launching;
  launching.stream = stream;
  launching.session = engine.session();
  engine.backend().launch(*code, pointers, {}, launching);
}

// The launches of a run, given to a stream.
class DeviceLaunches {
 public:
  DeviceLaunches(const Executable& e, std::span<void* const> inputs, std::span<void* const> outputs,
                 std::byte* arena, const RunOptions& options)
      : e_(e),
        inputs_(inputs),
        outputs_(outputs),
        arena_(arena),
        options_(options),
        session_(*e.engine->session()),
        recorded_(session_.is_recorded(options.stream)) {
    launching_.stream = options.stream;
    launching_.session = &session_;
    launching_.workspace = arena + e.arena_bytes;
  }

  void run() const {
    for (auto [input, offset] : e_.densified) densify(input, arena_ + offset);
    for (const Launch& launch : e_.launches) {
      if (options_.control != nullptr) {
        // What the stream has been given is not taken back: it gets one launch at a time.
        bool first = &launch == &e_.launches.front();
        if (!first && !recorded_) session_.synchronize(options_.stream);
        if (options_.control->is_over()) throw options_.control->reason(launch.where);
      }
      this->launch(launch);
    }
    for (const OutputCopy& copy : e_.copies) {
      const BoundTensor& t = e_.output(copy.output);
      size_t bytes = static_cast<size_t>(element_count(t.shape)) * byte_size(t.type);
      session_.copy(outputs_[copy.output], address(copy.from), bytes, options_.stream);
    }
  }

 private:
  void* address(TensorId id, size_t begin = 0) const {
    return static_cast<std::byte*>(whole(id)) + begin;
  }
  void* whole(TensorId id) const {
    Place at = e_.places[id];
    if (at.kind == Place::Kind::input) return inputs_[at.at];
    if (at.kind == Place::Kind::output) return outputs_[at.at];
    if (at.kind == Place::Kind::constant) return e_.device_constants->at(at.at);
    return arena_ + at.at;
  }

  void densify(size_t input, std::byte* to) const {
    const InputLayout& layout = e_.inputs[input];
    copy_strided(e_, layout.type.type, layout.type.shape, inputs_[input], layout.strides, to, {},
                 options_.stream);
  }

  void launch(const Launch& launch) const {
    size_t count = launch.arguments.size();
    PointerArray pointers(count);
    for (size_t i = 0; i < count; ++i) {
      pointers[i] = address(launch.arguments[i], launch.begins.empty() ? 0 : launch.begins[i]);
    }
    trace::Scope span("launch", [&] { return name_of(e_, launch); });
    bool timed = (options_.profile != nullptr || trace::is_kept()) && !recorded_;
    if (!timed) return start(launch, pointers.all());
    double ns = session_.elapsed_ns(options_.stream, [&] { start(launch, pointers.all()); });
    if (options_.profile != nullptr) options_.profile->push_back(ns);
    if (!trace::is_kept()) return;
    // The launch has just ended.
    int64_t end = trace::now_ns();
    trace::Stream on{e_.engine->ordinal(), options_.stream};
    trace::add_on_stream(on, name_of(e_, launch), end - static_cast<int64_t>(ns), end);
  }
  void start(const Launch& launch, std::span<void* const> pointers) const {
    Backend& backend = e_.engine->backend();
    if (launch.sort) {
      const BoundTensor& source = e_.program.tensors[launch.sort->source];
      backend.sort(*launch.sort, source, pointers[0], pointers[1], launching_);
    } else if (launch.loop) {
      run_loop(*launch.loop, pointers, launching_.workspace, options_);
    } else {
      backend.launch(*launch.code, pointers, launch.parameters, launching_);
    }
  }

  const Executable& e_;
  std::span<void* const> inputs_, outputs_;
  std::byte* arena_;
  const RunOptions& options_;
  DeviceSession& session_;
  bool recorded_;  // by the caller: nothing runs now
  LaunchOptions launching_;
};

// The bytes between a tensor's first and last element, whatever its strides, so that the strides
// compiled for hold for the copy too; `first` becomes the address of the first element.
std::unique_ptr<DeviceMemory> copied(DeviceSession& session, const TensorView& from, void* stream,
                                     void*& first) {
  Extent extent = extent_of(from);
  auto bytes = static_cast<size_t>(extent.end - extent.begin);
  auto before = static_cast<size_t>(static_cast<const std::byte*>(from.data) - extent.begin);
  // The first element, not the lowest, is what must be aligned.
  size_t lead = (kTensorAlignment - before % kTensorAlignment) % kTensorAlignment;
  auto memory = std::make_unique<DeviceMemory>(session, bytes == 0 ? 0 : bytes + lead, stream);
  first = memory->data() + lead + before;
  if (bytes == 0) return memory;
  if (from.memory == Memory::host) {
    session.copy_in(memory->data() + lead, extent.begin, bytes, stream);
  } else {
    session.copy(memory->data() + lead, extent.begin, bytes, stream);
  }
  return memory;
}

// A run of tensors anywhere: what the launches cannot use in place is staged.
class DeviceRun {
 public:
  DeviceRun(const Executable& e, std::span<const TensorView> inputs,
            std::span<const TensorView> outputs, const RunOptions& options)
      : e_(e),
        inputs_(inputs),
        outputs_(outputs),
        options_(options),
        session_(*e.engine->session()) {}

  void run() {
    refuse_host_memory_in_recordings();
    for (const TensorView& input : inputs_) bring_in(input);
    for (const TensorView& output : outputs_) make_room(output);
    run_in_place(e_, input_data_, output_data_, options_);
    for (size_t i = 0; i < outputs_.size(); ++i) bring_out(outputs_[i], output_data_[i]);
  }

 private:
  void refuse_host_memory_in_recordings() const {
    auto on_host = [](const TensorView& t) { return t.memory == Memory::host; };
    bool any = std::any_of(inputs_.begin(), inputs_.end(), on_host) ||
               std::any_of(outputs_.begin(), outputs_.end(), on_host);
    if (!any || !session_.is_recorded(options_.stream)) return;
    fail(Stage::run, "argument", {}, "a stream that is recorded is given a tensor in host memory",
         "copy it to the device before the recording begins");
  }
  std::byte* temporary(size_t bytes) {
    memory_.push_back(std::make_unique<DeviceMemory>(session_, bytes, options_.stream));
    return memory_.back()->data();
  }

  void bring_in(const TensorView& input) {
    bool host = input.memory == Memory::host;
    if (!host && aligned(input.data)) {
      input_data_.push_back(input.data);
      return;
    }
    memory_.push_back(copied(session_, input, options_.stream, input_data_.emplace_back()));
  }

  static bool in_place(const TensorView& output) {
    return output.memory == Memory::device && output.strides.empty() && aligned(output.data);
  }
  void make_room(const TensorView& output) {
    if (in_place(output)) return output_data_.push_back(output.data);
    try {
      output_data_.push_back(temporary(byte_count(output)));
    } catch (const Failure& failure) {
      if (failure.diagnostic().code != "memory") throw;
      fail_output(e_, output_data_.size(), failure.diagnostic());
    }
  }
  void bring_out(const TensorView& output, void* data) {
    size_t bytes = byte_count(output);
    if (in_place(output) || bytes == 0) return;
    if (output.memory == Memory::device) {
      copy_strided(e_, output.type, output.shape, data, {}, output.data, output.strides,
                   options_.stream);
    } else if (output.strides.empty()) {
      session_.copy_out(output.data, data, bytes, options_.stream);
    } else {
      std::vector<std::byte> dense(bytes);
      session_.copy_out(dense.data(), data, bytes, options_.stream);
      copy_from_dense(dense.data(), output);
    }
  }

  const Executable& e_;
  std::span<const TensorView> inputs_;
  std::span<const TensorView> outputs_;
  const RunOptions& options_;
  DeviceSession& session_;
  std::vector<std::unique_ptr<DeviceMemory>> memory_;
  std::vector<void*> input_data_;
  std::vector<void*> output_data_;
};

}  // namespace

DeviceConstants::DeviceConstants(const Executable& e) : session_(*e.engine->session()) {
  for (const Place& place : e.places) {
    if (place.kind != Place::Kind::constant || memory_.contains(place.at)) continue;
    const std::vector<std::byte>& bytes = *e.program.tensors[place.at].constant;
    auto& memory = memory_[place.at];
    memory = std::make_unique<DeviceMemory>(session_, bytes.size(), nullptr);
    session_.copy_in(memory->data(), bytes.data(), bytes.size(), nullptr);
  }
  // From now on every stream may read them.
  if (!memory_.empty()) session_.synchronize(nullptr);
}

std::shared_ptr<const DeviceMemory> device_copy(DeviceSession& session, const TensorView& from,
                                                TensorView& copy) {
  std::shared_ptr<const DeviceMemory> memory = copied(session, from, nullptr, copy.data);
  session.synchronize(nullptr);
  return memory;
}

namespace {

size_t kernels_of(const Launch& launch) {
  if (!launch.loop) return launch.code ? launch.code->kernels() : 1;
  size_t step = launch.loop->step->copies.size();
  for (const Launch& inner : launch.loop->step->launches) step += kernels_of(inner);
  // More than anybody records, if so.
  size_t trips = std::min<size_t>(static_cast<size_t>(launch.loop->trips), kMostKernels + 1);
  return std::min(step, kMostKernels + 1) * trips;
}

}  // namespace

void prepare_device(Executable& e) {
  e.device_constants = std::make_shared<const DeviceConstants>(e);
  e.replays.reset();
  size_t kernels = e.copies.size() + e.densified.size(), bytes = e.arena_bytes + e.workspace_bytes;
  for (const Launch& launch : e.launches) kernels += kernels_of(launch);
  if (kernels > 1 && kernels <= kMostKernels && bytes <= kMostRecorded) {
    e.replays = std::make_shared<DeviceReplays>(*e.engine->session(), bytes);
  }
  for (auto [input, offset] : e.densified) {
    const InputLayout& layout = e.inputs[input];
    if (element_count(layout.type.shape) == 0) continue;
    e.engine->kernels().get(copy_nest(layout.type.type, layout.type.shape, layout.strides, {}),
                            e.engine->target());
  }
}

namespace {

std::unique_ptr<DeviceMemory> memory_of_temporaries(const Executable& e, void* stream) {
  try {
    return std::make_unique<DeviceMemory>(*e.engine->session(), e.arena_bytes + e.workspace_bytes,
                                          stream);
  } catch (const Failure& failure) {
    if (failure.diagnostic().code != "memory") throw;
    fail_temporaries(e, failure.diagnostic());
  }
}

}  // namespace

void run_in_place(const Executable& e, std::span<void* const> inputs,
                  std::span<void* const> outputs, const RunOptions& options) {
  if (options.memory != nullptr) {
    return DeviceLaunches(e, inputs, outputs, options.memory, options).run();
  }
  // A recording runs as a whole: nobody looks between its launches. Within a recording of the
  // caller's it would use the temporaries that other runs have, too.
  bool recorded =
      e.replays && options.recorded && options.profile == nullptr && options.control == nullptr &&
      !trace::is_kept() && !e.engine->session()->is_recorded(options.stream) &&
      e.replays->run(inputs, outputs, options.stream, [&](std::byte* arena, void* stream) {
        RunOptions recording;
        recording.stream = stream;
        DeviceLaunches(e, inputs, outputs, arena, recording).run();
      });
  if (recorded) return;
  std::unique_ptr<DeviceMemory> arena = memory_of_temporaries(e, options.stream);
  DeviceLaunches(e, inputs, outputs, arena->data(), options).run();
}

void run_on_device(const Executable& executable, std::span<const TensorView> inputs,
                   std::span<const TensorView> outputs, const RunOptions& options) {
  DeviceRun(executable, inputs, outputs, options).run();
}

}  // namespace tile
