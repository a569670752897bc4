#include "runtime/engine/live_executable.h"

#include "runtime/engine/engine.h"
#include "runtime/engine/launch/dlpack_types.h"

namespace tile {
namespace {

// Those of no elements may be more than a number holds.
std::vector<int64_t> strides_of_dense(const Shape& shape) {
  return element_count(shape) == 0 ? std::vector<int64_t>(shape.size()) : dense_strides(shape);
}

}  // namespace

LiveExecutable::LiveExecutable(std::shared_ptr<const Executable> first,
                               std::weak_ptr<LoadedProgram> program)
    : program_(std::move(program)),
      source_(first->source),
      owned_(std::move(first)),
      current_(owned_.get()) {
  DLDevice device = device_of(*owned_->engine);
  for (const InputLayout& i : owned_->inputs) {
    std::vector<int64_t> strides = i.strides.empty() ? strides_of_dense(i.type.shape) : i.strides;
    inputs_.push_back({i.type.type, i.type.shape, std::move(strides), device});
  }
  for (size_t i = 0; i < owned_->bound.outputs.size(); ++i) {
    const BoundTensor& t = owned_->output(i);
    outputs_.push_back({t.type, t.shape, strides_of_dense(t.shape), device});
  }
}

void LiveExecutable::replace(std::shared_ptr<const Executable> next) noexcept {
  replace_where(nullptr, std::move(next));
}
void LiveExecutable::replace(const Executable& expected,
                             std::shared_ptr<const Executable> next) noexcept {
  replace_where(&expected, std::move(next));
}

void LiveExecutable::replace_where(const Executable* expected,
                                   std::shared_ptr<const Executable> next) noexcept {
  {
    std::lock_guard lock(mutex_);
    if (expected != nullptr && owned_.get() != expected) return;
    owned_.swap(next);
    current_.store(owned_.get(), std::memory_order_release);
  }
  if (std::shared_ptr<LoadedProgram> program = program_.lock()) program->replaced(*this);
  retire(std::move(next));
}

}  // namespace tile
