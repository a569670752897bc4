#include "tests/cuda_runtime/fake/driver_state.h"

#include <utility>

#include "tests/cuda/machine.h"

namespace tile_fake {

int devices_of_environment() {
  const char* text = std::getenv("TILE_FAKE_GPUS");
  return text == nullptr ? 1 : std::atoi(text);
}

State& state() {
  static State s;
  return s;
}

CUresult enter(const char* name) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  ++s.calls[name];
  auto it = s.failing.find(name);
  if (it != s.failing.end() && it->second.after-- <= 0) {
    auto result = static_cast<CUresult>(it->second.result);
    s.failing.erase(it);
    return result;
  }
  return static_cast<CUresult>(s.broken);
}

CUresult drop(const char* kind, void* object) {
  std::lock_guard lock(state().mutex);
  if (state().live[kind].erase(object) == 0) return CUDA_ERROR_INVALID_HANDLE;
  std::free(object);
  return CUDA_SUCCESS;
}

std::vector<CUcontext>& contexts_of_thread() {
  static thread_local std::vector<CUcontext> current;
  return current;
}
CUcontext current_context() {
  return contexts_of_thread().empty() ? nullptr : contexts_of_thread().back();
}

void note(const std::string& what, CUstream stream) {
  std::lock_guard lock(state().mutex);
  if (!state().traces) return;
  const char* where = state().beside.contains(stream) ? " beside" : "";
  state().traced[std::this_thread::get_id()].text += what + where + "\n";
}
void note_event(const char* what, CUevent event, CUstream stream) {
  int number = 0;
  {
    std::lock_guard lock(state().mutex);
    if (!state().traces) return;
    Trace& trace = state().traced[std::this_thread::get_id()];
    bool records = what[0] == 'r';
    int& known = trace.numbers[event];
    if (records || known == 0) known = ++trace.events;
    number = known;
  }
  note(what + (" " + std::to_string(number)), stream);
}

bool records(CUstream stream) {
  std::lock_guard lock(state().mutex);
  return state().recording.contains(stream);
}
bool is_behind(CUstream stream) {
  auto queue = state().queues.find(stream);
  return state().late || (queue != state().queues.end() && !queue->second.empty());
}
void give(CUstream stream, const std::function<void()>& work) {
  std::lock_guard lock(state().mutex);
  auto it = state().recording.find(stream);
  if (it != state().recording.end()) {
    it->second->all.push_back({stream, work, nullptr, nullptr, nullptr});
  } else if (is_behind(stream)) {
    state().queues[stream].push_back({work, nullptr, nullptr, 0, nullptr});
  } else {
    work();
  }
}

bool step() {
  std::vector<std::deque<Queued>*> ready;
  for (auto& [stream, queue] : state().queues) {
    if (queue.empty()) continue;
    const Queued& first = queue.front();
    bool waits = (first.awaits && first.awaits->reached < first.record) ||
                 (first.is_there && !first.is_there());
    if (!waits) ready.push_back(&queue);
  }
  if (ready.empty()) return false;
  std::deque<Queued>& queue = *ready[state().random() % ready.size()];
  Queued now = std::move(queue.front());
  queue.pop_front();
  if (now.reaches) now.reaches->reached = now.record;
  if (now.work) now.work();
  return true;
}
void run_until(const std::function<bool()>& is_over) {
  while (!is_over() && step()) {
  }
}
bool is_reached(CUevent event) {
  auto known = state().events.find(event);
  return known == state().events.end() || known->second->reached == known->second->recorded;
}
void run_all() {
  std::vector<void*> freed;
  {
    std::lock_guard lock(state().mutex);
    run_until([] { return false; });
    freed = std::exchange(state().freed, {});
  }
  for (void* memory : freed) drop_memory(memory);
}
void run_all_of(CUstream stream) {
  for (;;) {
    {
      std::lock_guard lock(state().mutex);
      auto is_done = [=] { return state().queues[stream].empty(); };
      run_until(is_done);
      if (is_done()) return;
    }
    std::this_thread::yield();  // another thread's stream writes what this one waits for
  }
}
CUresult drop_memory(void* data) {
  {
    std::lock_guard lock(state().mutex);
    tile_emulation::drop_memory(data);
    state().pools.erase(data);
  }
  return drop("memory", data);
}

}  // namespace tile_fake
