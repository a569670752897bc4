#include "runtime/engine/host_run.h"

#include <chrono>
#include <cstring>
#include <new>

#include "runtime/engine/addresses.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/strided_copy.h"

namespace tile {
namespace {

// Memory for temporaries, kept by the thread for the next run.
class Arena {
 public:
  std::byte* reserve(size_t bytes) {
    if (bytes > size_) {
      release();
      data_ = static_cast<std::byte*>(::operator new(bytes, std::align_val_t{64}));
      size_ = bytes;
    }
    return data_;
  }
  ~Arena() { release(); }

 private:
  void release() {
    if (data_ != nullptr) ::operator delete(data_, std::align_val_t{64});
    data_ = nullptr;
    size_ = 0;
  }
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

std::byte* arena_of_this_thread(size_t bytes) {
  thread_local Arena memory;
  return memory.reserve(bytes);
}

class HostRun {
 public:
  HostRun(const Executable& e, std::span<void* const> inputs, std::span<void* const> outputs,
          const RunOptions& options)
      : e_(e), inputs_(inputs), outputs_(outputs), options_(options) {
    size_t bytes = e.arena_bytes + e.workspace_bytes;
    if (bytes != 0) arena_ = arena_of_this_thread(bytes);
    launching_.threads = e.engine->options().threads;
    launching_.stream = options.stream;
    launching_.workspace = arena_ + e.arena_bytes;
  }

  void run() {
    for (auto [input, offset] : e_.densified) densify(input, arena_ + offset);
    for (const Launch& launch : e_.launches) {
      if (options_.cancelled && options_.cancelled()) {
        fail(Stage::run, "cancelled", {}, "the run was cancelled");
      }
      if (options_.profile == nullptr) {
        this->launch(launch);
      } else {
        auto begin = std::chrono::steady_clock::now();
        this->launch(launch);
        auto took = std::chrono::steady_clock::now() - begin;
        options_.profile->push_back(std::chrono::duration<double, std::nano>(took).count());
      }
    }
    for (const OutputCopy& copy : e_.copies) {
      const BoundTensor& t = e_.output(copy.output);
      size_t bytes = static_cast<size_t>(element_count(t.shape)) * byte_size(t.type);
      if (bytes != 0) std::memcpy(outputs_[copy.output], address(copy.from), bytes);
    }
  }

 private:
  void* address(TensorId id) const {
    Place at = e_.places[static_cast<size_t>(id)];
    switch (at.kind) {
      case Place::Kind::input:
        return inputs_[at.at];
      case Place::Kind::output:
        return outputs_[at.at];
      case Place::Kind::constant:
        // Kernels only read constants; their arguments have no const.
        return const_cast<std::byte*>(e_.program.tensors[at.at].constant->data());
      default:
        return arena_ + at.at;
    }
  }

  void densify(size_t input, std::byte* to) const {
    const InputLayout& layout = e_.inputs[input];
    TensorView view;
    view.data = inputs_[input];
    view.type = layout.type.type;
    view.shape = layout.type.shape;
    view.strides = layout.strides;
    if (byte_count(view) != 0) copy_to_dense(view, to);
  }

  void launch(const Launch& launch) const {
    size_t count = launch.arguments.size();
    Addresses pointers(count);
    for (size_t i = 0; i < count; ++i) pointers[i] = address(launch.arguments[i]);
    if (launch.sort) {
      const BoundTensor& source = e_.program.tensors[static_cast<size_t>(launch.sort->source)];
      e_.engine->backend().sort(*launch.sort, source, pointers[0], pointers[1], launching_);
    } else {
      e_.engine->backend().launch(*launch.code, pointers.all(), launch.parameters, launching_);
    }
  }

  const Executable& e_;
  std::span<void* const> inputs_, outputs_;
  const RunOptions& options_;
  std::byte* arena_ = nullptr;
  LaunchOptions launching_;
};

}  // namespace

void run_on_host(const Executable& executable, std::span<void* const> inputs,
                 std::span<void* const> outputs, const RunOptions& options) {
  HostRun(executable, inputs, outputs, options).run();
}

}  // namespace tile
