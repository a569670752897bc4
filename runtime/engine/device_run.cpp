#include "runtime/engine/device_run.h"

#include <array>
#include <memory>

#include "runtime/engine/copy_nest.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/strided_copy.h"

namespace tile {
namespace {

constexpr uintptr_t kAlignment = 16;  // what every launch may count on

bool aligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % kAlignment == 0; }

class DeviceRun {
 public:
  DeviceRun(const Executable& e, std::span<const TensorView> inputs,
            std::span<const TensorView> outputs, const RunOptions& options)
      : e_(e),
        inputs_(inputs),
        outputs_(outputs),
        options_(options),
        session_(*e.engine->session()),
        arena_(session_, e.arena_bytes + e.workspace_bytes, options.stream) {}

  void run() {
    for (const TensorView& input : inputs_) bring_in(input);
    for (const TensorView& output : outputs_) make_room(output);
    for (auto [input, offset] : e_.densified) densify(input, arena_.data() + offset);
    for (const Launch& launch : e_.launches) {
      if (options_.cancelled && options_.cancelled()) {
        fail(Stage::run, "cancelled", {}, "the run was cancelled");
      }
      this->launch(launch);
    }
    for (const OutputCopy& copy : e_.copies) {
      session_.copy(output_data_[copy.output], address(copy.from),
                    byte_count(outputs_[copy.output]), options_.stream);
    }
    for (size_t i = 0; i < outputs_.size(); ++i) bring_out(outputs_[i], output_data_[i]);
  }

 private:
  std::byte* temporary(size_t bytes) {
    memory_.push_back(std::make_unique<DeviceMemory>(session_, bytes, options_.stream));
    return memory_.back()->data();
  }

  // The bytes between an input's first and last element, whatever its strides, so that the strides
  // compiled for hold for the copy too.
  void bring_in(const TensorView& input) {
    bool host = input.memory == Memory::host;
    if (!host && aligned(input.data)) {
      input_data_.push_back(input.data);
      return;
    }
    Extent extent = extent_of(input);
    auto bytes = static_cast<size_t>(extent.end - extent.begin);
    auto first = static_cast<size_t>(static_cast<const std::byte*>(input.data) - extent.begin);
    // The first element, not the lowest, is what must be aligned.
    size_t lead = (kAlignment - first % kAlignment) % kAlignment;
    std::byte* data = temporary(bytes == 0 ? 0 : bytes + lead);
    input_data_.push_back(data + lead + first);
    if (bytes == 0) return;
    if (host) {
      session_.copy_in(data + lead, extent.begin, bytes, options_.stream);
    } else {
      session_.copy(data + lead, extent.begin, bytes, options_.stream);
    }
  }

  static bool in_place(const TensorView& output) {
    return output.memory == Memory::device && output.strides.empty() && aligned(output.data);
  }
  void make_room(const TensorView& output) {
    output_data_.push_back(in_place(output) ? output.data : temporary(byte_count(output)));
  }
  void bring_out(const TensorView& output, void* data) {
    size_t bytes = byte_count(output);
    if (in_place(output) || bytes == 0) return;
    if (output.memory == Memory::device) {
      copy_strided(output.type, output.shape, data, {}, output.data, output.strides);
    } else if (output.strides.empty()) {
      session_.copy_out(output.data, data, bytes, options_.stream);
    } else {
      std::vector<std::byte> dense(bytes);
      session_.copy_out(dense.data(), data, bytes, options_.stream);
      copy_from_dense(dense.data(), output);
    }
  }

  void densify(size_t input, std::byte* to) {
    const TensorView& view = inputs_[input];
    copy_strided(view.type, view.shape, input_data_[input], view.strides, to, {});
  }
  void copy_strided(DType type, const Shape& shape, void* from,
                    const std::vector<int64_t>& from_strides, void* to,
                    const std::vector<int64_t>& to_strides) {
    if (element_count(shape) == 0) return;
    Engine& engine = *e_.engine;
    std::shared_ptr<const Code> code =
        engine.kernels().get(copy_nest(type, shape, from_strides, to_strides), engine.target());
    std::array<void*, 2> pointers = {from, to};
    LaunchOptions launching = launch_options();
    launching.workspace = nullptr;
    engine.backend().launch(*code, pointers, {}, launching);
  }

  LaunchOptions launch_options() const {
    LaunchOptions launching;
    launching.stream = options_.stream;
    launching.session = &session_;
    launching.workspace = arena_.data() + e_.arena_bytes;
    return launching;
  }
  void* address(TensorId id) const {
    Place at = e_.places[static_cast<size_t>(id)];
    if (at.kind == Place::Kind::input) return input_data_[at.at];
    if (at.kind == Place::Kind::output) return output_data_[at.at];
    if (at.kind == Place::Kind::constant) return e_.device_constants->at(at.at);
    return arena_.data() + at.at;
  }
  void launch(const Launch& launch) {
    pointers_.clear();
    for (TensorId id : launch.arguments) pointers_.push_back(address(id));
    Backend& backend = e_.engine->backend();
    auto work = [&] {
      if (launch.sort) {
        const BoundTensor& source = e_.program.tensors[static_cast<size_t>(launch.sort->source)];
        backend.sort(*launch.sort, source, pointers_[0], pointers_[1], launch_options());
      } else {
        backend.launch(*launch.code, pointers_, {}, launch_options());
      }
    };
    if (options_.profile == nullptr) {
      work();
    } else {
      options_.profile->push_back(session_.elapsed_ns(options_.stream, work));
    }
  }

  const Executable& e_;
  std::span<const TensorView> inputs_;
  std::span<const TensorView> outputs_;
  const RunOptions& options_;
  DeviceSession& session_;
  DeviceMemory arena_;
  std::vector<std::unique_ptr<DeviceMemory>> memory_;
  std::vector<void*> input_data_;
  std::vector<void*> output_data_;
  std::vector<void*> pointers_;
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

void prepare_device(Executable& e) {
  e.device_constants = std::make_shared<const DeviceConstants>(e);
  for (auto [input, offset] : e.densified) {
    const InputLayout& layout = e.inputs[input];
    if (element_count(layout.type.shape) == 0) continue;
    e.engine->kernels().get(copy_nest(layout.type.type, layout.type.shape, layout.strides, {}),
                            e.engine->target());
  }
}

void run_on_device(const Executable& executable, std::span<const TensorView> inputs,
                   std::span<const TensorView> outputs, const RunOptions& options) {
  DeviceRun(executable, inputs, outputs, options).run();
}

}  // namespace tile
