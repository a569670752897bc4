// Links objects into the process.
#pragma once

#include <llvm/ExecutionEngine/Orc/LLJIT.h>

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tile::cpu {

class Jit;

// One linked object; unlinked when destroyed.
class Linked {
 public:
  Linked(std::shared_ptr<Jit> jit, llvm::orc::JITDylib& library)
      : jit_(std::move(jit)), library_(library) {}
  ~Linked();
  Linked(const Linked&) = delete;
  Linked& operator=(const Linked&) = delete;
  // The address of a function of the object; throws Failure (compile, "backend").
  void* address(const std::string& symbol);

 private:
  std::shared_ptr<Jit> jit_;
  llvm::orc::JITDylib& library_;
};

class Jit : public std::enable_shared_from_this<Jit> {
 public:
  // Throws Failure (compile, "backend").
  static std::shared_ptr<Jit> make();
  // Throws Failure (compile, "backend") where the bytes are no object that links.
  std::unique_ptr<Linked> link(std::span<const char> object);

 private:
  friend class Linked;
  explicit Jit(std::unique_ptr<llvm::orc::LLJIT> jit) : jit_(std::move(jit)) {}

  std::unique_ptr<llvm::orc::LLJIT> jit_;
  std::atomic<uint64_t> count_ = 0;
};

}  // namespace tile::cpu
