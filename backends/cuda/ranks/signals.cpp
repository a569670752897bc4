#include "backends/cuda/ranks/signals.h"

#include <atomic>
#include <cstring>

#include "core/support/diagnostic.h"

namespace tile::cuda {
namespace {

// A line of the host's caches: what one GPU writes does not disturb what another one waits for.
constexpr size_t kLine = 64;

CUdeviceptr address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

}  // namespace

Signals::Signals(Session& session, size_t count) : device_(session.device()), count_(count) {
  session.check(
      device_->driver().cuMemHostAlloc_(&memory_, count * kLine, CU_MEMHOSTALLOC_PORTABLE),
      "allocating page-locked memory");
  std::memset(memory_, 0, count * kLine);
}

Signals::~Signals() {
  try {
    Current current(*device_);
    device_->driver().cuMemFreeHost_(memory_);
  } catch (const Failure&) {
    // The context is gone, and with it the memory.
  }
}

uint32_t* Signals::at(size_t word) const {
  return reinterpret_cast<uint32_t*>(static_cast<std::byte*>(memory_) + word * kLine);
}
uint32_t Signals::value(size_t word) const {
  return std::atomic_ref(*at(word)).load(std::memory_order_acquire);
}
void Signals::set(size_t word, uint32_t value) const {
  std::atomic_ref(*at(word)).store(value, std::memory_order_release);
}

void SignalBatch::write(const Signals& signals, size_t word, uint32_t value) {
  for (auto last = all_.rbegin(); last != all_.rend(); ++last) {
    if (last->operation != CU_STREAM_MEM_OP_WRITE_VALUE_32) break;
    if (last->writeValue.address != address(signals.at(word))) continue;
    last->writeValue.value = value;
    return;
  }
  CUstreamBatchMemOpParams& one = all_.emplace_back();
  one.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  one.writeValue.address = address(signals.at(word));
  one.writeValue.value = value;
  one.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
}

void SignalBatch::wait(const Signals& signals, size_t word, uint32_t value) {
  CUstreamBatchMemOpParams& one = all_.emplace_back();
  one.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  one.waitValue.address = address(signals.at(word));
  one.waitValue.value = value;
  one.waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
}

void SignalBatch::wait_for(const Signals& signals, size_t word, uint32_t value) {
  wait(signals, word, value);
  all_.back().waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
}

void SignalBatch::give(Session& session, CUstream stream) {
  if (all_.empty()) return;
  session.check(session.device()->driver().cuStreamBatchMemOp_(
                    stream, static_cast<unsigned>(all_.size()), all_.data(), 0),
                "ordering streams of GPUs by memory");
  all_.clear();
}

}  // namespace tile::cuda
