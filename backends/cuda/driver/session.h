// One engine's pool, stream and launches that nobody has waited for.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "backends/cuda/driver/device.h"

namespace tile::cuda {

using KernelNames = std::shared_ptr<const std::vector<std::string>>;

class Session : public DeviceSession {
 public:
  // `allocator`: where memory comes from; not given: a pool of the session's own.
  Session(std::shared_ptr<const Device> device, size_t memory_limit, const Allocator& allocator);
  ~Session() override;

  void* allocate(size_t bytes, void* stream) override;
  void release(void* memory, size_t bytes, void* stream) noexcept override;
  void copy_in(void* device, const void* host, size_t bytes, void* stream) override;
  void copy_out(void* host, const void* device, size_t bytes, void* stream) override;
  void copy(void* to, const void* from, size_t bytes, void* stream) override;
  void synchronize(void* stream) override;
  void finish() override;
  std::unique_ptr<Recording> record(const std::function<void(void* stream)>& work) override;
  // The same where other streams join the recording, each of which keeps its priority.
  std::unique_ptr<Recording> record_streams(const std::function<void(void* stream)>& work);
  bool is_recorded(void* stream) override;
  double elapsed_ns(void* stream, const std::function<void()>& work) override;

  const std::shared_ptr<const Device>& device() const { return device_; }
  CUmemoryPool pool() const { return pool_; }  // null: memory is another allocator's
  // The caller's stream, or this session's own for null.
  CUstream stream_of(void* stream) const;
  // Remembers the kernels for errors that come later; the context is current.
  void launched(const KernelNames& kernels, CUstream stream);
  // The kernels that the stream was given and that nobody has waited for; they are forgotten.
  KernelNames recorded(CUstream stream);
  // Somebody has seen that the stream is done with them.
  void forget(CUstream stream);
  // Throws Failure: `result` of what was tried, blamed on earlier launches where it must be theirs.
  void check(CUresult result, const std::string& what);

 private:
  struct Pending {
    CUstream stream = nullptr;
    KernelNames kernels;
  };
  static constexpr size_t kRemembered = 16;
  void make_pool();
  void destroy_pool() noexcept;
  void* from_pool(size_t bytes, CUstream stream);
  void* from_host(size_t bytes, CUstream stream) const;
  std::string suspects();

  std::shared_ptr<const Device> device_;
  const Driver& driver_;
  CUstream own_ = nullptr;
  const Allocator allocator_;
  CUmemoryPool pool_ = nullptr;  // null with an allocator
  size_t limit_;
  std::atomic<size_t> in_use_{0};
  bool wait_for_each_;
  std::mutex mutex_;
  std::array<Pending, kRemembered> pending_;  // launches that nobody has waited for, a ring
  size_t next_ = 0;
};

}  // namespace tile::cuda
