// Streams, their recordings and events.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>
#include <utility>

#include "tests/cuda_runtime/fake/driver_calls.h"
#include "tests/cuda_runtime/fake/driver_state.h"

namespace tile_fake {

CUresult fake_cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode) {
  ENTER(cuStreamBeginCapture);
  std::lock_guard lock(state().mutex);
  auto graph = std::make_shared<Graph>();
  graph->origin = stream;
  graph->streams.insert(stream);
  state().recording[stream] = graph;
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
    std::vector<void*>& all = state().memory_of_graphs[to];
    all.insert(all.end(), memory.mapped().begin(), memory.mapped().end());
  }
}
}  // namespace
namespace {
// Whether what other streams recorded comes before something of the first one's.
bool is_joined(const Graph& graph) {
  std::map<CUstream, CUevent> last;  // of each stream: what it reaches at its end
  std::set<CUevent> awaited;
  for (const Recorded& one : graph.all) {
    last[one.stream] = one.reaches;
    if (one.awaits != nullptr) awaited.insert(one.awaits);
  }
  last.erase(graph.origin);
  return std::all_of(last.begin(), last.end(),
                     [&](const auto& end) { return awaited.contains(end.second); });
}
}  // namespace
CUresult fake_cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  CUresult made = make("graph", graph);
  std::lock_guard lock(state().mutex);
  std::shared_ptr<Graph> recorded = state().recording[stream];
  for (CUstream one : recorded->streams) {
    state().recording.erase(one);
    hand_on_memory(one, *graph);
  }
  std::erase_if(state().recorded_events, [&](const auto& e) { return e.second == recorded; });
  state().graphs[*graph] = recorded;
  return is_joined(*recorded) ? made : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
}
CUresult fake_cuGraphInstantiateWithFlags(CUgraphExec* made, CUgraph graph,
                                          unsigned long long flags) {
  ENTER(cuGraphInstantiateWithFlags);
  if (flags == CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY) note("priorities", nullptr);
  CUresult result = make("executable graph", made);
  std::lock_guard lock(state().mutex);
  state().graphs[*made] = state().graphs[graph];
  hand_on_memory(graph, *made);
  return result;
}
namespace {
// Each stream of the recording becomes a queue of its own, between what the stream that it is
// launched in had and gets. Under the lock.
void queue_up(const Graph& graph, CUstream stream) {
  std::map<CUevent, std::shared_ptr<Event>> events;
  std::map<CUstream, std::deque<Queued>*> queues;
  auto begin = std::make_shared<Event>();
  state().queues[stream].push_back({nullptr, nullptr, begin, 1, nullptr});
  std::vector<std::shared_ptr<Event>> ends;
  for (CUstream one : graph.streams) {
    auto* number = reinterpret_cast<CUstream>(state().next_branch += 2);  // no address of a stream
    queues[one] = &state().queues[number];
    queues[one]->push_back({nullptr, begin, nullptr, 1, nullptr});
  }
  for (const Recorded& one : graph.all) {
    auto event_of = [&](CUevent event) {
      std::shared_ptr<Event>& known = events[event];
      if (!known) known = std::make_shared<Event>();
      return known;
    };
    Queued now{one.work, nullptr, nullptr, 0, one.is_there};
    if (one.reaches != nullptr) {
      now.reaches = event_of(one.reaches);
      now.record = ++now.reaches->recorded;
    }
    if (one.awaits != nullptr) {
      now.awaits = event_of(one.awaits);
      now.record = now.awaits->recorded;
    }
    queues[one.stream]->push_back(std::move(now));
  }
  for (CUstream one : graph.streams) {
    auto end = std::make_shared<Event>();
    queues[one]->push_back({nullptr, nullptr, end, 1, nullptr});
    state().queues[stream].push_back({nullptr, end, nullptr, 1, nullptr});
  }
}
}  // namespace
CUresult fake_cuGraphLaunch(CUgraphExec graph, CUstream stream) {
  ENTER(cuGraphLaunch);
  note("graph", stream);
  std::shared_ptr<const Graph> all;
  {
    std::lock_guard lock(state().mutex);
    all = state().graphs[graph];
    bool waits = std::any_of(all->all.begin(), all->all.end(),
                             [](const Recorded& one) { return one.is_there != nullptr; });
    if (waits || all->streams.size() > 1) {
      queue_up(*all, stream);
      return CUDA_SUCCESS;
    }
  }
  for (const Recorded& one : all->all) {
    if (one.work) give(stream, one.work);
  }
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
  auto recorded = state().recorded_events.find(event);
  if (recorded != state().recorded_events.end()) {
    state().recording[stream] = recorded->second;  // the stream records, too
    recorded->second->streams.insert(stream);
    recorded->second->all.push_back({stream, nullptr, nullptr, event, nullptr});
    return CUDA_SUCCESS;
  }
  if (is_reached(event)) return CUDA_SUCCESS;
  const std::shared_ptr<Event>& known = state().events[event];
  state().queues[stream].push_back({nullptr, known, nullptr, known->recorded, nullptr});
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
  if (auto it = state().recording.find(stream); it != state().recording.end()) {
    state().recorded_events[event] = it->second;
    it->second->all.push_back({stream, nullptr, nullptr, nullptr, event});
    return CUDA_SUCCESS;
  }
  state().recorded_events.erase(event);
  state().recorded[event] = count++;
  std::shared_ptr<Event>& known = state().events[event];
  if (!known) known = std::make_shared<Event>();
  ++known->recorded;
  if (is_behind(stream)) {
    state().queues[stream].push_back({nullptr, nullptr, known, known->recorded, nullptr});
  } else {
    known->reached = known->recorded;
  }
  return CUDA_SUCCESS;
}
CUresult fake_cuEventSynchronize(CUevent event) {
  ENTER(cuEventSynchronize);
  std::lock_guard lock(state().mutex);
  run_until([=] { return is_reached(event); });
  return static_cast<CUresult>(state().broken);
}
// Values of 32 bits, whose flags say how they are compared.
CUresult fake_cuStreamBatchMemOp(CUstream stream, unsigned count, CUstreamBatchMemOpParams* all,
                                 unsigned) {
  ENTER(cuStreamBatchMemOp);
  note("signals", stream);
  for (const CUstreamBatchMemOpParams& one : std::span(all, count)) {
    if (one.operation == CU_STREAM_MEM_OP_WRITE_VALUE_32) {
      auto* to = reinterpret_cast<uint32_t*>(one.writeValue.address);
      uint32_t value = one.writeValue.value;
      give(stream, [=] { std::atomic_ref(*to).store(value); });
      continue;
    }
    if (one.operation != CU_STREAM_MEM_OP_WAIT_VALUE_32) return CUDA_ERROR_INVALID_VALUE;
    auto* at = reinterpret_cast<uint32_t*>(one.waitValue.address);
    uint32_t value = one.waitValue.value;
    bool equal = one.waitValue.flags == CU_STREAM_WAIT_VALUE_EQ;
    auto is_there = [=] {
      uint32_t now = std::atomic_ref(*at).load();
      return equal ? now == value : static_cast<int32_t>(now - value) >= 0;
    };
    std::lock_guard lock(state().mutex);
    auto it = state().recording.find(stream);
    if (it != state().recording.end()) {
      it->second->all.push_back({stream, nullptr, is_there, nullptr, nullptr});
    } else {
      state().queues[stream].push_back({nullptr, nullptr, nullptr, 0, is_there});
    }
  }
  return CUDA_SUCCESS;
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
    state().recorded_events.erase(event);
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
