#include "runtime/engine/live_executable.h"

#include "runtime/engine/engine.h"
#include "runtime/engine/launch/dlpack_types.h"

namespace tile {

LiveExecutable::LiveExecutable(std::shared_ptr<const Executable> first,
                               std::weak_ptr<LoadedProgram> program)
    : program_(std::move(program)),
      source_(first->source),
      owned_(std::move(first)),
      current_(owned_.get()) {
  for (size_t i = 0; i < owned_->bound.outputs.size(); ++i) {
    const BoundTensor& t = owned_->output(i);
    std::vector<int64_t> strides(t.shape.size());
    // Those of no elements may be more than a number holds.
    if (element_count(t.shape) != 0) strides = dense_strides(t.shape);
    outputs_.push_back({t.type, t.shape, std::move(strides), device_of(*owned_->engine)});
  }
}

void LiveExecutable::replace(std::shared_ptr<const Executable> next) noexcept {
  {
    std::lock_guard lock(mutex_);
    owned_.swap(next);
    current_.store(owned_.get(), std::memory_order_release);
  }
  if (std::shared_ptr<LoadedProgram> program = program_.lock()) program->replaced(*this);
  retire(std::move(next));
}

}  // namespace tile
