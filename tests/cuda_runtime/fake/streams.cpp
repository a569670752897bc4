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
CUresult fake_cuGraphLaunch(CUgraphExec graph, CUstream) {
  ENTER(cuGraphLaunch);
  std::lock_guard lock(state().mutex);
  for (const std::function<void()>& work : state().graphs[graph]) work();
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
  return CUDA_SUCCESS;
}
CUresult fake_cuStreamDestroy(CUstream stream) {
  {
    std::lock_guard lock(state().mutex);
    state().beside.erase(stream);
  }
  return drop("stream", stream);
}
CUresult fake_cuStreamSynchronize(CUstream stream) {
  if (records(stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return enter("cuStreamSynchronize");
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
  return CUDA_SUCCESS;
}
CUresult fake_cuEventSynchronize(CUevent) { return enter("cuEventSynchronize"); }
CUresult fake_cuEventElapsedTime(float* milliseconds, CUevent, CUevent) {
  ENTER(cuEventElapsedTime);
  *milliseconds = 0.001F;
  return CUDA_SUCCESS;
}
CUresult fake_cuEventDestroy(CUevent event) { return drop("event", event); }
CUresult fake_cuEventQuery(CUevent event) {
  ENTER(cuEventQuery);
  std::lock_guard lock(state().mutex);
  bool held = state().holds_events && state().recorded[event] % 2 != 0;
  return held ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

}  // namespace tile_fake
