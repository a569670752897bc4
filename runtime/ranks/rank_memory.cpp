#include "runtime/ranks/rank_memory.h"

#include <algorithm>
#include <map>

#include "core/ir/analysis/uses.h"
#include "core/support/checked.h"
#include "runtime/engine/launch/memory_plan.h"

namespace tile {
namespace {

constexpr size_t kAlignment = 64;  // a cache line, and the widest vector

size_t rounded(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

size_t bytes_of(const BoundTensor& t) {
  int64_t bytes = checked_mul(element_count(t.shape), static_cast<int64_t>(byte_size(t.type)));
  return static_cast<size_t>(bytes);
}

class Planner {
 public:
  Planner(const RankProgram& rank, size_t number, const SegmentedProgram& segmented)
      : rank_(rank),
        self_(static_cast<int64_t>(number)),
        program_(rank.program),
        segmented_(segmented),
        given_(program_.tensors.size()) {
    for (const PartOfTensor& part : rank.parts) whole_of_.emplace(part.part, part.whole);
  }

  RankMemory run() {
    memory_.places.resize(program_.tensors.size());
    for (TensorId id : program_.inputs) given_[id] = true;
    for (TensorId id : program_.outputs) given_[storage_of(program_, id)] = true;
    for (size_t s = 0; s < segmented_.steps.size(); ++s) step(segmented_.steps[s], s);
    for (TensorId id : program_.outputs) read(id, segmented_.steps.size());
    place();
    return std::move(memory_);
  }

 private:
  bool in_arena(TensorId id) const { return !given_[id] && !program_.tensors[id].constant; }

  void step(const SegmentStep& step, size_t time) {
    if (step.kind == SegmentStep::Kind::begin) {
      begin(rank_.exchanges[step.number].what, time);
    } else if (step.kind == SegmentStep::Kind::end) {
      touch(rank_.exchanges[step.number].what.source, time);
      touch(rank_.exchanges[step.number].what.result, time);
      staging_[step.number].at(time);
    } else {
      for (TensorId id : segmented_.segments[step.number].inputs) read(id, time);
      for (TensorId id : segmented_.segments[step.number].outputs) touch(id, time);
    }
  }

  // What holds the tensor's elements.
  TensorId holder_of(TensorId id) const {
    id = storage_of(program_, id);
    auto part = whole_of_.find(id);
    return part == whole_of_.end() ? id : part->second;
  }

  void touch(TensorId id, size_t time) {
    id = holder_of(id);
    if (!in_arena(id)) return;
    Life& life = lives_[id];
    life.bytes = rounded(std::max<size_t>(bytes_of(program_.tensors[id]), 1));
    life.at(time);
  }
  void read(TensorId id, size_t time) {
    id = holder_of(id);
    if (in_arena(id) && !lives_.contains(id)) memory_.zeros.push_back({id, time});
    touch(id, time);
  }

  // Parts stand in the tensor where that is possible, and where it is the arena's: a transport that
  // failed may write to it later.
  RankMemory::Part part_of(const Exchange::Part& part, TensorId tensor, bool may_stay,
                           size_t& staged) {
    const BoundTensor& t = program_.tensors[tensor];
    size_t width = byte_size(t.type);
    RankMemory::Part at;
    at.bytes = static_cast<size_t>(part.box.count()) * width;
    std::optional<size_t> run = first_of_run(t.shape, part.box);
    at.in_tensor = at.bytes == 0 || (may_stay && run);
    at.offset = at.in_tensor ? run.value_or(0) * width : staged;
    if (!at.in_tensor) staged += rounded(at.bytes);
    return at;
  }

  void begin(const Exchange& e, size_t time) {
    read(e.source, time);
    touch(e.result, time);
    check_is_dense(e.result);
    RankMemory::Moved moved;
    if (!e.reduction) moved.own = own_parts(e);
    auto is_copied = [&](const Exchange::Part& part) { return !e.reduction && part.rank == self_; };
    size_t staged = 0;
    for (const Exchange::Part& part : e.sends) {
      moved.sends.push_back(is_copied(part) ? RankMemory::Part{true, 0, 0}
                                            : part_of(part, e.source, true, staged));
    }
    std::vector<Box> covered;
    for (const Exchange::Part& part : e.receives) {
      bool may_stay = !e.reduction && in_arena(e.result);
      moved.receives.push_back(is_copied(part) ? RankMemory::Part{true, 0, 0}
                                               : part_of(part, e.result, may_stay, staged));
      add_disjoint(covered, part.box);
    }
    int64_t cells = 0;
    for (const Box& box : covered) cells += box.count();
    moved.clears = !e.sparse && cells != element_count(program_.tensors[e.result].shape);
    Life& life = staging_.emplace_back();
    life.bytes = staged;
    life.at(time);
    memory_.exchanges.push_back(std::move(moved));
  }

  // The parts for the rank itself are received in the order in which they are sent.
  std::vector<RankMemory::Own> own_parts(const Exchange& e) const {
    std::vector<RankMemory::Own> own;
    for (size_t i = 0; i < e.sends.size(); ++i) {
      if (e.sends[i].rank == self_) own.push_back({i, 0});
    }
    size_t next = 0;
    for (size_t i = 0; i < e.receives.size(); ++i) {
      if (e.receives[i].rank == self_) own.at(next++).received = i;
    }
    internal_check(next == own.size(), "ranks: a rank gives itself what it does not take");
    return own;
  }

  // What an exchange sets of a tensor stands side by side there.
  void check_is_dense(TensorId result) const {
    for (const PartOfTensor& part : rank_.parts) {
      bool dense = part.part != result ||
                   first_of_run(program_.tensors[part.whole].shape, box_of(program_, part));
      internal_check(dense, "ranks: an exchange sets cells with strides");
    }
  }

  void place() {
    std::vector<Life*> list;
    for (auto& [id, life] : lives_) list.push_back(&life);
    for (Life& life : staging_) list.push_back(&life);
    memory_.bytes = place_lives(list);
    for (auto& [id, life] : lives_) memory_.places[id] = life.offset;
    for (size_t e = 0; e < staging_.size(); ++e) {
      for (auto* parts : {&memory_.exchanges[e].sends, &memory_.exchanges[e].receives}) {
        for (RankMemory::Part& part : *parts) {
          if (!part.in_tensor) part.offset += staging_[e].offset;
        }
      }
    }
  }

  const RankProgram& rank_;
  int64_t self_;
  const BoundProgram& program_;
  const SegmentedProgram& segmented_;
  std::map<TensorId, TensorId> whole_of_;  // by the part
  IdVector<TensorId, bool> given_;         // by the caller of a run
  std::map<TensorId, Life> lives_;
  std::vector<Life> staging_;  // of each exchange
  RankMemory memory_;
};

}  // namespace

// Behind the dimensions in which it has one cell such a box has all of each but the first.
std::optional<size_t> first_of_run(const Shape& shape, const Box& box) {
  size_t d = 0, cell = 0;
  while (d < shape.size() && box.hi[d] - box.lo[d] == 1) ++d;
  for (size_t rest = d + 1; rest < shape.size(); ++rest) {
    if (box.lo[rest] != 0 || box.hi[rest] != shape[rest]) return std::nullopt;
  }
  for (size_t i = 0; i < shape.size(); ++i) {
    cell = cell * static_cast<size_t>(shape[i]) + static_cast<size_t>(box.lo[i]);
  }
  return cell;
}

RankMemory plan_memory(const RankProgram& rank, size_t number, const SegmentedProgram& segmented) {
  return Planner(rank, number, segmented).run();
}

}  // namespace tile
