#include "runtime/engine/launch/host_run.h"

#include <chrono>
#include <cstring>
#include <optional>

#include "backends/thread_exit.h"
#include "backends/trace.h"
#include "runtime/engine/arguments/memory_errors.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/inspect/names.h"
#include "runtime/engine/launch/host_memory.h"
#include "runtime/engine/launch/pointer_array.h"
#include "runtime/engine/launch/strided_copy.h"
#include "runtime/engine/own_code.h"
#include "runtime/engine/steps/loop_run.h"

namespace tile {
namespace {

[[gnu::tls_model("initial-exec")]] constinit thread_local ThreadMemory memory_of_this_thread;
[[gnu::tls_model("initial-exec")]] constinit thread_local bool memory_is_in_use = false;

// Memory for temporaries: given by the caller, from the host's allocator, or kept by the thread for
// the next run. A host whose threads do a run's loops may begin another run on the thread that
// waits for them, which then takes memory of its own.
class Arena {
 public:
  Arena(const Engine& engine, size_t bytes, std::byte* given) {
    if (bytes == 0) return;
    if (given != nullptr) {
      data_ = given;
    } else if (engine.options().host_allocator.is_given() || memory_is_in_use) {
      own_.emplace(engine, bytes);
      data_ = own_->data();
    } else {
      data_ = memory_of_this_thread.reserve(bytes);
      kept_ = memory_is_in_use = true;
    }
  }
  ~Arena() {
    if (kept_) memory_is_in_use = false;
  }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  bool kept_ = false;
  std::optional<HostMemory> own_;
};

Arena arena_for(const Executable& e, std::byte* given) {
  try {
    return Arena(*e.engine, e.arena_bytes + e.workspace_bytes, given);
  } catch (const std::bad_alloc&) {
    fail_temporaries(e, {.code = "memory", .message = "out of memory", .hint = "", .span = {}});
  }
}

class HostRun {
 public:
  HostRun(const Executable& e, void* const* tensors, const RunOptions& options)
      : e_(e),
        tensors_(tensors),
        options_(options),
        memory_(arena_for(e, options.memory)),
        arena_(memory_.data()) {
    launching_.pool = e.engine->pool();
    launching_.threads = e.engine->options().threads;
    launching_.stream = options.stream;
    launching_.control = options.control;
    launching_.workspace = arena_ + e.arena_bytes;
  }

  void run() {
    for (auto [input, offset] : e_.densified) densify(input, arena_ + offset);
    const CallPlan::Argument* arguments = e_.call.arguments.data();
    for (const Launch& launch : e_.launches) {
      if (options_.control != nullptr && options_.control->is_over()) {
        throw options_.control->reason(launch.where);
      }
      launching_.where = launch.where;
      options_.profile == nullptr ? start(launch, arguments) : profile(launch, arguments);
      arguments += launch.arguments.size() + launch.prepared.size();
    }
    for (const OutputCopy& copy : e_.copies) this->copy(copy);
  }

 private:
  void* address(const CallPlan::Argument& argument) const {
    using Base = CallPlan::Argument::Base;
    if (argument.base == Base::given) {
      return static_cast<std::byte*>(tensors_[argument.at]) + argument.begin;
    }
    if (argument.base == Base::arena) return arena_ + argument.at;
    // Kernels only read constants; their arguments have no const.
    return reinterpret_cast<void*>(argument.at);
  }

  void start(const Launch& launch, const CallPlan::Argument* arguments) const {
    trace::Scope span("launch", [&] { return name_of(e_, launch); });
    size_t count = launch.arguments.size() + launch.prepared.size();
    PointerArray pointers(count);
    for (size_t i = 0; i < count; ++i) pointers[i] = address(arguments[i]);
    Backend& backend = e_.engine->backend();
    if (launch.sort) {
      const BoundTensor& source = e_.program.tensors[launch.sort->source];
      backend.sort(*launch.sort, source, pointers[0], pointers[1], launching_);
    } else if (launch.loop) {
      run_loop(*launch.loop, pointers.all(), launching_.workspace, options_);
    } else {
      backend.launch(*launch.code, pointers.all(), launch.parameters, launching_);
    }
  }

  void profile(const Launch& launch, const CallPlan::Argument* arguments) const {
    auto begin = std::chrono::steady_clock::now();
    start(launch, arguments);
    auto took = std::chrono::steady_clock::now() - begin;
    options_.profile->push_back(std::chrono::duration<double, std::nano>(took).count());
  }

  void densify(size_t input, std::byte* to) const {
    const InputLayout& layout = e_.inputs[input];
    TensorView view;
    view.data = tensors_[input];
    view.type = layout.type.type;
    view.shape = layout.type.shape;
    view.strides = layout.strides;
    if (byte_count(view) != 0) copy_to_dense(view, to);
  }

  void copy(const OutputCopy& copy) const {
    size_t output = e_.inputs.size() + copy.output, bytes = e_.call.tensors[output].bytes;
    const void* from = address(argument_of(e_, copy.from));
    if (bytes != 0 && from != tensors_[output]) std::memcpy(tensors_[output], from, bytes);
  }

  const Executable& e_;
  void* const* tensors_;
  const RunOptions& options_;
  Arena memory_;
  std::byte* arena_;
  LaunchOptions launching_;
};

}  // namespace

void run_on_host(const Executable& executable, void* const* tensors, const RunOptions& options) {
  if (executable.own_code_later) executable.own_code_later->ran();
  HostRun(executable, tensors, options).run();
}

}  // namespace tile
