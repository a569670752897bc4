// NCCL for tests: ranks are threads of this process, parts are copied between them through a
// mailbox, and communicators never block. Each rank must have a context of the driver of ours
// current, and no two the same. The C functions at the end steer it.
#include "backends/cuda/ranks/nccl.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/ir/scalar.h"

using tile::cuda::NcclConfig;
using tile::cuda::NcclId;

namespace {

constexpr int kSuccess = 0, kInternal = 3, kInvalidArgument = 4, kInvalidUsage = 5, kInProgress = 7;

struct Part {
  int rank = 0;
  char* data = nullptr;
  size_t bytes = 0;
  int adds = -1;  // the type of what is added up; -1: the part is put in place
};

// What ranks with one id share.
struct Group {
  int ranks = 0;
  std::set<int> here;
  std::set<void*> contexts;
  bool broken = false;  // two ranks with one GPU
  std::map<std::pair<int, int>, std::deque<std::vector<char>>> mail;
};

struct Failing {
  int rank = -1;  // any
  int result = 0;
  int after = 0;
};

struct State {
  std::mutex mutex;
  int version = 22809;
  uint64_t next_id = 1;
  std::map<uint64_t, Group> groups;
  std::set<void*> live;
  std::map<std::string, Failing> failing;
  std::map<std::string, int> calls;
  int mute = -1;  // a rank whose parts get lost
};
State& state() {
  static State s;
  return s;
}

}  // namespace

namespace tile::cuda {
struct NcclCommunicator {
  uint64_t id = 0;
  int rank = 0;
  int error = kSuccess;
  std::deque<Part> awaited;
};
}  // namespace tile::cuda
using Communicator = tile::cuda::NcclCommunicator;

