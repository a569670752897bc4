#include "runtime/engine/constants.h"

#include <algorithm>
#include <cstring>

#include "runtime/engine/engine.h"
#include "runtime/engine/launch/call_plan.h"
#include "runtime/engine/launch/device_run.h"
#include "runtime/engine/launch/strided_copy.h"

namespace tile {
namespace {

// One copy for all executables that have the same elements.
std::shared_ptr<const ConstantMemory> copied_on_host(const std::shared_ptr<Engine>& engine,
                                                     const TensorView& from) {
  size_t bytes = byte_count(from);
  SharedConstants& shared = engine->shared_constants();
  if (from.strides.empty()) {
    if (auto known = shared.with_bytes({static_cast<const std::byte*>(from.data), bytes})) {
      return known;
    }
  }
  auto copy = std::make_shared<const ConstantMemory>(engine, bytes);
  if (bytes != 0) copy_to_dense(from, copy->data());
  return shared.keep(std::move(copy));
}

ConstantInput copied(const std::shared_ptr<Engine>& engine, const TensorView& from, size_t number) {
  ConstantInput constant;
  constant.input = number;
  constant.given = from.data;
  constant.copy = from;
  if (engine->session() != nullptr) {
    constant.device = device_copy(*engine->session(), from, constant.copy);
    constant.copy.memory = Memory::device;
    constant.copy.device = engine->ordinal();
    return constant;
  }
  constant.host = copied_on_host(engine, from);
  constant.copy.data = constant.host->data();
  constant.copy.strides.clear();
  return constant;
}

}  // namespace

ConstantMemory::ConstantMemory(std::shared_ptr<Engine> engine, size_t bytes)
    : engine_(std::move(engine)),
      bytes_(bytes),
      // A vector may be read where there are fewer elements.
      memory_(*engine_, std::max(bytes, kHostAlignment)) {
  std::memset(data(), 0, std::max(bytes, kHostAlignment));
  engine_->statistics.constant_bytes += bytes_;
}
ConstantMemory::~ConstantMemory() { engine_->statistics.constant_bytes -= bytes_; }

std::vector<ConstantInput> copied_constants(const std::shared_ptr<Engine>& engine,
                                            const Program& program,
                                            std::span<const TensorView> inputs,
                                            std::span<const size_t> numbers) {
  std::vector<ConstantInput> constants;
  for (size_t number : numbers) {
    auto bad = [&](const std::string& why) {
      std::string name = number < inputs.size() ? program.tensors[program.inputs[number]].name : "";
      std::string text = std::to_string(number);
      if (!name.empty()) text = name + " (" + text + ")";
      fail(Stage::run, "argument", {}, "constant input " + text + " " + why);
    };
    if (number >= inputs.size()) bad("is not there");
    const TensorView& from = inputs[number];
    if (from.data == nullptr && byte_count(from) != 0) bad("has a null data pointer");
    bool elsewhere = from.memory == Memory::device &&
                     (engine->session() == nullptr || from.device != engine->ordinal());
    if (elsewhere) bad("is in the memory of a GPU that this engine does not run on");
    bool known = std::any_of(constants.begin(), constants.end(),
                             [&](const ConstantInput& c) { return c.input == number; });
    if (!known) constants.push_back(copied(engine, from, number));
  }
  return constants;
}

const ConstantInput* constant_at(const Executable& e, size_t input) {
  for (const ConstantInput& c : e.constants) {
    if (c.input == input) return &c;
  }
  return nullptr;
}

void prepare_copies(Executable& e) {
  SharedConstants& shared = e.engine->shared_constants();
  for (Launch& launch : e.launches) {
    for (PrepackedCopy& p : launch.prepared) {
      // Constants' places are addresses already.
      auto* source = reinterpret_cast<void*>(argument_of(e, p.source).at);
      std::shared_ptr<const ConstantMemory> copy = shared.packed(source, p.key);
      if (!copy) {
        auto memory = std::make_shared<const ConstantMemory>(e.engine, p.bytes);
        void* pointers[] = {source, memory->data()};
        HostMemory workspace(*e.engine, p.code->workspace_bytes());
        LaunchOptions options;
        options.threads = e.engine->options().threads;
        options.workspace = workspace.data();
        options.pool = e.engine->pool();
        e.engine->backend().launch(*p.code, pointers, {}, options);
        copy = shared.keep_packed(source, p.key, std::move(memory));
      }
      p.copy = std::move(copy);
    }
  }
}

size_t constant_bytes(const Executable& e) {
  size_t total = 0;
  for (const ConstantInput& c : e.constants) total += c.host ? c.host->bytes() : 0;
  for (const Launch& launch : e.launches) {
    for (const PrepackedCopy& p : launch.prepared) total += p.bytes;
  }
  return total;
}

}  // namespace tile
