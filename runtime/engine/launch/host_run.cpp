#include "runtime/engine/launch/host_run.h"

#include <chrono>
#include <cstring>

#include "backends/thread_exit.h"
#include "backends/trace.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/inspect/names.h"
#include "runtime/engine/launch/pointer_array.h"
#include "runtime/engine/launch/strided_copy.h"

namespace tile {
namespace {

// Memory for temporaries, kept by the thread for the next run.
std::byte* arena_of_this_thread(size_t bytes) {
  [[gnu::tls_model("initial-exec")]] constinit thread_local ThreadMemory memory;
  return memory.reserve(bytes);
}

class HostRun {
 public:
  HostRun(const Executable& e, void* const* tensors, const RunOptions& options)
      : e_(e), tensors_(tensors), options_(options) {
    size_t bytes = e.arena_bytes + e.workspace_bytes;
    if (bytes != 0) {
      arena_ = options.memory != nullptr ? options.memory : arena_of_this_thread(bytes);
    }
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
    if (argument.base == Base::given) return tensors_[argument.at];
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
    if (bytes != 0) std::memcpy(tensors_[output], address(argument_of(e_, copy.from)), bytes);
  }

  const Executable& e_;
  void* const* tensors_;
  const RunOptions& options_;
  std::byte* arena_ = nullptr;
  LaunchOptions launching_;
};

}  // namespace

void run_on_host(const Executable& executable, void* const* tensors, const RunOptions& options) {
  HostRun(executable, tensors, options).run();
}

}  // namespace tile
