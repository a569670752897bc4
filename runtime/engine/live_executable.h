// An executable as a program and its callers share it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/engine/executable.h"

namespace tile {

class LoadedProgram;

// Tuning replaces what runs; runs under way keep what they began with. Thread safe.
class LiveExecutable : public Retirable {
 public:
  // Of a program, where runs find it, or of none.
  explicit LiveExecutable(std::shared_ptr<const Executable> first,
                          std::weak_ptr<LoadedProgram> program = {});

  // What runs now; good as long as the caller is in the ReadSection in which it asked.
  const Executable& current() const { return *current_.load(std::memory_order_acquire); }
  // The same to keep.
  std::shared_ptr<const Executable> snapshot() const {
    ReadSection section;
    return current().shared_from_this();
  }
  // The one that runs now may have been tuned by another thread meanwhile: the last to replace it
  // counts.
  void replace(std::shared_ptr<const Executable> next) noexcept;
  // Only where `expected` runs now.
  void replace(const Executable& expected, std::shared_ptr<const Executable> next) noexcept;

  // These do not change.
  const std::shared_ptr<const Program>& source() const { return source_; }
  // Strides of an output are those of dense elements.
  struct Output {
    DType type;
    Shape shape;
    std::vector<int64_t> strides;
    DLDevice device;
  };
  const std::vector<Output>& outputs() const { return outputs_; }
  // With the strides that they are compiled for.
  const std::vector<Output>& inputs() const { return inputs_; }

 private:
  // Null: whatever runs now.
  void replace_where(const Executable* expected, std::shared_ptr<const Executable> next) noexcept;

  std::weak_ptr<LoadedProgram> program_;
  std::shared_ptr<const Program> source_;
  std::vector<Output> inputs_, outputs_;
  std::mutex mutex_;
  std::shared_ptr<const Executable> owned_;
  std::atomic<const Executable*> current_;
};

}  // namespace tile
