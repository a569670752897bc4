#include "runtime/engine/lean.h"

#include "core/ir/text.h"
#include "runtime/engine/engine.h"

namespace tile {
namespace {

BoundProgram tensors_of(const BoundProgram& program) {
  BoundProgram bare;
  bare.source = program.source;
  bare.tensors = program.tensors;
  bare.inputs = program.inputs;
  bare.outputs = program.outputs;
  return bare;
}

Launch without_stages(const Launch& launch) {
  Launch bare;
  bare.code = launch.code;
  bare.arguments = launch.arguments;
  bare.begins = launch.begins;
  for (const PrepackedCopy& p : launch.prepared) {
    bare.prepared.push_back({p.source, p.code, "", p.bytes, p.copy, {}});
  }
  bare.parameters = launch.parameters;
  bare.own_code_because = launch.own_code_because;
  bare.sort = launch.sort;
  if (launch.loop) {
    bare.loop = {without_stages(*launch.loop->step), launch.loop->trips, launch.loop->blocks};
  }
  return bare;
}

constexpr size_t kAllocation = 32;  // what a small piece of memory takes beside its bytes

template <class T>
size_t bytes_of(const std::vector<T>& list) {
  return list.empty() ? 0 : list.capacity() * sizeof(T) + kAllocation;
}

size_t bytes_of(const BoundProgram& program) {
  size_t bytes = bytes_of(program.inputs) + bytes_of(program.outputs);
  for (const BoundTensor& t : program.tensors) {
    bytes += sizeof t + bytes_of(t.shape) + kAllocation + t.name.capacity();
    if (t.constant) bytes += bytes_of(*t.constant);
  }
  // A statement's bodies and domains take several times their text.
  constexpr size_t kTimes = 16;
  return program.statements.empty() ? bytes : bytes + kTimes * print(program).size();
}

size_t bytes_of(const Launch& launch) {
  size_t bytes = bytes_of(launch.arguments) + bytes_of(launch.begins) + bytes_of(launch.prepared) +
                 bytes_of(launch.parameters) + launch.key.capacity();
  if (launch.code) {
    auto users = static_cast<size_t>(std::max<long>(1, launch.code.use_count()));
    bytes += 2 * launch.code->object().size() / users;
  }
  if (launch.loop) bytes += memory_of(*launch.loop->step);
  return bytes;
}

}  // namespace

std::shared_ptr<const Executable> without_stages(const Executable& e) {
  if (e.restored || e.engine->is_reference()) return e.shared_from_this();
  auto bare = std::make_shared<Executable>();
  bare->engine = e.engine;
  bare->source = e.source;
  bare->defaults = e.defaults;
  bare->ranges = e.ranges;
  bare->inputs = e.inputs;
  bare->constants = e.constants;
  bare->bound = tensors_of(e.bound);
  bare->program = tensors_of(e.program);
  for (const Launch& launch : e.launches) bare->launches.push_back(without_stages(launch));
  bare->places = e.places;
  bare->call = e.call;
  bare->copies = e.copies;
  bare->densified = e.densified;
  bare->restored = true;
  bare->saved = e.saved;
  bare->donations = e.donations;
  bare->own_code = e.own_code;
  bare->sizes = e.sizes;
  bare->in_blocks = e.in_blocks;
  bare->arena_bytes = e.arena_bytes;
  bare->workspace_bytes = e.workspace_bytes;
  bare->pass_times = e.pass_times;
  bare->device_constants = e.device_constants;
  bare->replays = e.replays;
  return bare;
}

size_t memory_of(const Executable& e) {
  size_t bytes = sizeof(Executable) + bytes_of(e.inputs) + bytes_of(e.bound) + bytes_of(e.program) +
                 bytes_of(e.launches) + bytes_of(e.places) + bytes_of(e.copies) +
                 bytes_of(e.densified) + bytes_of(e.call.tensors) + bytes_of(e.call.layouts) +
                 bytes_of(e.call.arguments) + bytes_of(e.call.order) + bytes_of(e.defaults);
  for (const InputLayout& i : e.inputs) bytes += bytes_of(i.type.shape) + bytes_of(i.strides);
  for (const Launch& launch : e.launches) bytes += bytes_of(launch);
  return bytes;
}

}  // namespace tile
