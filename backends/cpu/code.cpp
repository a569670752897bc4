#include "backends/cpu/code.h"

#include <tbb/parallel_for.h>
#include <tbb/partitioner.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <new>

#include "core/support/checked.h"
#include "core/support/diagnostic.h"

namespace tile::cpu {
namespace {

constexpr std::align_val_t kAlignment{64};
struct Release {
  void operator()(std::byte* memory) const { ::operator delete(memory, kAlignment); }
};
using Memory = std::unique_ptr<std::byte, Release>;

Memory allocate(size_t bytes) {
  try {
    return Memory(static_cast<std::byte*>(::operator new(bytes, kAlignment)));
  } catch (const std::bad_alloc&) {
    fail(Stage::run, "memory", {}, "no memory for " + std::to_string(bytes) + " bytes");
  }
}

// The calling thread's scratch memory; it grows and stays. Code never waits while it uses it, so
// the thread runs no other code in between.
std::byte* scratch(size_t bytes) {
  thread_local Memory memory;
  thread_local size_t capacity = 0;
  if (bytes > capacity) {
    memory.reset();
    capacity = 0;
    memory = allocate(bytes);
    capacity = bytes;
  }
  return memory.get();
}

}  // namespace

CpuCode::CpuCode(const nest::Nest& nest, const Plan& plan, const Target& target, Jit& jit,
                 std::span<const char> object)
    : object_(object.begin(), object.end()),
      threads_(std::max(1, target.threads)),
      arguments_(nest.argument_count()),
      workspace_bytes_(static_cast<size_t>(plan.workspace_bytes)),
      scratch_bytes_(static_cast<size_t>(plan.scratch_bytes)),
      linked_(jit.link(object)) {
  for (const nest::Parameter& p : nest.parameters) {
    if (p.from < 0) parameters_.push_back(p.name);
  }
  for (size_t i = 0; i < plan.entries.size(); ++i) {
    EntryPoint entry;
    entry.function = reinterpret_cast<Function>(linked_->address("entry_" + std::to_string(i)));
    entry.parallel = plan.entries[i].parallel;
    if (entry.parallel) {
      const auto& loop = std::get<nest::For>(nest.body[plan.entries[i].first].what);
      entry.extent = loop.extent;
      entry.grain = std::max<int64_t>(1, loop.grain);
    }
    entries_.push_back(std::move(entry));
  }
}

void CpuCode::launch(std::span<void* const> pointers, std::span<const int64_t> parameters,
                     const LaunchOptions& options) const {
  internal_check(pointers.size() == arguments_, "cpu: the number of arguments");
  internal_check(parameters.size() == parameters_.size(), "cpu: the number of parameters");
  Memory own;
  std::byte* workspace = options.workspace;
  if (workspace == nullptr && workspace_bytes_ > 0) {
    own = allocate(workspace_bytes_);
    workspace = own.get();
  }
  int limit = options.threads > 0 ? options.threads : threads_;
  Call call{pointers.data(), parameters.data(), workspace, limit};
  for (const EntryPoint& entry : entries_) run(entry, call);
}

void CpuCode::run_chunk(const EntryPoint& entry, const Call& call, int64_t begin,
                        int64_t end) const {
  entry.function(call.pointers, call.parameters, call.workspace, scratch(scratch_bytes_), begin,
                 end);
}

void CpuCode::run(const EntryPoint& entry, const Call& call) const {
  if (!entry.parallel) {
    run_chunk(entry, call, 0, 1);
    return;
  }
  int64_t extent = extent_of(entry, call.parameters);
  if (extent <= 0) return;
  int64_t chunks = std::clamp<int64_t>(extent / entry.grain, 1, call.threads);
  if (chunks == 1) {
    run_chunk(entry, call, 0, extent);
    return;
  }
  // Chunk c is [c * extent / chunks, …), without the product's overflow.
  int64_t size = extent / chunks, longer = extent % chunks;
  auto start = [&](int64_t c) { return c * size + std::min(c, longer); };
  // While it waits for the chunks, the thread takes up none of the host's own tasks: one of them
  // could run another program and use this thread's memory for temporaries.
  tbb::this_task_arena::isolate([&] {
    tbb::parallel_for(
        int64_t{0}, chunks, int64_t{1},
        [&](int64_t c) { run_chunk(entry, call, start(c), start(c + 1)); },
        tbb::static_partitioner());
  });
}

int64_t CpuCode::extent_of(const EntryPoint& entry, const int64_t* parameters) const {
  if (entry.extent.is_constant()) return entry.extent.value();
  auto value = [&](std::string_view name) -> std::optional<int64_t> {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (parameters_[i] == name) return parameters[i];
    }
    return std::nullopt;
  };
  try {
    std::optional<int64_t> extent = evaluate(entry.extent, value);
    internal_check(extent.has_value(), "cpu: a parallel loop's extent");
    return *extent;
  } catch (const Overflow&) {
    fail(Stage::run, "overflow", {}, "a loop's extent exceeds 64 bits");
  }
}

}  // namespace tile::cpu
