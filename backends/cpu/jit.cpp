#include "backends/cpu/jit.h"

#include <llvm/Support/MemoryBuffer.h>
#include <llvm/TargetParser/Host.h>

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

std::shared_ptr<Jit> Jit::make() {
  llvm::orc::LLJITBuilder builder;
  // Objects come compiled: the builder need not ask what this processor can do.
  builder.setJITTargetMachineBuilder(
      llvm::orc::JITTargetMachineBuilder(llvm::Triple(llvm::sys::getProcessTriple())));
  // Objects have no initializers, so no platform support is needed.
  builder.setPlatformSetUp(llvm::orc::setUpInactivePlatform);
  std::unique_ptr<llvm::orc::LLJIT> jit = check(builder.create());
  // Every error also reaches the caller; by default the session prints it.
  jit->getExecutionSession().setErrorReporter(
      [](llvm::Error error) { llvm::consumeError(std::move(error)); });
  return std::shared_ptr<Jit>(new Jit(std::move(jit)));
}

std::unique_ptr<Linked> Jit::link(std::span<const char> object) {
  std::string name = "kernel" + std::to_string(count_++);
  llvm::Expected<llvm::orc::JITDylib&> library = jit_->createJITDylib(name);
  if (!library) check(library.takeError());
  auto linked = std::make_unique<Linked>(shared_from_this(), *library);
  llvm::StringRef bytes(object.data(), object.size());
  check(jit_->addObjectFile(*library, llvm::MemoryBuffer::getMemBufferCopy(bytes, name)));
  return linked;
}

Linked::~Linked() {
  llvm::consumeError(jit_->jit_->getExecutionSession().removeJITDylib(library_));
}

void* Linked::address(const std::string& symbol) {
  return check(jit_->jit_->lookup(library_, symbol)).toPtr<void*>();
}

}  // namespace tile::cpu
