#include "tests/executors/guarded_run.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>

#include "backends/cpu/launch/scratch.h"
#include "core/ir/analysis/uses.h"
#include "core/support/diagnostic.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/launch/strided_copy.h"
#include "tests/executors/layouts.h"

namespace tile::test {
namespace {

constexpr size_t kMemoryAlignment = 64;  // of workspace and scratch

using Memories = std::vector<std::unique_ptr<GuardedMemory>>;

// One input or output in guarded memory of its own.
class PlacedTensor {
 public:
  PlacedTensor(const std::string& kind, const BoundTensor& t, std::vector<int64_t> strides,
               const Placing& placing)
      : poison_(placing.poison) {
    view_.type = t.type;
    view_.shape = t.shape;
    view_.strides = std::move(strides);
    // Any address serves to learn where elements lie around the first one.
    std::byte somewhere{};
    view_.data = &somewhere;
    Extent extent = extent_of(view_);
    auto bytes = static_cast<size_t>(extent.end - extent.begin);
    size_t before = static_cast<size_t>(&somewhere - extent.begin);
    size_t apart = static_cast<size_t>(placing.offset) * byte_size(t.type);
    std::string name = kind + " " + t.name + " " +
                       described(InputLayout{{t.type, t.shape, std::nullopt}, view_.strides});
    memory_ = std::make_unique<GuardedMemory>(name, bytes + apart, placing.edge, placing.poison);
    view_.data = memory_->data() + (placing.edge == Edge::start ? apart : 0) + before;
  }

  const TensorView& view() const { return view_; }
  void fill(const HostTensor& values) {
    if (!values.bytes.empty()) copy_from_dense(values.bytes.data(), view_);
    memory_->make_read_only();
  }
  HostTensor values() const {
    HostTensor t(view_.type, view_.shape);
    if (!t.bytes.empty()) copy_to_dense(view_, t.bytes.data());
    return t;
  }
  // Whether all that is not an element is as it was.
  bool clean_around(const HostTensor& values) const {
    std::span<const std::byte> now = memory_->accessible();
    std::vector<std::byte> expected(now.size(), poison_);
    TensorView view = view_;
    view.data = expected.data() + (static_cast<const std::byte*>(view_.data) - now.data());
    if (!values.bytes.empty()) copy_from_dense(values.bytes.data(), view);
    return std::equal(now.begin(), now.end(), expected.begin());
  }

 private:
  std::byte poison_;
  TensorView view_;
  std::unique_ptr<GuardedMemory> memory_;
};

// The memory of an executable's temporaries.
class Temporaries {
 public:
  Temporaries(const Executable& e, const Placing& placing) : placing_(placing) {
    bool host = !e.engine->is_reference() && e.engine->session() == nullptr;
    if (!host || e.arena_bytes + e.workspace_bytes == 0) return;
    // Programs from records do not tell views from temporaries.
    placing.apart && !e.restored ? move_apart(e) : as_planned(e);
  }
  const Executable* moved() const { return moved_.get(); }  // null: the executable itself
  std::byte* base() const { return base_; }

 private:
  void as_planned(const Executable& e) {
    base_ = add("temporaries", e.arena_bytes + e.workspace_bytes, 256);
  }

  // Each temporary in memory of its own, at its distance from the lowest one.
  void move_apart(const Executable& e) {
    std::map<TensorId, std::byte*> at;
    for (size_t i = 0; i < e.program.tensors.size(); ++i) {
      auto id = storage_of(e.program, TensorId(i));
      if (e.places[i].kind != Place::Kind::arena || at.contains(id)) continue;
      const BoundTensor& t = e.program.tensors[id];
      auto bytes = static_cast<size_t>(element_count(t.shape)) * byte_size(t.type);
      at[id] = add("temporary " + t.name, bytes, byte_size(t.type));
    }
    std::byte* workspace = add("workspace", e.workspace_bytes, kMemoryAlignment);
    base_ = workspace;
    for (const auto& [id, memory] : at) base_ = std::min(base_, memory);
    moved_ = std::make_unique<Executable>(e);
    for (size_t i = 0; i < e.places.size(); ++i) {
      if (e.places[i].kind != Place::Kind::arena) continue;
      std::byte* memory = at.at(storage_of(e.program, TensorId(i)));
      moved_->places[i].at = static_cast<size_t>(memory - base_);
    }
    for (auto& [input, offset] : moved_->densified) {
      offset = moved_->places[e.program.inputs[input]].at;
    }
    // Never nothing: a run without temporaries asks for no memory.
    moved_->workspace_bytes = std::max<size_t>(1, e.workspace_bytes);
    moved_->arena_bytes = static_cast<size_t>(workspace - base_);
    moved_->call = call_plan(*moved_);
  }
  std::byte* add(std::string name, size_t bytes, size_t alignment) {
    memories_.push_back(std::make_unique<GuardedMemory>(std::move(name), bytes, placing_.edge,
                                                        placing_.poison, alignment));
    return memories_.back()->data();
  }

