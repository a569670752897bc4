#include "tests/cuda/machine.h"

#include <dlfcn.h>
#include <ucontext.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <utility>

#include "tests/cuda/emulation.h"
#include "tests/cuda/races.h"

tile_emulation::Dimensions threadIdx, blockIdx, blockDim, gridDim;

namespace tile_emulation {

constexpr size_t kMostBlocks = 8;  // of a cluster
constexpr size_t kShared = 256 << 10;

}  // namespace tile_emulation

alignas(1024) unsigned char shared_memory[tile_emulation::kMostBlocks * tile_emulation::kShared];

namespace tile_emulation {
namespace {

constexpr size_t kStack = 256 << 10;
constexpr unsigned kMostWords = 8;             // that lanes give each other at once
constexpr unsigned kMostThreads = 1024;        // of a block
constexpr uint64_t kMostUninterrupted = 2000;  // accesses of all threads
constexpr uint64_t kMostTurns = 1000000;       // of a thread that waits for a phase

enum class State : char { running, block, cluster, warp, done };

// Copies that have not happened yet, with the number of barriers before them.
struct Later {
  void* to;
  const void* from;
  size_t bytes;
  int group;
  uint32_t begun;
};

struct Fibre {
  ucontext_t context;
  std::unique_ptr<char[]> stack;
  State state = State::running;
  bool orders = false;  // what waits is a barrier for memory too
  std::vector<Later> copies;
  int group = 0;
};

// A barrier in shared memory.
struct Phases {
  long long count = 0, left = 0, bytes = 0;
  unsigned phase = 0;
  // What has been handed over to the phase that is under way, and by those that are complete.
  Races::Known arriving, complete;
  void settle() {
    if (left != 0 || bytes != 0) return;
    complete = arriving;
    ++phase;
    left = count;
  }
};

struct Machine {
  Machine() { races.add(shared_memory, sizeof shared_memory, true); }

  ucontext_t scheduler;
  std::vector<Fibre> fibres;
  std::vector<unsigned> order;
  unsigned current = 0;
  unsigned block = 1;  // threads
  void (*kernel)() = nullptr;
  int arguments = 0;
  void* const* values = nullptr;
  uint64_t exchanged[kMostBlocks * kMostThreads] = {};
  unsigned gathered[kMostBlocks * kMostThreads][kMostWords] = {};
  uint64_t random = 1;
  uint64_t accesses_left = 1;
  Races races;
  std::map<unsigned, Phases> barriers;  // by place in shared memory
  std::string error;

  Fibre& self() { return fibres[current]; }
  uint64_t draw(uint64_t below) {
    random = random * 6364136223846793005U + 1442695040888963407U;
    return (random >> 33) % below;
  }
};
Machine machine;

void leave(State state) {
  machine.self().state = state;
  swapcontext(&machine.self().context, &machine.scheduler);
}
void wait(State state, bool orders) {
  machine.self().orders = orders;
  leave(state);
}

// Every parameter of a printed kernel is a pointer or a 64-bit integer: eight-byte values, which
// the host's calling convention passes alike.
template <size_t... I>
void call_with(std::index_sequence<I...>) {
  uint64_t v[sizeof...(I)] = {};
  for (int i = 0; i < machine.arguments; ++i) std::memcpy(&v[i], machine.values[i], 8);
  using Kernel = void (*)(decltype((static_cast<void>(I), uint64_t{}))...);
  reinterpret_cast<Kernel>(machine.kernel)(v[I]...);
}

// Arguments beyond those that the kernel takes do no harm.
constexpr int kFewArguments = 24, kMostArguments = 128;
void fibre_main() {
  if (machine.arguments <= kFewArguments) {
    call_with(std::make_index_sequence<kFewArguments>());
  } else {
    call_with(std::make_index_sequence<kMostArguments>());
  }
  leave(State::done);
}

// The threads of a cluster's blocks.
class Cluster {
 public:
  Cluster(unsigned first, unsigned block, unsigned blocks)
      : first_(first), block_(block), threads_(block * blocks) {
    machine.order.resize(threads_);
    std::iota(machine.order.begin(), machine.order.end(), 0U);
    for (unsigned t = 0; t < threads_; ++t) start(machine.fibres[t]);
  }

  // Resumes the threads until all have ended; false: they never will.
  bool run() {
    while (count(State::done, 0, threads_) < threads_) {
      bool moved = resume_all();
      for (unsigned b = 0; b < threads_; b += block_) {
        for (unsigned w = b; w < b + block_; w += 32) {
          moved |= pass(State::warp, Group::warp, w, std::min(w + 32, b + block_));
        }
        moved |= pass(State::block, Group::block, b, b + block_);
      }
      moved |= pass(State::cluster, Group::cluster, 0, threads_);
      if (!moved) return count(State::done, 0, threads_) == threads_;
    }
    return true;
  }

