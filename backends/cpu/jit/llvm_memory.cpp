#include "backends/cpu/jit/llvm_memory.h"

#include <execinfo.h>
#include <llvm/InitializePasses.h>
#include <llvm/PassRegistry.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/TargetSelect.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "backends/cpu/jit/llvm_tables.h"
#include "core/support/diagnostic.h"

namespace tile::cpu {
namespace {

// LLVM's handlers are the process's: another user of LLVM in it keeps what it had without them.
[[gnu::tls_model("initial-exec")]] constinit thread_local int calls_of_this_thread = 0;

void on_bad_alloc(void*, const char* reason, bool) {
  if (calls_of_this_thread > 0) throw std::bad_alloc();
  std::fprintf(stderr, "LLVM ERROR: out of memory: %s\n", reason);
  std::abort();
}
void on_fatal_error(void*, const char* reason, bool) {
  if (calls_of_this_thread > 0) throw LlvmFailure(reason);
  std::fprintf(stderr, "LLVM ERROR: %s\n", reason);
  std::exit(1);
}

// Where LLVM is in this library its static objects are made in no order with ours: code generation
// waits for the first compilation.
constexpr bool tables_at_load() {
#ifdef TILE_STATIC_LLVM
  return false;
#else
  return true;
#endif
}

// Passes and targets are registered under locks of LLVM's that an exception would leave locked, and
// so are tables made. It is done as the library is loaded, where LLVM's own static objects are made
// and a process without memory does not start: 4 ms, half of which the first compilation would
// take.
bool registered() {
  if (llvm::InitializeNativeTarget() || llvm::InitializeNativeTargetAsmPrinter()) return false;
  llvm::PassRegistry& passes = *llvm::PassRegistry::getPassRegistry();
  llvm::initializeCore(passes);
  llvm::initializeTransformUtils(passes);
  llvm::initializeScalarOpts(passes);
  llvm::initializeAnalysis(passes);
  llvm::initializeCodeGen(passes);
  llvm::initializeTarget(passes);
  // Those of LLVM 19's code generation that its own lists above leave out.
  llvm::initializeExpandReductionsPass(passes);
  llvm::initializeExpandVectorPredicationPass(passes);
  llvm::initializeRegAllocScoringPass(passes);
  llvm::initializeReplaceWithVeclibLegacyPass(passes);
  return tables_at_load() ? make_llvm_tables() : true;
}
const bool is_registered = registered();

}  // namespace

InLlvm::InLlvm() { ++calls_of_this_thread; }
InLlvm::~InLlvm() { --calls_of_this_thread; }

void prepare_llvm() {
  static std::mutex mutex;
  static bool done = false, installed = false;
  std::lock_guard lock(mutex);
  if (done) return;
  // The C library loads its unwinder when an exception first passes through a function of its own
  // (pthread_once), and ends the process where it cannot.
  void* frame = nullptr;
  if (backtrace(&frame, 1) == 0) throw std::bad_alloc();
  if (!installed) {
    llvm::install_bad_alloc_error_handler(on_bad_alloc);
    llvm::install_fatal_error_handler(on_fatal_error);
    installed = true;
  }
  bool ready = is_registered && (tables_at_load() || make_llvm_tables());
  if (!ready) fail(Stage::compile, "backend", {}, "LLVM makes no code for this machine");
  done = true;
}

std::unique_ptr<llvm::MemoryBuffer> copied_for_llvm(llvm::StringRef bytes,
                                                    const std::string& name) {
  auto copy = llvm::MemoryBuffer::getMemBufferCopy(bytes, name);
  if (!copy) throw std::bad_alloc();
  return copy;
}

void require_memory(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  munmap(memory, bytes);
}

}  // namespace tile::cpu
