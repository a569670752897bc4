#include <algorithm>
#include <limits>

#include "core/interpret/interpret.h"
#include "runtime/engine/constants.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/launch/device_run.h"
#include "runtime/engine/launch/donations.h"
#include "runtime/engine/launch/host_memory.h"
#include "runtime/engine/launch/host_run.h"
#include "runtime/engine/launch/memory_plan.h"
#include "runtime/engine/launch/pointer_array.h"
#include "runtime/engine/launch/shared_memory.h"
#include "runtime/engine/launch/strided_copy.h"

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

std::string text_of(const std::vector<int64_t>& numbers) {
  std::string out = "[";
  for (size_t i = 0; i < numbers.size(); ++i) {
    out += (i == 0 ? "" : ", ") + std::to_string(numbers[i]);
  }
  return out + "]";
}
std::string text_of(DType type, const Shape& shape) {
  return std::string(to_string(type)) + text_of(shape);
}
// Host memory serves every engine, a device's memory the engine of that device.
void check_memory(const Engine& engine, const char* kind, const TensorView& given,
                  const BoundTensor& expected) {
  if (given.memory == Memory::host) return;
  std::string what = std::string(kind) + " " + expected.name + " is in the memory of GPU " +
                     std::to_string(given.device);
  if (engine.session() == nullptr) {
    fail(Stage::run, "argument", {}, what + ", which this engine does not reach",
         "make the engine with backend cuda");
  }
  if (given.device != engine.ordinal()) {
    std::string own = std::to_string(engine.ordinal()), other = std::to_string(given.device);
    fail(Stage::run, "argument", {}, what + "; this engine runs on GPU " + own,
         "copy it to GPU " + own + ", or make an engine with backend cuda:" + other);
  }
}

// `kind` is "input" or "output"; texts are made only for errors.
void check_tensor(const char* kind, const TensorView& given, const BoundTensor& expected) {
  if (given.type != expected.type || given.shape != expected.shape) {
    fail(Stage::run, "argument", {},
         std::string(kind) + " " + expected.name + " is " + text_of(given.type, given.shape) +
             ", expected " + text_of(expected.type, expected.shape));
  }
  if (given.data == nullptr && element_count(expected.shape) != 0) {
    fail(Stage::run, "argument", {},
         std::string(kind) + " " + expected.name + " has a null data pointer");
  }
}

// Of an input declared constant what a run is given, if anything, must be what was declared.
void check_constant(const ConstantInput& constant, const TensorView& given,
                    const BoundTensor& expected) {
  if (given.data == nullptr) return;
  bool same =
      given.data == constant.given && given.type == expected.type && given.shape == expected.shape;
  if (same) return;
  fail(Stage::run, "argument", {},
       "input " + expected.name + " was declared constant and is another tensor here",
       "leave it out (NULL), or compile for the other tensor");
}

// An output is in no input's memory, unless that one is donated whole.
void check_overlap(const Executable& e, const Donation& pair, const TensorView& input,
                   const TensorView& output) {
  if (!shares_memory(output, input)) return;
  bool whole = input.data == output.data && input.strides.empty() && output.strides.empty() &&
               byte_count(input) == byte_count(output);
  if (whole && may_donate(e, pair.input, pair.output)) return;
  const std::string& from = e.bound.tensors[e.bound.inputs[pair.input]].name;
  const std::string& to = e.output(pair.output).name;
  std::string hint;
  if (whole) {
    hint = "elements of " + from + " may be read after those of " + to +
           " in their places are written: give " + to + " memory of its own";
  }
  fail(Stage::run, "overlap", {}, "output " + to + " overlaps input " + from, hint);
}

// The inputs with the copies of those that are constant.
std::vector<TensorView> with_copies(const Executable& e, std::span<const TensorView> inputs) {
  std::vector<TensorView> all(inputs.begin(), inputs.end());
  for (const ConstantInput& c : e.constants) all[c.input] = c.copy;
  return all;
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

void check_tensors(const Executable& e, std::span<const TensorView> inputs,
                   std::span<const TensorView> outputs) {
  auto count = [](const char* what, size_t given, size_t expected) {
    if (given == expected) return;
    fail(Stage::run, "argument", {},
         std::to_string(given) + " " + what + " given, expected " + std::to_string(expected));
  };
  count("inputs", inputs.size(), e.inputs.size());
  count("outputs", outputs.size(), e.bound.outputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const BoundTensor& t = e.bound.tensors[e.bound.inputs[i]];
    if (const ConstantInput* constant = constant_at(e, i)) {
      check_constant(*constant, inputs[i], t);
      continue;
    }
    check_tensor("input", inputs[i], t);
    check_memory(*e.engine, "input", inputs[i], t);
    if (inputs[i].strides != e.inputs[i].strides) {
      fail(Stage::run, "argument", {}, "input " + t.name + " has other strides than compiled for");
    }
    const std::optional<int64_t>& value = e.inputs[i].type.value;
    bool readable = value && inputs[i].memory == Memory::host;
    if (readable &&
        load_element(static_cast<const std::byte*>(inputs[i].data), inputs[i].type).i != *value) {
      fail(Stage::run, "argument", {},
           "the parameter " + t.name + " sets a size and is not " + std::to_string(*value) +
               ", which the executable was compiled for");
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const BoundTensor& t = e.output(i);
    check_tensor("output", outputs[i], t);
    check_memory(*e.engine, "output", outputs[i], t);
    if (shares_with_itself(outputs[i])) {
      fail(Stage::run, "overlap", {},
           "output " + t.name + " has strides " + text_of(outputs[i].strides) +
               ", with which several of its elements are the same memory");
    }
    for (size_t j = 0; j < inputs.size(); ++j) {
      if (constant_at(e, j) == nullptr) check_overlap(e, {j, i}, inputs[j], outputs[i]);
    }
    for (size_t j = 0; j < i; ++j) {
      if (shares_memory(outputs[i], outputs[j])) {
        fail(Stage::run, "overlap", {},
             "output " + t.name + " overlaps output " + e.output(j).name);
      }
    }
  }
}

void run(const Executable& e, std::span<const TensorView> inputs,
         std::span<const TensorView> outputs, const RunOptions& options) {
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