namespace {

struct Call {
  Communicator* comm;
  bool sends;
  Part part;
  CUstream stream;
};
// A collective: an all-gather, or sums, of which each rank gets its part or all.
struct Collective {
  bool gathers, scatters;
  size_t count;
  int type;
  const void* from;
  void* to;
};
thread_local int depth = 0;
thread_local std::vector<Call> group;

// The result that the test wants of this call, under the lock.
int enter(const char* name, int rank) {
  State& s = state();
  ++s.calls[name];
  auto it = s.failing.find(name);
  if (it == s.failing.end()) return kSuccess;
  if (it->second.rank >= 0 && it->second.rank != rank) return kSuccess;
  if (it->second.after-- > 0) return kSuccess;
  int result = it->second.result;
  s.failing.erase(it);
  return result;
}

// A function of the driver, which whoever calls NCCL has open; null: there is none.
template <class Function>
Function in_driver(const char* name) {
  void* driver = dlopen(std::getenv("TILE_CUDA_DRIVER"), RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr) return nullptr;
  void* function = dlsym(driver, name);
  dlclose(driver);
  return reinterpret_cast<Function>(function);
}

// In the driver's trace.
void note(const char* what, CUstream stream) {
  auto trace = in_driver<void (*)(const char*, CUstream)>("fake_cuda_note");
  if (trace != nullptr) trace(what, stream);
}

// What the stream was given before is done.
void run_before(CUstream stream) {
  auto run = in_driver<void (*)(CUstream)>("fake_cuda_run");
  if (run != nullptr) run(stream);
}

void* current_context() {
  auto find =
      in_driver<CUresult (*)(const char*, void**, int, cuuint64_t, void*)>("cuGetProcAddress_v2");
  if (find == nullptr) return nullptr;
  void* function = nullptr;
  CUcontext context = nullptr;
  if (find("cuCtxGetCurrent", &function, 12000, 0, nullptr) == CUDA_SUCCESS) {
    reinterpret_cast<CUresult (*)(CUcontext*)>(function)(&context);
  }
  return context;
}

uint64_t number_of(const NcclId& id) {
  uint64_t number = 0;
  std::memcpy(&number, id.bytes, sizeof number);
  return number;
}

tile::DType type_of(int type) {
  using tile::DType;
  constexpr DType kTypes[] = {DType::i8,  DType::u8,  DType::i32, DType::u32, DType::i64,
                              DType::u64, DType::f16, DType::f32, DType::f64, DType::bf16};
  return kTypes[type];
}

void add_up(const std::vector<char>& part, char* to, tile::DType type) {
  size_t width = tile::byte_size(type);
  tile::DType compute = tile::compute_type(type);
  for (size_t at = 0; at < part.size(); at += width) {
    auto* a = reinterpret_cast<std::byte*>(to + at);
    const auto* b = reinterpret_cast<const std::byte*>(part.data() + at);
    tile::Scalar pair[2] = {tile::convert(tile::load_element(a, type), compute),
                            tile::convert(tile::load_element(b, type), compute)};
    tile::Scalar sum = tile::evaluate(tile::Op::add, compute, pair);
    tile::store_element(a, tile::convert(sum, type));
  }
}

// Takes what is here, in order.
int advance(Communicator& comm) {
  Group& all = state().groups[comm.id];
  if (all.broken) return kInvalidUsage;
  if (all.here.size() < static_cast<size_t>(all.ranks)) return kInProgress;
  while (!comm.awaited.empty()) {
    Part& part = comm.awaited.front();
    auto& queue = all.mail[{part.rank, comm.rank}];
    if (queue.empty()) return kInProgress;
    if (queue.front().size() != part.bytes) return kInvalidArgument;
    if (part.adds < 0) {
      std::memcpy(part.data, queue.front().data(), part.bytes);
    } else {
      add_up(queue.front(), part.data, type_of(part.adds));
    }
    queue.pop_front();
    comm.awaited.pop_front();
  }
  return kSuccess;
}

void run(const Call& call) {
  State& s = state();
  if (!call.sends) return call.comm->awaited.push_back(call.part);
  if (call.comm->rank == s.mute) return;
  s.groups[call.comm->id].mail[{call.comm->rank, call.part.rank}].emplace_back(
      call.part.data, call.part.data + call.part.bytes);
}

int add(const char* name, Communicator* comm, bool sends, Part part, CUstream stream) {
  State& s = state();
  {
    std::lock_guard lock(s.mutex);
    if (int result = enter(name, comm->rank); result != kSuccess) return result;
    if (!s.live.contains(comm) || part.rank == comm->rank) return kInvalidArgument;
  }
  if (depth == 0) return kInvalidUsage;  // nobody here calls it so
  group.push_back({comm, sends, part, stream});
  return kInProgress;
}

size_t width_of(int type) {
  constexpr size_t kWidths[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return type < 0 || type > 9 ? 0 : kWidths[type];
}

// Everybody gives everybody, itself too, a part; those that come are put in place, or added up in
// the order of the ranks.
int collect(const char* name, Communicator* comm, const Collective& what, CUstream stream) {
  note("collective", stream);
  run_before(stream);
  State& s = state();
  std::lock_guard lock(s.mutex);
  if (int result = enter(name, comm->rank); result != kSuccess) return result;
  size_t bytes = what.count * width_of(what.type);
  if (!s.live.contains(comm) || bytes == 0 || depth == 0) return kInvalidArgument;
  Group& all = s.groups[comm->id];
  const char* from = static_cast<const char*>(what.from);
  for (int r = 0; r < all.ranks && comm->rank != s.mute; ++r) {
    const char* part = from + (what.scatters ? static_cast<size_t>(r) * bytes : 0);
    all.mail[{comm->rank, r}].emplace_back(part, part + bytes);
  }
  char* to = static_cast<char*>(what.to);
  for (int r = 0; r < all.ranks; ++r) {
    if (what.gathers) {
      comm->awaited.push_back({r, to + static_cast<size_t>(r) * bytes, bytes, -1});
    } else {
      comm->awaited.push_back({r, to, bytes, r == 0 ? -1 : what.type});
    }
  }
  return kInProgress;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int ncclGetVersion(int* version) {
  *version = state().version;
  return kSuccess;
}
EXPORT int ncclGetUniqueId(NcclId* id) {
  std::lock_guard lock(state().mutex);
  if (int result = enter("ncclGetUniqueId", -1); result != kSuccess) return result;
  uint64_t number = state().next_id++;
  std::memcpy(id->bytes, &number, sizeof number);
  return kSuccess;
}
EXPORT int ncclCommInitRankConfig(Communicator** comm, int ranks, NcclId id, int rank,
                                  NcclConfig* config) {
  void* context = current_context();
  State& s = state();
  std::lock_guard lock(s.mutex);
  if (int result = enter("ncclCommInitRankConfig", rank); result != kSuccess) return result;
  bool good = config->magic == 0xcafebeef && config->blocking == 0 && context != nullptr;
  if (!good) return kInvalidArgument;
  Group& all = s.groups[number_of(id)];
  all.ranks = ranks;
  if (!all.contexts.insert(context).second || !all.here.insert(rank).second) all.broken = true;
  *comm = new Communicator{number_of(id), rank, kSuccess, {}};
  s.live.insert(*comm);
  return kInProgress;
}
EXPORT int ncclCommAbort(Communicator* comm) {
  std::lock_guard lock(state().mutex);
  ++state().calls["ncclCommAbort"];
  if (state().live.erase(comm) == 0) return kInvalidArgument;
  delete comm;
  return kSuccess;
}
EXPORT int ncclCommGetAsyncError(Communicator* comm, int* result) {
  std::lock_guard lock(state().mutex);
  if (!state().live.contains(comm)) return kInvalidArgument;
  int told = enter("ncclCommGetAsyncError", comm->rank);
  if (comm->error == kSuccess) comm->error = told;
  *result = comm->error != kSuccess ? comm->error : advance(*comm);
  return kSuccess;
}
EXPORT const char* ncclGetErrorString(int result) {
  return result == kInvalidUsage      ? "invalid usage"
         : result == kInvalidArgument ? "invalid argument"
         : result == kInternal        ? "internal error"
                                      : "an error of a test";
}
EXPORT const char* ncclGetLastError(Communicator*) { return "as the test asked"; }
EXPORT int ncclGroupStart() {
  ++depth;
  return kSuccess;
}
EXPORT int ncclGroupEnd() {
  if (--depth > 0) return kSuccess;
  std::vector<Call> calls = std::move(group);
  group.clear();
  if (!calls.empty()) {
    note("parts", calls[0].stream);
    run_before(calls[0].stream);
  }
  std::lock_guard lock(state().mutex);
  int rank = calls.empty() ? -1 : calls[0].comm->rank;
  if (int result = enter("ncclGroupEnd", rank); result != kSuccess) return result;
  for (const Call& call : calls) run(call);
  return kInProgress;
}
EXPORT int ncclSend(const void* data, size_t bytes, int type, int rank, Communicator* comm,
                    CUstream stream) {
  if (type != 0) return kInvalidArgument;
  return add("ncclSend", comm, true, {rank, static_cast<char*>(const_cast<void*>(data)), bytes, -1},
             stream);
}
EXPORT int ncclRecv(void* data, size_t bytes, int type, int rank, Communicator* comm,
                    CUstream stream) {
  if (type != 0) return kInvalidArgument;
  return add("ncclRecv", comm, false, {rank, static_cast<char*>(data), bytes, -1}, stream);
}

EXPORT int ncclAllGather(const void* from, void* to, size_t count, int type, Communicator* comm,
                         CUstream stream) {
  return collect("ncclAllGather", comm, {true, false, count, type, from, to}, stream);
}
EXPORT int ncclReduceScatter(const void* from, void* to, size_t count, int type, int sum,
                             Communicator* comm, CUstream stream) {
  if (sum != 0) return kInvalidArgument;
  return collect("ncclReduceScatter", comm, {false, true, count, type, from, to}, stream);
}
EXPORT int ncclAllReduce(const void* from, void* to, size_t count, int type, int sum,
                         Communicator* comm, CUstream stream) {
  if (sum != 0) return kInvalidArgument;
  return collect("ncclAllReduce", comm, {false, false, count, type, from, to}, stream);
}

// The call of this name by this rank (-1: any) returns `result` after `after` more successes, once;
// of ncclCommGetAsyncError it is what the communicator tells from then on.
EXPORT void fake_nccl_fail(const char* name, int rank, int result, int after) {
  std::lock_guard lock(state().mutex);
  state().failing[name] = {rank, result, after};
}
// What this rank sends is lost; -1: nobody's is.
EXPORT void fake_nccl_mute(int rank) {
  std::lock_guard lock(state().mutex);
  state().mute = rank;
}
EXPORT void fake_nccl_reset(int version) {
  std::lock_guard lock(state().mutex);
  state().version = version;
  state().mute = -1;
  state().failing.clear();
  state().calls.clear();
}
EXPORT int fake_nccl_calls(const char* name) {
  std::lock_guard lock(state().mutex);
  return state().calls[name];
}
EXPORT int fake_nccl_live() {
  std::lock_guard lock(state().mutex);
  return static_cast<int>(state().live.size());
}
