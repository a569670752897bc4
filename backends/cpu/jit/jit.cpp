#include "backends/cpu/jit/jit.h"

#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/TargetParser/Host.h>

#include <new>

#include "backends/cpu/jit/jit_memory.h"
#include "backends/cpu/jit/llvm_memory.h"
#include "backends/fork.h"
#include "core/support/diagnostic.h"

namespace tile::cpu {
namespace {

void check(llvm::Error error) {
  if (error) fail(Stage::compile, "backend", {}, llvm::toString(std::move(error)));
}
template <class T>
T check(llvm::Expected<T> value) {
  if (!value) check(value.takeError());
  return std::move(*value);
}

}  // namespace

template <class Work>
auto Jit::use(const Work& work) {
  std::lock_guard lock(mutex_);
  if (lost_) throw std::bad_alloc();  // by another thread, just now
  return guarded_llvm(work, [this] {
    lost_ = true;
    static_cast<void>(jit_.release());
  });
}

std::shared_ptr<Jit> Jit::make() {
  prepare_llvm();
  std::shared_ptr<Jit> made(new Jit, [](Jit* jit) {
    static_cast<void>(jit->jit_.release());
    delete jit;
  });
  made->use([&made] {
    Held<llvm::orc::LLJITBuilder> held(std::make_unique<llvm::orc::LLJITBuilder>());
    llvm::orc::LLJITBuilder& builder = *held;
    // Objects come compiled: the builder need not ask what this processor can do.
    builder.setJITTargetMachineBuilder(
        llvm::orc::JITTargetMachineBuilder(llvm::Triple(llvm::sys::getProcessTriple())));
    // Objects have no initializers, so no platform support is needed.
    builder.setPlatformSetUp(llvm::orc::setUpInactivePlatform);
    // Nothing is thrown through kernels, so nobody is told of their frames: with thousands of them
    // every exception of the process would take longer.
    builder.setObjectLinkingLayerCreator(
        [](llvm::orc::ExecutionSession& session,
           const llvm::Triple&) -> llvm::Expected<std::unique_ptr<llvm::orc::ObjectLayer>> {
          return std::make_unique<llvm::orc::ObjectLinkingLayer>(
              session, memory_in(std::make_shared<CodePool>()));
        });
    made->jit_ = check(builder.create());
    // Every error also reaches the caller; by default the session prints it.
    made->jit_->getExecutionSession().setErrorReporter(
        [](llvm::Error error) { llvm::consumeError(std::move(error)); });
  });
  return made;
}

std::shared_ptr<Jit> Jit::shared() {
  static std::mutex mutex;
  static std::shared_ptr<Jit>& kept = *new std::shared_ptr<Jit>;
  std::lock_guard lock(mutex);
  if (!kept || kept->is_lost()) kept = make();
  return kept;
}

std::unique_ptr<Linked> Jit::link(std::span<const char> object) {
  auto linked = std::make_unique<Linked>(shared_from_this());
  auto copy = copied_for_llvm({object.data(), object.size()}, "kernel");
  use([&] {
    std::string name = "kernel" + std::to_string(count_++);
    llvm::Expected<llvm::orc::JITDylib&> library = jit_->createJITDylib(name);
    if (!library) check(library.takeError());
    linked->library_ = &*library;
    check(jit_->addObjectFile(*library, std::move(copy)));
  });
  return linked;
}

// Code of a session that is lost stays in memory.
Linked::~Linked() {
  if (library_ == nullptr || jit_->is_lost() || locks_are_lost()) return;
  try {
    jit_->use([this] {
      llvm::consumeError(jit_->jit_->getExecutionSession().removeJITDylib(*library_));
    });
  } catch (const std::bad_alloc&) {  // the session is lost
  } catch (const LlvmFailure&) {
  }
}

void* Linked::address(const std::string& symbol) {
  return jit_->use([&] { return check(jit_->jit_->lookup(*library_, symbol)).toPtr<void*>(); });
}

}  // namespace tile::cpu
