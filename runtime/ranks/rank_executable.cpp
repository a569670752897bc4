#include "runtime/ranks/rank_executable.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/ir/analysis/uses.h"
#include "runtime/engine/compile_bound.h"
#include "runtime/engine/launch/memory_plan.h"
#include "runtime/engine/launch/strided_copy.h"
#include "runtime/ranks/device/device_store.h"
#include "runtime/ranks/device/rank_replays.h"
#include "runtime/ranks/host_store.h"
#include "runtime/ranks/kept.h"

namespace tile {
std::vector<TensorView> views_of(std::vector<HostTensor>& tensors) {
  std::vector<TensorView> views;
  for (HostTensor& t : tensors) {
    t.bytes.reserve(1);  // an address even without elements
    views.push_back({t.bytes.data(), t.type, t.shape, {}});
  }
  return views;
}

Overlap overlap_on(const Engine& engine, Overlap wanted, bool linked) {
  bool waits = wanted == Overlap::automatic && engine.session() != nullptr && !linked;
  return waits ? Overlap::never : wanted;
}

RankExecutable::RankExecutable(const std::shared_ptr<Engine>& engine,
                               const std::shared_ptr<const Program>& source, RankProgram rank,
                               size_t number, std::vector<std::string> names,
                               std::vector<std::optional<Collective>> collectives)
    : engine_(engine),
      source_(source),
      rank_(std::move(rank)),
      number_(number),
      segmented_(segments_of(rank_)),
      names_(std::move(names)),
      collectives_(std::move(collectives)),
      memory_(plan_memory(rank_, number, segmented_)),
      placed_(rank_.program.tensors.size()) {
  place_parts();
  plan_own_copies();
  for (const Segment& segment : segmented_.segments) {
    BoundStrides strides;
    for (TensorId id : segment.inputs) strides.inputs.push_back(strides_of(id));
    for (TensorId id : segment.outputs) strides.outputs.push_back(strides_of(id));
    executables_.push_back(compile_bound(engine, source, segment.program, std::move(strides)));
    check_memory_limit(*executables_.back(), Stage::compile, memory_.bytes);
  }
  if (engine->session() == nullptr) return;
  plan_ = std::make_unique<const DevicePlan>(*this);
  replays_ = std::make_unique<RankReplays>(*this, *plan_);
}
RankExecutable::~RankExecutable() = default;

void RankExecutable::place_parts() {
  for (const PartOfTensor& part : rank_.parts) {
    const BoundTensor& whole = rank_.program.tensors[part.whole];
    std::vector<int64_t> strides = dense_strides(whole.shape);
    int64_t cell = 0;
    for (size_t d = 0; d < strides.size(); ++d) cell += part.at[d] * strides[d];
    if (first_of_run(whole.shape, box_of(rank_.program, part))) strides.clear();
    size_t offset = static_cast<size_t>(cell) * byte_size(whole.type);
    placed_[part.part] = PlacedPart{part.whole, offset, std::move(strides)};
  }
}

RankExecutable::PlaceOf RankExecutable::place_of(TensorId id) const {
  TensorId storage = storage_of(rank_.program, id);
  const std::optional<PlacedPart>& part = placed_[storage];
  return part ? PlaceOf{part->whole, part->offset} : PlaceOf{storage, 0};
}

void RankExecutable::plan_own_copies() {
  for (size_t e = 0; e < rank_.exchanges.size(); ++e) {
    const Exchange& what = rank_.exchanges[e].what;
    const Shape& source = rank_.program.tensors[what.source].shape;
    const Shape& result = rank_.program.tensors[what.result].shape;
    std::vector<BoxLevels>& copies = own_copies_.emplace_back();
    for (const RankMemory::Own& own : memory_.exchanges[e].own) {
      const Box& to = what.receives[own.received].box;
      if (to.empty()) continue;
      // Where the whole source lies from the result's first cell.
      Box there = moved(relative(whole_box(source), what.sends[own.sent].box.lo), to.lo);
      copies.push_back(levels_of(result, there, to));
    }
  }
}

std::unique_ptr<HostMemory> RankExecutable::arena() const {
  {
    std::lock_guard lock(mutex_);
    if (spare_) return std::move(spare_);
  }
  return std::make_unique<HostMemory>(*engine_, std::max<size_t>(memory_.bytes, 1));
}

// The elements of a run.
class RankExecutable::Run {
 public:
  Run(const RankExecutable& of, RankStore& store, size_t rank,
      const std::vector<TensorView>& inputs, const std::vector<TensorView>& outputs)
      : of_(of),
        program_(of.rank_.program),
        store_(store),
        rank_(rank),
        data_(program_.tensors.size(), nullptr) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      data_[program_.inputs[i]] = store.bring_in(inputs[i]);
    }
    // A tensor that is an input too, or an output twice, is copied at the end.
    for (size_t o = 0; o < outputs.size(); ++o) {
      TensorId storage = storage_of(program_, program_.outputs[o]);
      rooms_.push_back(store.make_room(outputs[o]));
      if (data_[storage] == nullptr) data_[storage] = rooms_.back();
    }
    for (TensorId id : program_.tensors.ids()) place(id);
  }

  // The outputs are there behind finish() of the store.
  void run(const std::vector<TensorView>& outputs) {
    const std::vector<SegmentStep>& steps = of_.segmented_.steps;
    for (size_t s = 0; s < steps.size(); ++s) {
      clear_first_read(s);
      size_t number = steps[s].number;
      if (steps[s].kind == SegmentStep::Kind::segment) {
        segment(number);
      } else if (steps[s].kind == SegmentStep::Kind::begin) {
        begin(number);
      } else {
        end(number);
      }
    }
    for (size_t o = 0; o < outputs.size(); ++o) {
      const std::byte* from = data(program_.outputs[o]);
      size_t bytes = byte_count(outputs[o]);
      if (from != rooms_[o] && bytes != 0) store_.copy(rooms_[o], from, bytes);
    }
  }

 private:
  void place(TensorId id) {
    const BoundTensor& tensor = program_.tensors[id];
    if (data_[id] != nullptr) return;
    if (!of_.memory_.places[id] || tensor.constant) return;
    std::byte* elsewhere = store_.place_of(id);
    data_[id] = elsewhere != nullptr ? elsewhere : store_.arena() + *of_.memory_.places[id];
  }

  std::byte* data(TensorId id) {
    TensorId storage = storage_of(program_, id);
    if (const auto& part = of_.placed_[storage]) return data(part->whole) + part->offset;
    return program_.tensors[storage].constant ? store_.constant(storage) : data_[storage];
  }
  TensorView view(TensorId id) {
    const BoundTensor& tensor = program_.tensors[id];
    return {data(id), tensor.type, tensor.shape, of_.strides_of(id)};
  }
  void clear(TensorId id) {
    size_t bytes = byte_count(view(id));
    if (bytes != 0) store_.clear(data(id), bytes);
  }

  void clear_first_read(size_t step) {
    for (const RankMemory::Zeros& zeros : of_.memory_.zeros) {
      if (zeros.step == step) clear(zeros.tensor);
    }
  }

  void segment(size_t s) {
    const Segment& segment = of_.segmented_.segments[s];
    std::vector<TensorView> inputs, outputs;
    for (TensorId id : segment.inputs) inputs.push_back(view(id));
    for (TensorId id : segment.outputs) outputs.push_back(view(id));
    store_.run_segment(s, std::move(inputs), std::move(outputs));
  }

  // The bytes of a part, in the tensor or in the arena.
  std::byte* at(const RankMemory::Part& part, TensorId tensor) {
    return (part.in_tensor ? data(tensor) : store_.arena()) + part.offset;
  }

  void begin(size_t e) {
    const Exchange& what = of_.rank_.exchanges[e].what;
    const RankMemory::Moved& moved = of_.memory_.exchanges[e];
    if (moved.clears) clear(what.result);
    RankStore::Moved parts;
    parts.source = data(what.source);
    parts.result = data(what.result);
    std::vector<const std::byte*> own = send(what, moved, parts);
    receive(what, moved, own, parts);
    store_.begin(e, std::move(parts));
  }

  void end(size_t e) { store_.end(e); }

  bool is_own(const Exchange::Part& part) const { return part.rank == static_cast<int64_t>(rank_); }

  // Returns the parts for this rank itself, where they are combined.
  std::vector<const std::byte*> send(const Exchange& what, const RankMemory::Moved& moved,
                                     RankStore::Moved& parts) {
    std::vector<const std::byte*> own;
    for (size_t i = 0; i < what.sends.size(); ++i) {
      if (is_own(what.sends[i]) && !what.reduction) continue;
      const RankMemory::Part& part = moved.sends[i];
      std::byte* bytes = at(part, what.source);
      if (!part.in_tensor) parts.packed.push_back({i, bytes});
      if (is_own(what.sends[i])) {
        own.push_back(bytes);
      } else {
        parts.sent.push_back({static_cast<size_t>(what.sends[i].rank), bytes, part.bytes});
      }
    }
    return own;
  }
  void receive(const Exchange& what, const RankMemory::Moved& moved,
               const std::vector<const std::byte*>& own, RankStore::Moved& parts) {
    size_t next_own = 0;
    for (size_t i = 0; i < what.receives.size(); ++i) {
      if (is_own(what.receives[i])) {
        parts.arrived.push_back(what.reduction ? own[next_own++] : nullptr);
        continue;
      }
      const RankMemory::Part& part = moved.receives[i];
      std::byte* bytes = at(part, what.result);
      parts.received.push_back({static_cast<size_t>(what.receives[i].rank), bytes, part.bytes});
      parts.arrived.push_back(part.in_tensor ? nullptr : bytes);
    }
  }

  const RankExecutable& of_;
  const BoundProgram& program_;
  RankStore& store_;
  size_t rank_;
  IdVector<TensorId, std::byte*> data_;
  std::vector<std::byte*> rooms_;  // of the outputs
};