 private:
  static void start(Fibre& f) {
    getcontext(&f.context);
    if (!f.stack) f.stack = std::make_unique_for_overwrite<char[]>(kStack);
    f.context.uc_stack.ss_sp = f.stack.get();
    f.context.uc_stack.ss_size = kStack;
    f.context.uc_link = nullptr;
    f.state = State::running;
    f.copies.clear();
    f.group = 0;
    makecontext(&f.context, fibre_main, 0);
  }

  static unsigned count(State state, unsigned from, unsigned to) {
    unsigned n = 0;
    for (unsigned t = from; t < to; ++t) n += machine.fibres[t].state == state ? 1 : 0;
    return n;
  }

  // Each that runs takes a turn, in a random order.
  bool resume_all() {
    bool moved = false;
    for (unsigned i = threads_; i-- > 0;) {
      std::swap(machine.order[i], machine.order[machine.draw(i + 1)]);
      unsigned t = machine.order[i];
      if (machine.fibres[t].state != State::running) continue;
      moved = true;
      machine.current = t;
      unsigned linear = t % block_;
      threadIdx.x = linear % blockDim.x;
      threadIdx.y = linear / blockDim.x % blockDim.y;
      threadIdx.z = linear / blockDim.x / blockDim.y;
      blockIdx.x = first_ + t / block_;
      swapcontext(&machine.scheduler, &machine.fibres[t].context);
    }
    return moved;
  }

  // Lets a group go on whose threads all wait.
  static bool pass(State state, Group group, unsigned from, unsigned to) {
    if (count(state, from, to) != to - from) return false;
    if (machine.fibres[from].orders) machine.races.barrier(group, from);
    for (unsigned t = from; t < to; ++t) machine.fibres[t].state = State::running;
    return true;
  }

