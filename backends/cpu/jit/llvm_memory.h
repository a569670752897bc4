// What happens where memory runs out in LLVM, which is built without exceptions: an exception of
// operator new passes through its functions, whose objects stay as they were at that moment, and
// its own reports end the process unless they are caught.
//
// Here both become exceptions, and what LLVM had in hand is given up for lost: never touched nor
// freed again, as it may be in any state, its locks included. The next call works with new objects.
// What LLVM registers once in a process it has registered when the library is loaded.
#pragma once

#include <llvm/Support/MemoryBuffer.h>

#include <cstddef>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <utility>

namespace tile::cpu {

// Once for the process; throws std::bad_alloc, and may then be called again.
void prepare_llvm();

// Throws std::bad_alloc unless the process can have so much memory now. Asked for before work is
// begun that would have to be given up.
void require_memory(size_t bytes);

// A copy of the bytes, aligned for LLVM. Throws std::bad_alloc, where LLVM's own function is null.
std::unique_ptr<llvm::MemoryBuffer> copied_for_llvm(llvm::StringRef bytes, const std::string& name);

// An error for which LLVM would have ended the process.
class LlvmFailure : public std::exception {
 public:
  explicit LlvmFailure(const char* reason) : reason_(reason) {}
  const char* what() const noexcept override { return reason_.c_str(); }

 private:
  std::string reason_;
};

// The calling thread is in LLVM as long as this lives: its reports become exceptions.
class InLlvm {
 public:
  InLlvm();
  ~InLlvm();
  InLlvm(const InLlvm&) = delete;
  InLlvm& operator=(const InLlvm&) = delete;
};

// An object of LLVM's that an exception passing by leaves alone.
template <class T>
class Held {
 public:
  explicit Held(std::unique_ptr<T> object)
      : object_(std::move(object)), exceptions_(std::uncaught_exceptions()) {}
  ~Held() {
    if (std::uncaught_exceptions() > exceptions_) static_cast<void>(object_.release());
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  T& operator*() const { return *object_; }
  T* operator->() const { return object_.get(); }

 private:
  std::unique_ptr<T> object_;
  int exceptions_;
};

// Calls work(); before an exception that may have passed through LLVM goes on, calls lose().
template <class Work, class Lose>
auto guarded_llvm(Work&& work, Lose&& lose) {
  InLlvm inside;
  try {
    return work();
  } catch (const std::bad_alloc&) {
    lose();
    throw;
  } catch (const LlvmFailure&) {
    lose();
    throw;
  }
}

}  // namespace tile::cpu
