#include "backends/cpu/emit/running_emitter.h"

#include <algorithm>

#include "backends/cpu/values/combine.h"
#include "backends/cpu/values/types.h"

namespace tile::cpu {
namespace {

constexpr int64_t kLine = 64;          // bytes
constexpr int64_t kReadsAhead = 2048;  // bytes

// Of neighbours that lanes read, whole lines of them, where those lie that a later iteration reads;
// `back`: iterations move backwards.
std::optional<Form> read_later(const std::optional<Indices::Strided>& lanes, unsigned width,
                               int64_t size, bool back) {
  if (!lanes || lanes->stride != 1 || width * size < kLine) return std::nullopt;
  return lanes->uniform + Form{{}, (back ? -kReadsAhead : kReadsAhead) / size};
}

}  // namespace

void RunningEmitter::begin_loop(const nest::For& f, const Form& begin) {
  mirrored_ = c_.lanes.mask == nullptr && runs_back(f.body, f.variable, begin);
}

void RunningEmitter::end_loop() {
  running_.clear();
  updated_.clear();
  mirrored_ = false;
}

// Before the statements of an ordered loop: each cell that they update, as every lane finds it.
// Where results go past the caches, memory is the limit, and what a later vector reads is asked for
// across the ends of pages, where the processor's own prefetchers stop.
void RunningEmitter::begin_running(const nest::Block& statements) {
  bool streams = false;
  for (nest::BufferId b : c_.nest.buffers.ids()) {
    streams = streams || c_.memory.is_non_temporal(b);
  }
  for (const nest::Statement& s : statements) {
    if (const auto* guard = std::get_if<nest::If>(&s.what)) {
      begin_running(guard->then);
      begin_running(guard->otherwise);
      continue;
    }
    const auto& store = std::get<nest::Store>(s.what);
    if (store.kind == nest::StoreKind::assign) continue;
    for (const nest::Access& a : store.loads) {
      const nest::Buffer& b = c_.buffer(a.buffer);
      if (!streams || !c_.is_place_known(a) || b.scope != nest::Scope::argument) continue;
      auto size = static_cast<int64_t>(byte_size(b.type));
      auto line = read_later(c_.indices.strided(c_.offset_of(a)), c_.lanes.width, size, mirrored_);
      if (line) c_.memory.prefetch(a.buffer, *line);
    }
    Reference target = c_.memory.resolve(store.target, {}, c_.lanes);
    internal_check(target.cell >= 0, "cpu: a running value that is no register");
    if (target.lanes || running_.contains({target.buffer, target.cell})) continue;
    llvm::AllocaInst*& at = running_[{target.buffer, target.cell}];
    llvm::Value* old = on_every_lane(c_.memory.load(target, Lanes{}));
    {
      llvm::IRBuilderBase::InsertPointGuard guard(c_.ir);
      llvm::BasicBlock& entry = c_.function.getEntryBlock();
      c_.ir.SetInsertPoint(&entry, entry.begin());
      at = c_.ir.CreateAlloca(old->getType());
    }
    c_.cells.push_back(at);
    c_.ir.CreateStore(old, at);
  }
}

// What the cell holds in each lane's iteration; null: the same in all of them.
llvm::Value* RunningEmitter::running_value(const Reference& r) {
  auto at = r.cell < 0 || r.lanes ? running_.end() : running_.find({r.buffer, r.cell});
  if (at == running_.end()) return nullptr;
  return c_.ir.CreateLoad(at->second->getAllocatedType(), at->second);
}

// A running value on every lane: where a vector loop before made it, as it was made.
llvm::Value* RunningEmitter::on_every_lane(llvm::Value* value) {
  auto known = on_lanes_.find(value);
  bool fits = known != on_lanes_.end() &&
              known->second->getType() == with_lanes(value->getType(), c_.lanes.width);
  return fits ? known->second : c_.splat(value);
}

void RunningEmitter::update_running(const nest::Store& s, const Reference& target,
                                    llvm::Value* value, llvm::Value* factor) {
  internal_check(s.kind != nest::StoreKind::assign, "cpu: a running value that is assigned");
  llvm::Value* last_before = on_every_lane(c_.memory.load(target, Lanes{}));
  bool first = updated_.insert({target.buffer, target.cell}).second;
  RunningLanes before{first ? last_before : running_value(target), last_before};
  RunningLanes after = emit_running_lanes(
      c_.ir, s.kind, c_.type_of(target.buffer), before, c_.splat(value),
      factor == nullptr ? nullptr : c_.splat(factor), c_.lanes.mask, mirrored_, c_.half);
  c_.ir.CreateStore(after.each, running_.at({target.buffer, target.cell}));
  llvm::Value* last = c_.ir.CreateExtractElement(after.last, uint64_t{0});
  on_lanes_[last] = after.last;
  c_.memory.store(target, last, Lanes{});
}

// Whether all that an ordered loop reads and assigns moves one element back with each iteration, or
// is not moved by it: its lanes may then stand the other way round, and nothing is reversed.
bool RunningEmitter::runs_back(const nest::Block& statements, const std::string& variable,
                               const Form& begin) {
  auto moves = [&](const nest::Access& a) {
    return std::any_of(a.index.begin(), a.index.end(),
                       [&](const Expr& e) { return uses_variable(e, variable); });
  };
  auto back = [&](const nest::Access& a) {
    if (!c_.is_place_known(a)) return false;
    return !moves(a) || c_.move_of(a, variable, begin) == -1;
  };
  return std::all_of(statements.begin(), statements.end(), [&](const nest::Statement& s) {
    if (const auto* guard = std::get_if<nest::If>(&s.what)) {
      return std::all_of(guard->loads.begin(), guard->loads.end(), back) &&
             runs_back(guard->then, variable, begin) &&
             runs_back(guard->otherwise, variable, begin);
    }
    const auto& store = std::get<nest::Store>(s.what);
    bool seen = store.kind != nest::StoreKind::assign || moves(store.target);
    return seen && back(store.target) && std::all_of(store.loads.begin(), store.loads.end(), back);
  });
}

}  // namespace tile::cpu
