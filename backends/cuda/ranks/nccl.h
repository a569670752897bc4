// NCCL, opened at run time: what moves memory between GPUs. The declarations are this library's
// own, of NCCL's C interface as it is since 2.14.
#pragma once

#include <cuda.h>

#include <climits>
#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>

namespace tile::cuda {

struct NcclCommunicator;  // NCCL's own
using NcclComm = NcclCommunicator*;

struct NcclId {
  char bytes[128];
};
// The fields of 2.14 and the one behind them, which is where that version's padding lies.
struct NcclConfig {
  size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;    // of this declaration
  int blocking = 0;            // calls return at once; ncclCommGetAsyncError says how it went
  int cluster_size = INT_MIN;  // NCCL's own choice
};
// Values of NCCL's enumerations.
constexpr int kNcclSuccess = 0, kNcclInProgress = 7;
constexpr int kNcclBytes = 0;  // ncclInt8
constexpr int kNcclSum = 0;

#define TILE_NCCL_FUNCTIONS(X)                                                                     \
  X(ncclGetVersion, int(int* version))                                                             \
  X(ncclGetUniqueId, int(NcclId * id))                                                             \
  X(ncclCommInitRankConfig,                                                                        \
    int(NcclComm * comm, int ranks, NcclId id, int rank, NcclConfig* config))                      \
  X(ncclCommAbort, int(NcclComm comm))                                                             \
  X(ncclCommGetAsyncError, int(NcclComm comm, int* result))                                        \
  X(ncclGetErrorString, const char*(int result))                                                   \
  X(ncclGetLastError, const char*(NcclComm comm))                                                  \
  X(ncclGroupStart, int())                                                                         \
  X(ncclGroupEnd, int())                                                                           \
  X(ncclAllGather,                                                                                 \
    int(const void* from, void* to, size_t count, int type, NcclComm comm, CUstream stream))       \
  X(ncclReduceScatter, int(const void* from, void* to, size_t count, int type, int sum,            \
                           NcclComm comm, CUstream stream))                                        \
  X(ncclAllReduce, int(const void* from, void* to, size_t count, int type, int sum, NcclComm comm, \
                       CUstream stream))                                                           \
  X(ncclSend,                                                                                      \
    int(const void* data, size_t count, int type, int rank, NcclComm comm, CUstream stream))       \
  X(ncclRecv, int(void* data, size_t count, int type, int rank, NcclComm comm, CUstream stream))

class Nccl {
 public:
  // Opens the library that TILE_NCCL names ("off": none), else the first libnccl.so.2 of the places
  // of places_of(), one that the process has already before all. Null, and why, where there is none
  // or it is older than 2.14. It is never closed: its threads outlive communicators.
  static std::shared_ptr<const Nccl> open(std::string& why);

  int version() const { return version_; }  // 22809 for 2.28.9
  // Throws Failure (run, "nccl") where the result is neither success nor in progress; `comm` may be
  // null.
  void check(int result, NcclComm comm, const std::string& what) const;

#define TILE_NCCL_MEMBER(name, ...) std::add_pointer_t<__VA_ARGS__> name##_ = nullptr;
  TILE_NCCL_FUNCTIONS(TILE_NCCL_MEMBER)
#undef TILE_NCCL_MEMBER

 private:
  Nccl() = default;
  bool load(const std::string& path, std::string& why);
  int version_ = 0;
};

std::string nccl_version_text(int version);  // "2.28.9"

}  // namespace tile::cuda
