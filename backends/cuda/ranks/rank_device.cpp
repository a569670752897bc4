// Ranks on GPUs: boxes, page-locked memory, and what a link needs to know.
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <set>
#include <string_view>

#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/ranks/link.h"
#include "backends/cuda/ranks/row_copies.h"
#include "core/support/diagnostic.h"

namespace tile::cuda {
namespace {

CUdeviceptr address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

// FNV-1a, of 64 bits.
uint64_t digest_of(std::string_view text) {
  uint64_t digest = 0xcbf29ce484222325;
  for (char c : text) digest = (digest ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return digest;
}

std::string machine_text() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return std::string(name) + "\n" + boot;
}

// Numbers of processes mean something in one container only.
uint64_t process_digest() {
  static const std::string text = [] {
    auto now = std::chrono::steady_clock::now().time_since_epoch().count();
    return machine_text() + "\n" + std::to_string(getpid()) + "\n" + std::to_string(now);
  }();
  return digest_of(text);
}

class CudaRankDevice final : public RankDevice {
 public:
  explicit CudaRankDevice(Session& session)
      : session_(session), device_(session.device()), driver_(device_->driver()) {}

  void copy(const RowCopy& c, void* stream) override {
    Current current(*device_);
    copy_rows(session_, c, session_.stream_of(stream));
  }

  void clear(void* memory, size_t bytes, void* stream) override {
    if (bytes == 0) return;
    Current current(*device_);
    session_.check(driver_.cuMemsetD8Async_(address(memory), 0, bytes, session_.stream_of(stream)),
                   "clearing device memory");
  }

  void copy_to_host(void* host, const void* device, size_t bytes) override {
    if (bytes == 0) return;
    Current current(*device_);
    session_.check(
        driver_.cuMemcpyDtoHAsync_(host, address(device), bytes, session_.stream_of(nullptr)),
        "copying from the device");
  }

  size_t memory_bytes() override {
    CUdevice device = 0;
    size_t bytes = 0;
    driver_.check(driver_.cuDeviceGet_(&device, device_->ordinal()), "opening the GPU");
    driver_.check(driver_.cuDeviceTotalMem_(&bytes, device), "asking for the GPU's memory");
    return bytes;
  }
  void* take_host_memory(size_t bytes) override {
    if (bytes == 0) return nullptr;
    Current current(*device_);
    void* memory = nullptr;
    session_.check(driver_.cuMemHostAlloc_(&memory, bytes, CU_MEMHOSTALLOC_PORTABLE),
                   "allocating " + std::to_string(bytes) + " bytes of page-locked memory");
    return memory;
  }
  void give_back_host_memory(void* memory) noexcept override {
    if (memory == nullptr) return;
    try {
      Current current(*device_);
      driver_.cuMemFreeHost_(memory);
    } catch (const Failure&) {
      // The context is gone, and with it the memory.
    }
  }

  LinkOffer offer(std::string& why) override {
    LinkOffer offer;
    if (std::shared_ptr<const Nccl> nccl = Nccl::open(why)) offer.version = nccl->version();
    offer.ordinal = device_->ordinal();
    offer.machine = digest_of(machine_text());
    offer.process = process_digest();
    // What NCCL tells GPUs apart by.
    offer.device =
        (static_cast<uint64_t>(device_->attribute(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)) << 32) +
        (static_cast<uint64_t>(device_->attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)) << 16) +
        static_cast<uint64_t>(device_->attribute(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID));
    offer.own_memory = session_.pool() != nullptr ? 1 : 0;
    return offer;
  }

  LinkId new_link() override {
    Current current(*device_);
    NcclId id{};
    nccl()->check(nccl()->ncclGetUniqueId_(&id), nullptr, "naming a communicator");
    LinkId name;
    std::copy(std::begin(id.bytes), std::end(id.bytes), name.begin());
    return name;
  }

  std::unique_ptr<DeviceLink> link(const LinkId& id, size_t rank,
                                   std::span<const LinkOffer> offers) override {
    std::set<size_t> peers;
    for (size_t r = 0; r < offers.size(); ++r) {
      const LinkOffer& other = offers[r];
      if (other.process != process_digest() || other.ordinal == device_->ordinal()) continue;
      shares_process_ = true;
      if (let_in(other.ordinal) && other.own_memory != 0) peers.insert(r);
    }
    return std::make_unique<NcclLink>(nccl(), session_, id, rank, offers.size(), peers);
  }

  // NCCL's copies between GPUs of one process may read and write the parts where they are.
  bool may_send(const void* memory) override {
    if (!shares_process_) return true;
    Current current(*device_);
    CUmemoryPool pool = nullptr;
    int old_style = 0;  // of cuMemAlloc: NCCL opens all such memory itself
    bool ours = driver_.cuPointerGetAttribute_(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
                                               address(memory)) == CUDA_SUCCESS &&
                pool == session_.pool();
    return ours || (driver_.cuPointerGetAttribute_(&old_style,
                                                   CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                                                   address(memory)) == CUDA_SUCCESS &&
                    old_style != 0);
  }

 private:
  std::shared_ptr<const Nccl> nccl() {
    std::string why;
    if (!nccl_) nccl_ = Nccl::open(why);
    if (!nccl_) fail(Stage::run, "nccl", {}, why);
    return nccl_;
  }

  // Opens the session's memory to another GPU that can reach it. Whether each reaches the other.
  bool let_in(int ordinal) {
    Current current(*device_);
    CUdevice own = 0, other = 0;
    int can = 0, back = 0;
    driver_.check(driver_.cuDeviceGet_(&own, device_->ordinal()), "opening the GPU");
    driver_.check(driver_.cuDeviceGet_(&other, ordinal), "opening the GPU");
    driver_.check(driver_.cuDeviceCanAccessPeer_(&can, other, own), "asking how GPUs are linked");
    driver_.check(driver_.cuDeviceCanAccessPeer_(&back, own, other), "asking how GPUs are linked");
    if (can == 0 || session_.pool() == nullptr) return false;
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = ordinal;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    driver_.check(driver_.cuMemPoolSetAccess_(session_.pool(), &access, 1),
                  "opening a memory pool to another GPU");
    return back != 0;
  }

  Session& session_;
  std::shared_ptr<const Device> device_;
  const Driver& driver_;
  std::shared_ptr<const Nccl> nccl_;
  bool shares_process_ = false;  // with other ranks of a link
};

}  // namespace

int gpu_count() {
  try {
    std::shared_ptr<const Driver> driver = Driver::open();
    int count = 0;
    driver->check(driver->cuDeviceGetCount_(&count), "counting GPUs");
    return count;
  } catch (const Failure&) {
    return 0;
  }
}

std::unique_ptr<RankDevice> rank_device(DeviceSession& session) {
  return std::make_unique<CudaRankDevice>(static_cast<Session&>(session));
}

}  // namespace tile::cuda
