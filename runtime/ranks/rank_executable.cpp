#include "runtime/ranks/rank_executable.h"

#include <algorithm>
#include <utility>

#include "core/ir/analysis/uses.h"
#include "runtime/engine/compile_bound.h"
#include "runtime/engine/launch/memory_plan.h"
#include "runtime/engine/launch/strided_copy.h"
#include "runtime/ranks/device/device_store.h"
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

RankExecutable::RankExecutable(const std::shared_ptr<Engine>& engine,
                               const std::shared_ptr<const Program>& source, RankProgram rank,
                               std::vector<std::string> names,
                               std::vector<std::optional<Collective>> collectives)
    : engine_(engine),
      source_(source),
      rank_(std::move(rank)),
      segments_(segments_of(rank_)),
      names_(std::move(names)),
      collectives_(std::move(collectives)),
      memory_(plan_memory(rank_, segments_)) {
  for (const Segment& segment : segments_) {
    executables_.push_back(segment.empty() ? nullptr
                                           : compile_bound(engine, source, segment.program));
    if (executables_.back()) {
      check_memory_limit(*executables_.back(), Stage::compile, memory_.bytes);
    }
  }
  if (engine->session() != nullptr) plan_ = std::make_unique<const DevicePlan>(*this);
}
RankExecutable::~RankExecutable() = default;

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

  void run(const std::vector<TensorView>& outputs) {
    for (size_t s = 0; s < of_.segments_.size(); ++s) {
      segment(s);
      if (s < of_.rank_.exchanges.size()) exchange(s);
    }
    for (size_t o = 0; o < outputs.size(); ++o) {
      const std::byte* from = data(program_.outputs[o]);
      size_t bytes = byte_count(outputs[o]);
      if (from != rooms_[o] && bytes != 0) store_.copy(rooms_[o], from, bytes);
    }
    store_.finish();
  }

 private:
  void place(TensorId id) {
    const BoundTensor& tensor = program_.tensors[id];
    if (data_[id] != nullptr) return;
    if (of_.memory_.places[id] && !tensor.constant) {
      data_[id] = store_.arena() + *of_.memory_.places[id];
    }
  }

  std::byte* data(TensorId id) {
    TensorId storage = storage_of(program_, id);
    return program_.tensors[storage].constant ? store_.constant(storage) : data_[storage];
  }
  TensorView view(TensorId id) {
    const BoundTensor& tensor = program_.tensors[id];
    return {data(id), tensor.type, tensor.shape, {}};
  }
  void clear(TensorId id) {
    size_t bytes = byte_count(view(id));
    if (bytes != 0) store_.clear(data(id), bytes);
  }

  void clear_first_read(size_t time) {
    for (const RankMemory::Zeros& zeros : of_.memory_.zeros) {
      if (zeros.time == time) clear(zeros.tensor);
    }
  }

  void segment(size_t s) {
    const Segment& segment = of_.segments_[s];
    clear_first_read(2 * s);
    if (!of_.executables_[s]) return;
    std::vector<TensorView> inputs, outputs;
    for (TensorId id : segment.inputs) inputs.push_back(view(id));
    for (TensorId id : segment.outputs) outputs.push_back(view(id));
    store_.run_segment(s, std::move(inputs), std::move(outputs));
  }

  // The bytes of a part, in the tensor or in the arena.
  std::byte* at(const RankMemory::Part& part, TensorId tensor) {
    return (part.in_tensor ? data(tensor) : store_.arena()) + part.offset;
  }

  void exchange(size_t e) {
    const Exchange& what = of_.rank_.exchanges[e].what;
    const RankMemory::Moved& moved = of_.memory_.exchanges[e];
    clear_first_read(2 * e + 1);
    if (moved.clears) clear(what.result);
    auto self = static_cast<int64_t>(rank_);
    std::vector<RankStore::Part> sent, received;
    std::vector<const std::byte*> own;  // parts for this rank itself
    for (size_t i = 0; i < what.sends.size(); ++i) {
      std::byte* bytes = packed(e, i, moved.sends[i]);
      if (what.sends[i].rank == self) {
        own.push_back(bytes);
      } else {
        sent.push_back({static_cast<size_t>(what.sends[i].rank), bytes, moved.sends[i].bytes});
      }
    }
    std::vector<const std::byte*> parts;  // that are to be unpacked
    size_t next_own = 0;
    for (size_t i = 0; i < what.receives.size(); ++i) {
      if (what.receives[i].rank == self) {
        parts.push_back(own[next_own++]);
        continue;
      }
      std::byte* bytes = at(moved.receives[i], what.result);
      received.push_back(
          {static_cast<size_t>(what.receives[i].rank), bytes, moved.receives[i].bytes});
      parts.push_back(moved.receives[i].in_tensor ? nullptr : bytes);
    }
    store_.exchange(e, data(what.source), sent, received, data(what.result));
    store_.unpack(e, parts, data(what.result));
  }

  std::byte* packed(size_t e, size_t i, const RankMemory::Part& part) {
    const Exchange& what = of_.rank_.exchanges[e].what;
    std::byte* bytes = at(part, what.source);
    if (!part.in_tensor) store_.pack(e, i, data(what.source), bytes);
    return bytes;
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
                         const std::vector<TensorView>& outputs) const {
  std::shared_ptr<HostStore> host;
  std::shared_ptr<RankStore> store;
  try {
    if (plan_) {
      internal_check(device != nullptr, "ranks: a run without its device");
      store = std::make_shared<DeviceStore>(*this, *plan_, transport, device);
    } else {
      store = host = std::make_shared<HostStore>(*this, transport, arena());
    }
    Run(*this, *store, transport.rank(), inputs, outputs).run(outputs);
  } catch (const std::exception& error) {
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
