// Each allocation of setting up LLVM's passes, and of compiling a copy of eight numbers by them,
// fails once, each in a process of its own: the call ends with an error, and the next one works.
// LLVM's tables are in a state that nobody may touch when they cannot grow
// (backends/cpu/jit/llvm_memory.h), at so few places that samples of a compilation miss them.
// Nor may a compilation register a pass: LLVM's registry stays locked where its memory ends.
#include <llvm/Pass.h>
#include <llvm/PassInfo.h>
#include <llvm/PassRegistry.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <new>

#include "backends/cpu/cpu_backend.h"
#include "core/nest/nest.h"
#include "tests/faults/failing_allocations.h"

namespace {

using namespace tile;

constexpr unsigned kSeconds = 60;
constexpr long kRetries = 50;  // of one place in so many
constexpr const char* kCopy =
    "nest copy\nargument A: f32 [8] strides [1]\nargument B: f32 [8] strides [1] written\n"
    "serial i from [0] extent [8] {\n  assign B[i] (A[i]) { %0:f32 = load 0; yield %0 }\n}\n";

class Compiler {
 public:
  // With passes of its own each time.
  bool works() {
    try {
      return !backend_->emit(nest_, backend_->target(), "asm").empty();
    } catch (const std::bad_alloc&) {
      return false;
    } catch (const std::exception&) {  // what LLVM told of it
      return false;
    }
  }

 private:
  std::shared_ptr<Backend> backend_ = cpu::shared_backend();
  nest::Nest nest_ = nest::parse_nest(std::make_shared<const Source>(Source{"copy", kCopy}));
};

// Counts the passes that are registered while it lives.
class LatePasses : public llvm::PassRegistrationListener {
 public:
  LatePasses() { llvm::PassRegistry::getPassRegistry()->addRegistrationListener(this); }
  ~LatePasses() { llvm::PassRegistry::getPassRegistry()->removeRegistrationListener(this); }
  void passRegistered(const llvm::PassInfo* pass) override {
    ++count_;
    std::printf("registered by a compilation: %s\n", pass->getPassArgument().str().c_str());
  }
  long count() const { return count_; }

 private:
  long count_ = 0;
};

// Of the child in which an allocation is refused.
enum Outcome { kError, kUnharmed, kLost };
Outcome tried(Compiler& compiler, long number) {
  test::arm_allocations(number, test::Refuse::one);
  bool good = compiler.works();
  test::disarm_allocations();
  if (good) return kUnharmed;
  return number % kRetries != 0 || compiler.works() ? kError : kLost;
}

}  // namespace

int main() {
  Compiler compiler;
  {
    LatePasses late;
    if (!compiler.works()) return 2;
    if (late.count() > 0) return 3;
  }
  test::arm_allocations(0, test::Refuse::one);
  compiler.works();
  long total = test::disarm_allocations(), bad = 0, failed = 0;
  for (long number = 1; number <= total; ++number) {
    pid_t child = fork();
    if (child == 0) {
      alarm(kSeconds);
      _exit(tried(compiler, number));
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) != kLost) {
      failed += WEXITSTATUS(status) == kError ? 1 : 0;
      continue;
    }
    ++bad;
    std::printf("allocation %ld: %s\n", number,
                WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "the next call fails, too");
  }
  std::printf("%ld allocations, %ld of which end the call, %ld faults\n", total, failed, bad);
  return bad != 0 || failed == 0;
}
