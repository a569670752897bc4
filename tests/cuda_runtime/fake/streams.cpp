// Streams, their recordings and events.
#include <cstring>
#include <utility>

#include "tests/cuda_runtime/fake/driver_calls.h"
#include "tests/cuda_runtime/fake/driver_state.h"

namespace tile_fake {

CUresult fake_cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode) {
  ENTER(cuStreamBeginCapture);
  std::lock_guard lock(state().mutex);
  state().recording[stream];
  return CUDA_SUCCESS;
}
CUresult fake_cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  ENTER(cuStreamIsCapturing);
  *status = records(stream) ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
namespace {
void hand_on_memory(void* from, void* to) {
  if (auto memory = state().memory_of_graphs.extract(from)) {
    memory.key() = to;
    state().memory_of_graphs.insert(std::move(memory));
  }
}
}  // namespace
CUresult fake_cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  CUresult made = make("graph", graph);
  std::lock_guard lock(state().mutex);
  state().graphs[*graph] = std::move(state().recording[stream]);
  state().recording.erase(stream);
  hand_on_memory(stream, *graph);
  return made;
}
CUresult fake_cuGraphInstantiateWithFlags(CUgraphExec* made, CUgraph graph, unsigned long long) {
  ENTER(cuGraphInstantiateWithFlags);
  CUresult result = make("executable graph", made);
  std::lock_guard lock(state().mutex);
  state().graphs[*made] = state().graphs[graph];
  hand_on_memory(graph, *made);
  return result;
}
CUresult fake_cuGraphLaunch(CUgraphExec graph, CUstream stream) {
  ENTER(cuGraphLaunch);
  State::Work all;
  {
    std::lock_guard lock(state().mutex);
    all = state().graphs[graph];
  }
  for (const std::function<void()>& work : all) give(stream, work);
  return CUDA_SUCCESS;
}
CUresult fake_cuGraphDestroy(CUgraph graph) {
  {
    std::lock_guard lock(state().mutex);
    state().graphs.erase(graph);
  }
  return drop("graph", graph);
}
CUresult fake_cuGraphExecDestroy(CUgraphExec graph) {
  run_all();
  std::vector<void*> memory;
  {
    std::lock_guard lock(state().mutex);
    state().graphs.erase(graph);
    if (auto known = state().memory_of_graphs.extract(graph)) memory = std::move(known.mapped());
  }
  for (void* data : memory) drop_memory(data);
  return drop("executable graph", graph);
}

CUresult fake_cuStreamCreate(CUstream* stream, unsigned) {
  ENTER(cuStreamCreate);
  CUresult made = make("stream", stream);
  std::lock_guard lock(state().mutex);
  state().owners[*stream] = current_context();
  return made;
}
CUresult fake_cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int) {
  ENTER(cuStreamCreateWithPriority);
  CUresult made = fake_cuStreamCreate(stream, flags);
  std::lock_guard lock(state().mutex);
  if (made == CUDA_SUCCESS) state().beside.insert(*stream);
  return made;
}
CUresult fake_cuCtxGetStreamPriorityRange(int* least, int* most) {
  *least = 0;
  *most = -5;
  return enter("cuCtxGetStreamPriorityRange");
}
CUresult fake_cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  ENTER(cuStreamWaitEvent);
  note_event("wait", event, stream);
  std::lock_guard lock(state().mutex);
  if (!state().late || is_reached(event)) return CUDA_SUCCESS;
  const std::shared_ptr<Event>& known = state().events[event];
  state().queues[stream].push_back({nullptr, known, nullptr, known->recorded});
  return CUDA_SUCCESS;
}
CUresult fake_cuStreamDestroy(CUstream stream) {
  run_all_of(stream);
  {
    std::lock_guard lock(state().mutex);
    state().beside.erase(stream);
    state().queues.erase(stream);
  }
  return drop("stream", stream);
}
CUresult fake_cuStreamSynchronize(CUstream stream) {
  if (records(stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  ENTER(cuStreamSynchronize);
  run_all_of(stream);
  return static_cast<CUresult>(state().broken);
}
CUresult fake_cuEventCreate(CUevent* event, unsigned) {
  ENTER(cuEventCreate);
  return make("event", event);
}
CUresult fake_cuEventRecord(CUevent event, CUstream stream) {
  thread_local int count = 0;
  ENTER(cuEventRecord);
  note_event("record", event, stream);
  std::lock_guard lock(state().mutex);
  state().recorded[event] = count++;
  if (!state().late) return CUDA_SUCCESS;
  std::shared_ptr<Event>& known = state().events[event];
  if (!known) known = std::make_shared<Event>();
  state().queues[stream].push_back({nullptr, nullptr, known, ++known->recorded});
  return CUDA_SUCCESS;
}
CUresult fake_cuEventSynchronize(CUevent event) {
  ENTER(cuEventSynchronize);
  std::lock_guard lock(state().mutex);
  run_until([=] { return is_reached(event); });
  return static_cast<CUresult>(state().broken);
}
CUresult fake_cuEventElapsedTime(float* milliseconds, CUevent, CUevent) {
  ENTER(cuEventElapsedTime);
  *milliseconds = 0.001F;
  return CUDA_SUCCESS;
}
CUresult fake_cuEventDestroy(CUevent event) {
  {
    std::lock_guard lock(state().mutex);
    state().events.erase(event);
  }
  return drop("event", event);
}
// While somebody looks at events the streams come a little further.
CUresult fake_cuEventQuery(CUevent event) {
  ENTER(cuEventQuery);
  std::lock_guard lock(state().mutex);
  for (auto steps = state().random() % 4; steps > 0 && step();) --steps;
  bool held = state().holds_events && state().recorded[event] % 2 != 0;
  return held || !is_reached(event) ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

}  // namespace tile_fake
