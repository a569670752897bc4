#include "runtime/engine/launch/memory_plan.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/fusion/step_order.h"
#include "core/ir/analysis/uses.h"
#include "core/support/checked.h"
#include "runtime/engine/arguments/memory_errors.h"
#include "runtime/engine/constants.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/launch/input_strides.h"
#include "runtime/engine/launch/verify_launches.h"
#include "runtime/engine/steps/loop_run.h"

namespace tile {
namespace {

constexpr size_t kAlignment = 256;

size_t rounded(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

size_t bytes_of(const BoundTensor& t) {
  int64_t bytes = checked_mul(element_count(t.shape), static_cast<int64_t>(byte_size(t.type)));
  return rounded(static_cast<size_t>(std::max<int64_t>(bytes, 1)));
}

class Planner {
 public:
  explicit Planner(Executable& executable) : e_(executable), p_(executable.program) {}

  void run() {
    e_.places.assign(p_.tensors.size(), {});
    place_inputs();
    place_constants();
    place_outputs();
    place_temporaries();
    resolve_views();
  }

 private:
  Place& place(TensorId id) { return e_.places[id]; }

  void place_inputs() {
    for (size_t i = 0; i < p_.inputs.size(); ++i) {
      place(p_.inputs[i]) = {Place::Kind::input, i};
    }
  }
  void place_constants() {
    for (size_t id = 0; id < p_.tensors.size(); ++id) {
      if (p_.tensors[id].constant) e_.places[id] = {Place::Kind::constant, id};
    }
  }
  // An output's elements are computed in place where its storage is a tensor of its own.
  void place_outputs() {
    for (size_t i = 0; i < p_.outputs.size(); ++i) {
      TensorId storage = storage_of(p_, p_.outputs[i]);
      if (place(storage).kind == Place::Kind::none) {
        place(storage) = {Place::Kind::output, i};
      } else {
        e_.copies.push_back({storage, i});
      }
    }
  }
  void place_temporaries() {
    std::map<TensorId, Life> lives;
    for (size_t at = 0; at < e_.launches.size(); ++at) {
      for (TensorId id : e_.launches[at].arguments) {
        TensorId storage = storage_of(p_, id);
        if (place(storage).kind != Place::Kind::none) continue;
        Life& life = lives[storage];
        life.at(at);
        life.bytes = bytes_of(p_.tensors[storage]);
      }
    }
    std::vector<Life*> list;
    for (auto& [id, life] : lives) list.push_back(&life);
    size_t total = place_lives(list);
    for (auto& [id, life] : lives) place(id) = {Place::Kind::arena, life.offset};
    for (size_t input : inputs_to_densify(e_)) {
      TensorId id = p_.inputs[input];
      e_.densified.emplace_back(input, total);
      place(id) = {Place::Kind::arena, total};
      total += bytes_of(p_.tensors[id]);
    }
    e_.arena_bytes = rounded(total);
    for (const Launch& launch : e_.launches) {
      e_.workspace_bytes = std::max(e_.workspace_bytes, workspace_of(launch));
    }
  }
  size_t workspace_of(const Launch& launch) const {
    if (launch.loop) return loop_workspace(*launch.loop);
    if (!launch.sort) return launch.code->workspace_bytes();
    return e_.engine->backend().sort_workspace(*launch.sort, p_.tensors[launch.sort->source]);
  }
  void resolve_views() {
    for (size_t i = 0; i < p_.tensors.size(); ++i) {
      auto id = TensorId(i);
      if (p_.tensors[i].view_of) place(id) = place(storage_of(p_, id));
    }
  }

  Executable& e_;
  const BoundProgram& p_;
};

// The most that a launch takes for each thread.
size_t scratch_of(const Executable& e) {
  size_t scratch = 0;
  for (const Launch& launch : e.launches) {
    if (launch.code) scratch = std::max(scratch, launch.code->scratch_bytes());
    if (launch.loop) scratch = std::max(scratch, scratch_of(*launch.loop->step));
  }
  return scratch;
}

}  // namespace

// First fit over lives in order of their size: large ones first leave the fewest holes.
size_t place_lives(std::vector<Life*> lives) {
  std::stable_sort(lives.begin(), lives.end(),
                   [](const Life* a, const Life* b) { return a->bytes > b->bytes; });
  std::vector<Life*> placed;  // in order of their offsets
  size_t total = 0;
  for (Life* life : lives) {
    life->offset = 0;
    for (const Life* other : placed) {
      if (other->first > life->last || life->first > other->last) continue;
      if (life->offset + life->bytes <= other->offset) break;
      life->offset = std::max(life->offset, other->offset + other->bytes);
    }
    auto behind = [](const Life* a, const Life* b) { return a->offset < b->offset; };
    placed.insert(std::upper_bound(placed.begin(), placed.end(), life, behind), life);
    total = std::max(total, life->offset + life->bytes);
  }
  return total;
}

size_t temporary_bytes(const BoundProgram& program, const std::vector<Step>& steps) {
  std::set<TensorId> elsewhere(program.inputs.begin(), program.inputs.end());
  for (TensorId id : program.outputs) elsewhere.insert(storage_of(program, id));
  std::map<TensorId, Life> lives;
  for (size_t at = 0; at < steps.size(); ++at) {
    std::vector<TensorId> all;
    if (const auto* kernel = std::get_if<Kernel>(&steps[at])) {
      all = arguments_of(*kernel);
    } else {
      StepUse use = use_of(steps[at], program);
      all = std::move(use.reads);
      all.insert(all.end(), use.makes.begin(), use.makes.end());
    }
    for (TensorId id : all) {
      TensorId storage = storage_of(program, id);
      if (elsewhere.contains(storage) || program.tensors[storage].constant) continue;
      lives[storage].at(at);
      lives[storage].bytes = bytes_of(program.tensors[storage]);
    }
  }
  std::vector<Life*> list;
  for (auto& [id, life] : lives) list.push_back(&life);
  return rounded(place_lives(list));
}

size_t machine_memory() {
  static const size_t bytes = [] {
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? static_cast<size_t>(pages) * static_cast<size_t>(size)
                                 : SIZE_MAX;
  }();
  return bytes;
}

size_t memory_needed(const Executable& e) {
  if (e.engine->is_reference()) {
    // The interpreter makes every tensor of the program.
    size_t bytes = 0;
    for (const BoundTensor& t : e.bound.tensors) bytes += bytes_of(t);
    for (TensorId id : e.bound.inputs) bytes -= bytes_of(e.bound.tensors[id]);
    std::set<TensorId> outputs(e.bound.outputs.begin(), e.bound.outputs.end());
    for (TensorId id : e.bound.inputs) outputs.erase(id);
    for (TensorId id : outputs) bytes -= bytes_of(e.bound.tensors[id]);
    return bytes;
  }
  // Threads of a launch have buffers of their own beside its workspace.
  const EngineOptions& options = e.engine->options();
  auto threads = static_cast<size_t>(options.threads > 0 ? options.threads
                                                         : std::max(1, e.engine->target().threads));
  return e.arena_bytes + e.workspace_bytes + threads * scratch_of(e) + constant_bytes(e);
}

void check_memory_limit(const Executable& e, Stage stage, size_t more) {
  size_t limit = e.engine->options().memory_limit;
  bool host = e.engine->session() == nullptr && !e.engine->is_reference();
  if (limit == 0 && host) limit = machine_memory();  // more is no use
  if (limit == 0) return;
  size_t needed = memory_needed(e) + more;
  if (needed > limit) fail_memory_limit(e, stage, needed, limit);
}

void plan_memory(Executable& executable) {
  Planner(executable).run();
  verify_launches(executable);
  check_memory_limit(executable, Stage::compile);
}

}  // namespace tile
