// Each allocation of setting up LLVM's passes, and of compiling a copy of eight numbers by them,
// fails once: the call ends with an error, and the next one works. Some follow each other in one
// process; where one of them does not end well, each is tried in a process of its own.
// LLVM's tables are in a state that nobody may touch when they cannot grow
// (backends/cpu/jit/llvm_memory.h), at so few places that samples of a compilation miss them.
// Nor may a compilation register a pass: LLVM's registry stays locked where its memory ends.
#include <llvm/Pass.h>
#include <llvm/PassInfo.h>
#include <llvm/PassRegistry.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>

#include "backends/cpu/cpu_backend.h"
#include "core/nest/nest.h"
#include "tests/faults/failing_allocations.h"

namespace {

using namespace tile;

constexpr unsigned kSeconds = 60;
constexpr long kRetries = 50;   // of one place in so many
constexpr long kTogether = 25;  // places of one process
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

// How the process ends that tries places from `first` up to `end`, and adds to `failed` those that
// end the call.
int status_of(Compiler& compiler, long first, long end, long& failed) {
  pid_t child = fork();
  if (child == 0) {
    alarm(kSeconds);
    int errors = 0;
    for (long number = first; number < end; ++number) {
      Outcome outcome = tried(compiler, number);
      if (outcome == kLost) _exit(kTogether + 1);
      errors += outcome == kError ? 1 : 0;
    }
    _exit(errors);
  }
  int status = 0;
  waitpid(child, &status, 0);
  bool good = WIFEXITED(status) && WEXITSTATUS(status) <= kTogether;
  if (good) failed += WEXITSTATUS(status);
  return good ? 0 : status;
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
  for (long first = 1; first <= total; first += kTogether) {
    long end = std::min(first + kTogether, total + 1);
    if (status_of(compiler, first, end, failed) == 0) continue;
    ++bad;
    std::printf("allocations %ld to %ld in one process:\n", first, end - 1);
    for (long number = first; number < end; ++number) {
      int status = status_of(compiler, number, number + 1, failed);
      if (status == 0) continue;
      std::printf("allocation %ld: %s\n", number,
                  WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "the next call fails, too");
    }
  }
  std::printf("%ld allocations, %ld of which end the call, %ld faults\n", total, failed, bad);
  return bad != 0 || failed == 0;
}
