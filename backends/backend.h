// The one interface between the runtime and a backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/bound.h"
#include "core/nest/nest.h"
#include "core/schedule/target.h"

namespace tile {

// Compiled code of one nest, ready to launch. Immutable; launched by any number of threads at once.
class Code {
 public:
  virtual ~Code() = default;
  // The relocatable object for the disk cache; load() makes Code from it again.
  virtual std::span<const std::byte> object() const = 0;
  // Bytes that launch() needs as workspace (aligned to 64), shared by the threads of the launch.
  virtual size_t workspace_bytes() const = 0;
};

struct LaunchOptions {
  int threads = 0;                 // 0: all of the target's
  void* stream = nullptr;          // a GPU stream; unused on the CPU
  std::byte* workspace = nullptr;  // at least workspace_bytes()
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  // The host's or device's description, probed once.
  virtual const Target& target() const = 0;
  // A target for other features of the same kind ("avx2", "avx512"); throws Failure (compile) if it
  // cannot run here.
  virtual Target target_named(std::string_view features) const = 0;

  // Thread safe. Throws Failure of stage compile.
  virtual std::shared_ptr<const Code> compile(const nest::Nest& nest, const Target& target) = 0;
  // From a cached object of the same nest and target; nullptr if it does not load.
  virtual std::shared_ptr<const Code> load(const nest::Nest& nest, const Target& target,
                                           std::span<const std::byte> object) = 0;
  // Text of a later stage: "llvm", "asm" on the CPU; "cuda", "ptx", "sass" on a GPU.
  virtual std::string emit(const nest::Nest& nest, const Target& target,
                           std::string_view stage) = 0;
  // Pointers to the first element of each argument, in the nest's order; parameters in the nest's
  // order. Returns when done on the CPU. Throws Failure of stage run.
  virtual void launch(const Code& code, std::span<void* const> pointers,
                      std::span<const int64_t> parameters, const LaunchOptions& options) = 0;
  // Dense source to dense result.
  virtual void sort(const Sort& sort, const BoundTensor& source, const void* from, void* to,
                    const LaunchOptions& options) = 0;
  // What cache keys must name: compiler version, device, driver.
  virtual std::string identity() const = 0;
};

}  // namespace tile
