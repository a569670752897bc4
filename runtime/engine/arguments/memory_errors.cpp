#include "runtime/engine/arguments/memory_errors.h"

#include <algorithm>

#include "core/ir/text.h"
#include "core/support/bytes_text.h"
#include "runtime/engine/arguments/argument.h"
#include "runtime/engine/constants.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/launch/memory_plan.h"

namespace tile {
namespace {

size_t bytes_of(const BoundTensor& t) {
  return static_cast<size_t>(element_count(t.shape)) * byte_size(t.type);
}

// The author's tensor of this name; null: a pass has made it.
const Tensor* written(const Executable& e, const std::string& name) {
  for (const Tensor& t : e.source->tensors) {
    if (t.name == name) return &t;
  }
  return nullptr;
}

// The largest of what takes memory beside the tensors of a call; invalid: nothing does.
TensorId largest_temporary(const Executable& e) {
  const bool interpreted = e.engine->is_reference();
  const BoundProgram& program = interpreted ? e.bound : e.program;
  auto is_given = [&](TensorId id) {
    return std::count(program.inputs.begin(), program.inputs.end(), id) +
               std::count(program.outputs.begin(), program.outputs.end(), id) >
           0;
  };
  TensorId largest;
  for (TensorId id : program.tensors.ids()) {
    const BoundTensor& t = program.tensors[id];
    bool counts = interpreted
                      ? !is_given(id)
                      : id.index() < e.places.size() && e.places[id].kind == Place::Kind::arena;
    if (!counts || t.view_of) continue;
    if (!largest.valid() || bytes_of(t) > bytes_of(program.tensors[largest])) largest = id;
  }
  return largest;
}

Span place_of(const Executable& e, TensorId id, const Tensor* tensor) {
  if (tensor != nullptr) return tensor->span;
  for (const Launch& launch : e.launches) {
    bool has =
        std::find(launch.arguments.begin(), launch.arguments.end(), id) != launch.arguments.end();
    if (has) return launch.where;
  }
  return {};
}

Span place_of_output(const Executable& e, const BoundTensor& output) {
  const Tensor* own = written(e, output.name);
  return own != nullptr ? own->span : Span{};
}

// ", of which the tensor B, f32[4, 4], takes 64 bytes" and its place.
std::pair<std::string, Span> part_of_largest(const Executable& e) {
  TensorId id = largest_temporary(e);
  if (!id.valid()) return {};
  const BoundTensor& t = (e.engine->is_reference() ? e.bound : e.program).tensors[id];
  const Tensor* own = written(e, t.name);
  std::string name = own != nullptr ? "the tensor " + t.name : "a tensor of this statement";
  return {
      ", of which " + name + ", " + text_of(t.type, t.shape) + ", takes " + bytes_text(bytes_of(t)),
      place_of(e, id, own)};
}

}  // namespace

void fail_memory_limit(const Executable& e, Stage stage, size_t needed, size_t limit) {
  auto [part, where] = part_of_largest(e);
  bool given = e.engine->options().memory_limit != 0, constants = !e.constants.empty();
  fail(stage, "memory", where,
       "this program needs " + bytes_text(needed) + " of temporaries" +
           (constants ? " and constants" : "") + part +
           (given ? "; the limit is " : "; this machine has ") + bytes_text(limit),
       given ? "an engine whose option memory_limit is larger allows more"
             : "the largest tensor decides: make it smaller, or several smaller ones");
}

void fail_temporaries(const Executable& e, const Diagnostic& why) {
  auto [part, where] = part_of_largest(e);
  fail(Stage::run, why.code, where,
       "this run needs " + bytes_text(e.arena_bytes + e.workspace_bytes) + " of temporaries" +
           part + ": " + why.message,
       why.hint);
}

void fail_output(const Executable& e, size_t output, const Diagnostic& why) {
  const BoundTensor& t = e.output(output);
  fail(Stage::run, why.code, place_of_output(e, t),
       "the output " + t.name + " is " + text_of(t.type, t.shape) + ", " + bytes_text(bytes_of(t)) +
           ": " + why.message,
       why.hint);
}

void check_output_memory(const Executable& e) {
  size_t total = 0;
  const BoundTensor* largest = nullptr;
  for (size_t i = 0; i < e.bound.outputs.size(); ++i) {
    const BoundTensor& t = e.output(i);
    total += std::min(bytes_of(t), SIZE_MAX - total);
    if (largest == nullptr || bytes_of(t) > bytes_of(*largest)) largest = &t;
  }
  if (total <= machine_memory()) return;
  fail(Stage::run, "memory", place_of_output(e, *largest),
       "the output " + largest->name + " is " + text_of(largest->type, largest->shape) + ", " +
           bytes_text(bytes_of(*largest)) +
           (total > bytes_of(*largest) ? ", and all outputs " + bytes_text(total) : "") +
           "; this machine has " + bytes_text(machine_memory()),
       "run smaller shapes, or ask for a result that is smaller");
}

}  // namespace tile
