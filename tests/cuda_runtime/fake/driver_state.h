// What the fake driver's calls share: what is live, what is recorded, and what a test asked for.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace tile_fake {

struct Failing {
  int result = 0;
  int after = 0;  // calls that still succeed
};

// TILE_FAKE_GPUS says how many GPUs there are, for programs that no test steers.
int devices_of_environment();

// What one thread gave streams, in order, while a test asks for it: a line for each piece of work,
// and for each event that is recorded or waited for, by its number in this trace.
struct Trace {
  std::string text;
  std::map<CUevent, int> numbers;
  int events = 0;  // that were recorded, or waited for alone
};

// Of an event: how often it was recorded, and the number of the last record that was reached.
struct Event {
  uint64_t recorded = 0, reached = 0;
};
// What a stream has still to do, where streams run late or wait for memory: work, or to wait for a
// record of an event or for a value in memory, or to reach an event.
struct Queued {
  std::function<void()> work;
  std::shared_ptr<Event> awaits, reaches;
  uint64_t record = 0;
  std::function<bool()> is_there;  // the value
};
// What streams record together: each piece of work belongs to one of them, and events order them.
struct Recorded {
  CUstream stream = nullptr;
  std::function<void()> work;
  std::function<bool()> is_there;
  CUevent awaits = nullptr, reaches = nullptr;
};
struct Graph {
  CUstream origin = nullptr;
  std::set<CUstream> streams;
  std::vector<Recorded> all;
};

struct State {
  std::mutex mutex;
  int version = 13000;
  int devices = devices_of_environment();
  int broken = 0;  // what every call returns once a kernel has failed
  std::map<std::string, Failing> failing;
  std::map<std::string, int> calls;
  std::map<std::string, std::set<void*>> live;
  std::map<void*, size_t> sizes;
  std::set<uint64_t> first_arguments;  // of launches
  std::map<CUdevice, CUcontext> contexts;
  std::map<void*, CUcontext> owners;    // of modules and streams
  std::map<void*, CUmemoryPool> pools;  // of memory
  std::map<CUevent, int> recorded;      // events, by how many their thread recorded before
  bool reaches_peers = true;
  bool traces = false;
  std::map<std::thread::id, Trace> traced;
  std::set<CUstream> beside;  // streams that were made with a priority
  bool holds_events = false;
  // Streams run what they are given when somebody asks for it, and in a random order.
  bool late = false;
  std::mt19937 random;
  std::map<CUstream, std::deque<Queued>> queues;
  std::map<CUevent, std::shared_ptr<Event>> events;
  uintptr_t next_branch = 1;  // of streams of recordings that run
  std::vector<void*> freed;   // memory of streams that run late, until all is done
  std::map<CUstream, std::shared_ptr<Graph>> recording;       // streams that record
  std::map<CUevent, std::shared_ptr<Graph>> recorded_events;  // that were recorded there
  std::map<void*, std::shared_ptr<const Graph>> graphs;       // and what was recorded
  // What was allocated in streams that record, and now is a graph's for all its runs.
  std::map<void*, std::vector<void*>> memory_of_graphs;
};
State& state();

// What the call that begins with this returns, where it is to fail.
CUresult enter(const char* name);
// clang-format off: it does not settle on a column for the ends of these lines.
#define ENTER(name) \
  if (CUresult entered = enter(#name); entered != CUDA_SUCCESS) return entered
// clang-format on

void note(const std::string& what, CUstream stream);
void note_event(const char* what, CUevent event, CUstream stream);

// A handle of this kind, and its end.
template <class Handle>
CUresult make(const char* kind, Handle* handle) {
  void* object = std::malloc(16);
  std::lock_guard lock(state().mutex);
  state().live[kind].insert(object);
  *handle = static_cast<Handle>(object);
  return CUDA_SUCCESS;
}
CUresult drop(const char* kind, void* object);

// The context that this thread has made its current one.
std::vector<CUcontext>& contexts_of_thread();
CUcontext current_context();

bool records(CUstream stream);
// Whether what the stream is given comes later; under the lock.
bool is_behind(CUstream stream);
// Does the work, or records it where the stream does, or keeps it where streams run late. It is
// done under the lock.
void give(CUstream stream, const std::function<void()>& work);
CUresult drop_memory(void* data);

// Of streams that run late, under the lock. Whether there was a piece of work to do.
bool step();
void run_until(const std::function<bool()>& is_over);
bool is_reached(CUevent event);
// Everything that need not wait for a value, or all that a stream has to do; without the lock.
void run_all();
void run_all_of(CUstream stream);

}  // namespace tile_fake
