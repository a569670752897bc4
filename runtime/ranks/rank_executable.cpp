#include "runtime/ranks/rank_executable.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/ir/analysis/uses.h"
#include "core/ir/ranks/reduce_part.h"
#include "runtime/engine/compile_bound.h"
#include "runtime/engine/launch/memory_plan.h"
#include "runtime/engine/launch/strided_copy.h"
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
                               std::vector<std::string> names)
    : engine_(engine),
      source_(source),
      rank_(std::move(rank)),
      segments_(segments_of(rank_)),
      names_(std::move(names)),
      memory_(plan_memory(rank_, segments_)) {
  for (const Segment& segment : segments_) {
    executables_.push_back(segment.empty() ? nullptr
                                           : compile_bound(engine, source, segment.program));
    if (executables_.back()) {
      check_memory_limit(*executables_.back(), Stage::compile, memory_.bytes);
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
  Run(const RankExecutable& of, Transport& transport, std::byte* arena,
      const std::vector<TensorView>& inputs, const std::vector<TensorView>& outputs)
      : of_(of),
        program_(of.rank_.program),
        transport_(transport),
        arena_(arena),
        data_(program_.tensors.size(), nullptr) {
    for (size_t i = 0; i < inputs.size(); ++i) set(program_.inputs[i], inputs[i].data);
    // A tensor that is an input too, or an output twice, is copied at the end.
    for (size_t o = 0; o < outputs.size(); ++o) {
      TensorId storage = storage_of(program_, program_.outputs[o]);
      if (data_[storage] == nullptr) set(storage, outputs[o].data);
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
      if (from != outputs[o].data && bytes != 0) std::memcpy(outputs[o].data, from, bytes);
    }
  }

 private:
  void set(TensorId id, void* data) { data_[id] = static_cast<std::byte*>(data); }

  void place(TensorId id) {
    const BoundTensor& tensor = program_.tensors[id];
    if (data_[id] != nullptr) return;
    if (tensor.constant) {
      // Segments have constants of their own; exchanges only read them.
      set(id, const_cast<std::byte*>(tensor.constant->data()));
    } else if (of_.memory_.places[id]) {
      set(id, arena_ + *of_.memory_.places[id]);
    }
  }

  std::byte* data(TensorId id) { return data_[storage_of(program_, id)]; }
  TensorView view(TensorId id) {
    const BoundTensor& tensor = program_.tensors[id];
    return {data(id), tensor.type, tensor.shape, {}};
  }
  void clear(TensorId id) {
    size_t bytes = byte_count(view(id));
    if (bytes != 0) std::memset(data(id), 0, bytes);
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
    tile::run(*of_.executables_[s], inputs, outputs);
  }

  // The bytes of a part, in the tensor or in the arena.
  std::byte* at(const RankMemory::Part& part, TensorId tensor) {
    return (part.in_tensor ? data(tensor) : arena_) + part.offset;
  }

  void exchange(size_t e) {
    const Exchange& what = of_.rank_.exchanges[e].what;
    const RankMemory::Moved& moved = of_.memory_.exchanges[e];
    clear_first_read(2 * e + 1);
    if (moved.clears) clear(what.result);
    auto self = static_cast<int64_t>(transport_.rank());
    std::vector<SentPart> sent;
    std::vector<const std::byte*> own;  // parts for this rank itself
    for (size_t i = 0; i < what.sends.size(); ++i) {
      const std::byte* bytes = packed(what, i, moved.sends[i]);
      if (what.sends[i].rank == self) {
        own.push_back(bytes);
      } else {
        sent.push_back({static_cast<size_t>(what.sends[i].rank), bytes, moved.sends[i].bytes});
      }
    }
    std::vector<ReceivedPart> received;
    for (size_t i = 0; i < what.receives.size(); ++i) {
      if (what.receives[i].rank == self) continue;
      received.push_back({static_cast<size_t>(what.receives[i].rank),
                          at(moved.receives[i], what.result), moved.receives[i].bytes});
    }
    try {
      transport_.exchange(sent, received, of_.names_[e]);
    } catch (const Failure& failure) {
      Diagnostic located = failure.diagnostic();
      located.span = what.span;
      throw Failure(located);
    }
    unpack(what, moved, own);
  }

  const std::byte* packed(const Exchange& what, size_t i, const RankMemory::Part& part) {
    const BoundTensor& source = program_.tensors[what.source];
    std::byte* bytes = at(part, what.source);
    if (!part.in_tensor) {
      copy_out(data(what.source), source.shape, what.sends[i].box, byte_size(source.type), bytes);
    }
    return bytes;
  }

  void unpack(const Exchange& what, const RankMemory::Moved& moved,
              const std::vector<const std::byte*>& own) {
    PartReducer reducer(what, program_.tensors[what.result]);
    std::byte* to = data(what.result);
    size_t next_own = 0;
    for (size_t i = 0; i < what.receives.size(); ++i) {
      const Exchange::Part& part = what.receives[i];
      bool is_own = part.rank == static_cast<int64_t>(transport_.rank());
      const std::byte* from = is_own ? own[next_own++] : at(moved.receives[i], what.result);
      if (is_own || !moved.receives[i].in_tensor) reducer.receive(part.box, from, to);
    }
  }

  const RankExecutable& of_;
  const BoundProgram& program_;
  Transport& transport_;
  std::byte* arena_;
  IdVector<TensorId, std::byte*> data_;
};

void RankExecutable::run(Transport& transport, const std::vector<TensorView>& inputs,
                         const std::vector<TensorView>& outputs) const {
  std::unique_ptr<HostMemory> memory;
  try {
    memory = arena();
    Run(*this, transport, memory->data(), inputs, outputs).run(outputs);
  } catch (const std::exception& error) {
    transport.abort(error.what());
    if (transport.in_flight() && memory)
      keep_for_ever(std::shared_ptr<HostMemory>(std::move(memory)));
    throw;
  }
  std::lock_guard lock(mutex_);
  spare_ = std::move(memory);
}

}  // namespace tile