  const Placing& placing_;
  Memories memories_;
  std::unique_ptr<Executable> moved_;
  std::byte* base_ = nullptr;
};

// Scratch memory of a thread: new poison at each use.
std::byte* guarded_scratch(size_t bytes) {
  constexpr std::byte kPoison{0x6b};
  thread_local std::unique_ptr<GuardedMemory> memory;
  thread_local size_t size = 0;
  if (memory == nullptr || size != bytes) {
    memory.reset();
    memory =
        std::make_unique<GuardedMemory>("scratch", bytes, Edge::end, kPoison, kMemoryAlignment);
    size = bytes;
  }
  std::memset(memory->data(), std::to_integer<int>(kPoison), bytes);
  return memory->data();
}

std::string with_inputs(const Executable& e, const std::string& what) {
  std::string text = what;
  for (const InputLayout& input : e.inputs) text += "  input " + described(input) + "\n";
  return text;
}

}  // namespace

std::vector<HostTensor> run_placed(const Executable& e, const std::vector<HostTensor>& inputs,
                                   const Placing& placing) {
  cpu::set_scratch_source(guarded_scratch);
  std::vector<PlacedTensor> given, made;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const BoundTensor& t = e.bound.tensors[e.bound.inputs[i]];
    given.emplace_back("input", t, e.inputs[i].strides, placing).fill(inputs[i]);
  }
  for (size_t i = 0; i < e.bound.outputs.size(); ++i) {
    const BoundTensor& t = e.output(i);
    auto strides =
        placing.transposed_outputs ? transposed_strides(t.shape) : std::vector<int64_t>{};
    made.emplace_back("output", t, strides, placing);
  }
  Temporaries temporaries(e, placing);
  auto views = [](const std::vector<PlacedTensor>& list) {
    std::vector<TensorView> result;
    for (const PlacedTensor& t : list) result.push_back(t.view());
    return result;
  };
  RunOptions options;
  options.memory = temporaries.base();
  run(temporaries.moved() != nullptr ? *temporaries.moved() : e, views(given), views(made),
      options);
  std::vector<HostTensor> outputs;
  std::string wrong = touches();
  for (size_t i = 0; i < made.size(); ++i) {
    outputs.push_back(made[i].values());
    if (made[i].clean_around(outputs.back())) continue;
    wrong += "output " + e.output(i).name + ": bytes beside its elements were written\n";
  }
  if (!wrong.empty()) throw InternalError(with_inputs(e, "a guarded run: " + wrong));
  return outputs;
}

std::vector<HostTensor> run_guarded(const Executable& e, const std::vector<HostTensor>& inputs) {
  std::vector<HostTensor> outputs = run_placed(e, inputs, {});
  Placing at_start{Edge::start, std::byte{0xff}};
  Placing as_planned{Edge::end, std::byte{0x7f}, 3, false, true};
  for (const Placing& placing : {at_start, as_planned}) {
    std::vector<HostTensor> other = run_placed(e, inputs, placing);
    for (size_t o = 0; o < outputs.size(); ++o) {
      const std::vector<std::byte>&a = outputs[o].bytes, &b = other[o].bytes;
      auto apart = std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin();
      if (static_cast<size_t>(apart) == a.size()) continue;
      int64_t element = apart / static_cast<int64_t>(byte_size(outputs[o].type));
      throw InternalError(with_inputs(
          e, "element " + std::to_string(element) + " of output " + e.output(o).name +
                 " depends on where tensors lie or on what memory held before the run\n"));
    }
  }
  return outputs;
}

}  // namespace tile::test