  unsigned first_, block_, threads_;
};

std::string name_of(void (*kernel)()) {
  Dl_info info{};
  bool known = dladdr(reinterpret_cast<void*>(kernel), &info) != 0 && info.dli_sname != nullptr;
  return known ? info.dli_sname : "a kernel";
}

}  // namespace

// Objects of kernels' libraries are made while these are loaded, on any thread, perhaps beside a
// launch: such accesses are no kernel's.
thread_local bool launching = false;

void accessed(const void* memory, size_t bytes, bool writes) {
  if (!launching) return;
  if (!machine.races.watches(memory)) return;
  if (--machine.accesses_left == 0) {
    machine.accesses_left = 1 + machine.draw(kMostUninterrupted);
    leave(State::running);
  }
  machine.races.access(machine.current, memory, bytes, writes);
}

void fault(const char* what) { machine.races.add_fault(what); }

void block_barrier() { wait(State::block, true); }
void cluster_barrier() { wait(State::cluster, true); }
void warp_barrier() { wait(State::warp, true); }

unsigned current_lane() { return machine.current % machine.block % 32; }

// The threads meet, but their memory is in no order by that.
const uint64_t* meet(uint64_t value) {
  unsigned warp = machine.current - current_lane();
  machine.exchanged[machine.current] = value;
  wait(State::warp, false);
  return machine.exchanged + warp;
}
void part() { wait(State::warp, false); }
uint64_t exchange(uint64_t value, unsigned source) {
  uint64_t result = meet(value)[source];
  part();
  return result;
}

void gather(const unsigned* mine, unsigned count, unsigned* all) {
  unsigned lane = current_lane(), warp = machine.current - lane;
  unsigned lanes = std::min(32U, machine.block - (warp % machine.block));
  for (unsigned i = 0; i < count; ++i) machine.gathered[machine.current][i] = mine[i];
  wait(State::warp, false);
  for (unsigned l = 0; l < lanes; ++l) {
    for (unsigned i = 0; i < count; ++i) all[l * count + i] = machine.gathered[warp + l][i];
  }
  wait(State::warp, false);
}

void copy_later(void* to, const void* from, size_t bytes) {
  const uintptr_t alignment = std::min<size_t>(bytes, 16);
  bool aligned = reinterpret_cast<uintptr_t>(to) % alignment == 0 &&
                 reinterpret_cast<uintptr_t>(from) % alignment == 0;
  if (!aligned) machine.races.found.push_back("a misaligned copy");
  Fibre& self = machine.self();
  machine.races.begin_copy(machine.current, to, from, bytes);
  self.copies.push_back({to, from, bytes, self.group, machine.races.now()});
}

void commit_copies() { ++machine.self().group; }
// Copies happen as late as they may.
void wait_for_copies(int pending) {
  Fibre& self = machine.self();
  int due = self.group - 1 - pending;
  auto first = std::stable_partition(self.copies.begin(), self.copies.end(),
                                     [&](const Later& l) { return l.group > due; });
  for (auto it = first; it != self.copies.end(); ++it) {
    machine.races.end_copy(machine.current, it->to, it->from, it->bytes, it->begun);
    std::memcpy(it->to, it->from, it->bytes);
  }
  self.copies.erase(first, self.copies.end());
}
void finish_copies(int pending) {
  commit_copies();
  wait_for_copies(pending);
}

void init_barrier(unsigned barrier, unsigned count) {
  machine.barriers[barrier] = {count, count, 0, 0, {}, {}};
}
void arrive(unsigned barrier, long long expected_bytes) {
  Phases& b = machine.barriers.at(barrier);
  machine.races.hand_over(machine.current, b.arriving);
  --b.left;
  b.bytes += expected_bytes;
  b.settle();
}
void wait_for_phase(unsigned barrier, unsigned parity) {
  for (uint64_t turns = 0; machine.barriers.at(barrier).phase % 2 == parity; ++turns) {
    if (turns == kMostTurns) machine.races.found.emplace_back("a barrier that nobody completes");
    if (turns >= kMostTurns) leave(State::done);
    leave(State::running);
  }
  machine.races.take_over(machine.current, machine.barriers.at(barrier).complete);
}

void load_box(unsigned to, const BoxMap& map, unsigned barrier, const int* coordinates) {
  constexpr unsigned kLine = 128;
  unsigned cells = 1;
  for (unsigned d = 0; d < map.rank; ++d) cells *= (map.box[d] + map.steps[d] - 1) / map.steps[d];
  for (unsigned cell = 0; cell < cells; ++cell) {
    const unsigned char* from = map.base;
    bool inside = true;
    for (unsigned d = 0, rest = cell; d < map.rank; ++d) {
      unsigned extent = (map.box[d] + map.steps[d] - 1) / map.steps[d];
      long long at = coordinates[d] + static_cast<long long>(rest % extent * map.steps[d]);
      rest /= extent;
      inside = inside && at >= 0 && at < static_cast<long long>(map.sizes[d]);
      from += at * static_cast<long long>(d == 0 ? map.element_bytes : map.strides_bytes[d]);
    }
    unsigned place = to + cell * map.element_bytes;
    unsigned char* target = shared_memory + (place ^ (place / kLine % 8) << 4);
    if (inside) std::memcpy(target, from, map.element_bytes);
    if (!inside) std::memset(target, 0, map.element_bytes);
  }
  Phases& b = machine.barriers.at(barrier);
  b.bytes -= static_cast<long long>(cells) * map.element_bytes;
  b.settle();
}

int cluster_block() { return static_cast<int>(machine.current / machine.block); }
unsigned char* own_memory(unsigned char* shared) {
  return shared + static_cast<size_t>(cluster_block()) * kShared;
}
unsigned char* memory_in_block(unsigned char* own, int block) {
  return own + (block - cluster_block()) * static_cast<ptrdiff_t>(kShared);
}

void add_memory(const void* begin, size_t bytes) { machine.races.add(begin, bytes, false); }
void drop_memory(const void* begin) { machine.races.drop(begin); }
void restrict_memory(const void* begin, bool restricted) {
  machine.races.restrict_to(begin, restricted);
}

void fill_with_nonsense(void* memory, size_t bytes) {
  constexpr unsigned char kHalf[2] = {0xf4, 0x7f};
  for (size_t i = 0; i < bytes; ++i) static_cast<unsigned char*>(memory)[i] = kHalf[i % 2];
}

const char* emulate(void (*kernel)(), int arguments, void* const* values, const unsigned* grid,
                    const unsigned* block, unsigned long shared_bytes, unsigned blocks) {
  unsigned threads = block[0] * block[1] * block[2];
  if (shared_bytes > kShared || arguments > kMostArguments || threads > kMostThreads ||
      blocks < 1 || blocks > kMostBlocks || grid[0] % blocks != 0) {
    return "a launch beyond what a block may have";
  }
  machine.kernel = kernel;
  machine.arguments = arguments;
  machine.values = values;
  machine.block = threads;
  size_t fibres = static_cast<size_t>(threads) * blocks;
  if (machine.fibres.size() < fibres) machine.fibres = std::vector<Fibre>(fibres);
  machine.races.begin_launch();
  std::string name = name_of(kernel);
  blockDim = {block[0], block[1], block[2]};
  gridDim = {grid[0], grid[1], grid[2]};
  bool ended = true;
  launching = true;
  for (unsigned z = 0; z < grid[2]; ++z) {
    for (unsigned y = 0; y < grid[1]; ++y) {
      for (unsigned x = 0; ended && x < grid[0]; x += blocks) {
        blockIdx = {x, y, z};
        for (unsigned i = 0; i < blocks; ++i) {
          fill_with_nonsense(shared_memory + i * kShared, shared_bytes);
        }
        machine.races.begin_cluster(threads, name);
        machine.barriers.clear();
        ended = Cluster(x, threads, blocks).run();
      }
    }
  }
  launching = false;
  machine.error.clear();
  if (!ended) machine.error = name + ": a barrier that some threads do not reach\n";
  for (const std::string& race : machine.races.found) machine.error += race + "\n";
  return machine.error.empty() ? nullptr : machine.error.c_str();
}

}  // namespace tile_emulation