void RankExecutable::run(Transport& transport, const std::shared_ptr<DeviceEnd>& device,
                         const std::vector<TensorView>& inputs,
                         const std::vector<TensorView>& outputs, double* given_ns) const {
  auto begin = std::chrono::steady_clock::now();
  auto given = [&] {
    std::chrono::duration<double, std::nano> now = std::chrono::steady_clock::now() - begin;
    if (given_ns != nullptr) *given_ns = now.count();
  };
  auto work = [&](RankStore& elements) {
    Run(*this, elements, transport.rank(), inputs, outputs).run(outputs);
  };
  std::shared_ptr<HostStore> host;
  std::shared_ptr<RankStore> store;
  try {
    if (plan_) {
      internal_check(device != nullptr, "ranks: a run without its device");
      if (replays_->run(transport, device, inputs, outputs, work, given)) return;
      store = std::make_shared<DeviceStore>(*this, *plan_, transport, device);
    } else {
      store = host = std::make_shared<HostStore>(*this, transport, arena());
    }
    work(*store);
    given();
    store->finish();
  } catch (const std::exception& error) {
    if (store) store->stop(error.what());
    transport.abort(error.what());
    bool over = store ? store->let_go() : device == nullptr || device->abort();
    if (!over && store) keep_for_ever(store);
    throw;
  }
  if (!host) return;
  std::lock_guard lock(mutex_);
  spare_ = host->take_arena();
}

}  // namespace tile
