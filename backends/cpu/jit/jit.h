// Links objects into the process.
#pragma once

#include <llvm/ExecutionEngine/Orc/LLJIT.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/jit/object_linker.h"

namespace tile::cpu {

class Jit;

// One linked object; unlinked when destroyed, which frees its memory.
class Linked : public LinkedCode {
 public:
  explicit Linked(std::shared_ptr<Jit> jit) : jit_(std::move(jit)) {}
  ~Linked() override;
  Linked(const Linked&) = delete;
  Linked& operator=(const Linked&) = delete;
  // The address of a function of the object; throws Failure (compile, "backend").
  void* address(const std::string& symbol) override;

 private:
  friend class Jit;
  std::shared_ptr<Jit> jit_;
  llvm::orc::JITDylib* library_ = nullptr;
};

// One thread at a time is in LLVM's session; where memory runs out there, the session links and
// unlinks nothing any more, and another one is made. Its code stays good.
class Jit : public std::enable_shared_from_this<Jit> {
 public:
  // The process's, made when first asked for and never destroyed, which would take memory. Throws
  // Failure (compile, "backend").
  static std::shared_ptr<Jit> shared();
  bool is_lost() const { return lost_; }
  // Throws Failure (compile, "backend") where the bytes are no object that links.
  std::unique_ptr<Linked> link(std::span<const char> object);

 private:
  friend class Linked;
  Jit() = default;
  static std::shared_ptr<Jit> make();
  // Calls work() in the session.
  template <class Work>
  auto use(const Work& work);

  std::unique_ptr<llvm::orc::LLJIT> jit_;
  std::mutex mutex_;
  uint64_t count_ = 0;
  std::atomic<bool> lost_{false};
};

}  // namespace tile::cpu
