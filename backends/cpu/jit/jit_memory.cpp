#include "backends/cpu/jit/jit_memory.h"

#include <llvm/ADT/BitmaskEnum.h>
#include <llvm/ExecutionEngine/JITLink/JITLink.h>

#include <new>
#include <utility>

namespace tile::cpu {
namespace {

LLVM_ENABLE_BITMASK_ENUMS_IN_NAMESPACE();

using llvm::jitlink::BasicLayout;
using llvm::jitlink::JITLinkDylib;
using llvm::jitlink::JITLinkError;
using llvm::jitlink::JITLinkMemoryManager;
using llvm::jitlink::LinkGraph;

llvm::Error error(const char* what) { return llvm::make_error<JITLinkError>(what); }

// A block from when it is taken to when it is executable.
class InFlight : public JITLinkMemoryManager::InFlightAlloc {
 public:
  explicit InFlight(std::shared_ptr<CodePool> pool) : pool_(std::move(pool)) {}
  ~InFlight() override {
    if (block_ != nullptr) pool_->release(block_);
  }
  std::byte* take(size_t bytes) { return block_ = pool_->allocate(bytes); }

  void finalize(OnFinalizedFunction done) override {
    if (!pool_->seal(block_)) return done(error("no memory can be made executable"));
    std::byte* sealed = std::exchange(block_, nullptr);
    done(JITLinkMemoryManager::FinalizedAlloc(llvm::orc::ExecutorAddr::fromPtr(sealed)));
  }
  void abandon(OnAbandonedFunction done) override {
    pool_->release(std::exchange(block_, nullptr));
    done(llvm::Error::success());
  }

 private:
  std::shared_ptr<CodePool> pool_;
  std::byte* block_ = nullptr;
};

class PooledMemory : public JITLinkMemoryManager {
 public:
  explicit PooledMemory(std::shared_ptr<CodePool> pool) : pool_(std::move(pool)) {}

  void allocate(const JITLinkDylib*, LinkGraph& graph, OnAllocatedFunction done) override {
    if (!graph.allocActions().empty()) return done(error("an object with actions of its own"));
    BasicLayout layout(graph);
    size_t bytes = 0;
    for (auto& [group, segment] : layout.segments()) {
      if ((group.getMemProt() & llvm::orc::MemProt::Write) != llvm::orc::MemProt::None) {
        return done(error("an object with data to be written"));
      }
      if (segment.Alignment.value() > CodePool::kPage) return done(error("an odd alignment"));
      bytes = llvm::alignTo(bytes, segment.Alignment) + segment.ContentSize + segment.ZeroFillSize;
    }
    // No exception may cross the linker.
    std::unique_ptr<InFlight> memory(new (std::nothrow) InFlight(pool_));
    std::byte* block = memory ? memory->take(bytes) : nullptr;
    if (block == nullptr) return done(error("no memory for code"));
    place(layout, block);
    if (llvm::Error failed = layout.apply()) return done(std::move(failed));
    done(std::move(memory));
  }

  void deallocate(std::vector<FinalizedAlloc> blocks, OnDeallocatedFunction done) override {
    for (FinalizedAlloc& block : blocks) pool_->release(block.release().toPtr<std::byte*>());
    done(llvm::Error::success());
  }

 private:
  // One after the other: constants lie beside the code that reads them, and pages are few. A block
  // is zero where nothing is put.
  static void place(BasicLayout& layout, std::byte* block) {
    size_t at = 0;
    for (auto& [group, segment] : layout.segments()) {
      at = llvm::alignTo(at, segment.Alignment);
      segment.WorkingMem = reinterpret_cast<char*>(block + at);
      segment.Addr = llvm::orc::ExecutorAddr::fromPtr(segment.WorkingMem);
      at += segment.ContentSize + segment.ZeroFillSize;
    }
  }

  std::shared_ptr<CodePool> pool_;
};

}  // namespace

std::unique_ptr<JITLinkMemoryManager> memory_in(std::shared_ptr<CodePool> pool) {
  return std::make_unique<PooledMemory>(std::move(pool));
}

}  // namespace tile::cpu
