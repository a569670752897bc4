#include "backends/cuda/driver/graph.h"

#include "core/support/diagnostic.h"

namespace tile::cuda {
namespace {

// A stream that records, destroyed with what it recorded. The device's context is current.
class Capture {
 public:
  Capture(const Driver& driver, Session& session) : driver_(driver), session_(session) {
    session.check(driver.cuStreamCreate_(&stream_, CU_STREAM_NON_BLOCKING), "making a stream");
  }
  ~Capture() {
    if (recording_) end();
    if (graph_ != nullptr) driver_.cuGraphDestroy_(graph_);
    driver_.cuStreamDestroy_(stream_);
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  CUstream stream() const { return stream_; }
  // Other threads' calls do not matter to this thread's recording.
  void begin() {
    session_.check(driver_.cuStreamBeginCapture_(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                   "recording launches");
    recording_ = true;
  }
  // Null where something that was asked for cannot be recorded.
  CUgraph end() {
    recording_ = false;
    CUresult ended = driver_.cuStreamEndCapture_(stream_, &graph_);
    return ended == CUDA_SUCCESS ? graph_ : nullptr;
  }

 private:
  const Driver& driver_;
  Session& session_;
  CUstream stream_ = nullptr;
  CUgraph graph_ = nullptr;
  bool recording_ = false;
};

class Graph : public Recording {
 public:
  Graph(std::shared_ptr<const Device> device, Session& session, CUgraphExec graph,
        KernelNames kernels)
      : device_(std::move(device)),
        session_(session),
        graph_(graph),
        kernels_(std::move(kernels)) {}
  ~Graph() override {
    try {
      Current current(*device_);
      device_->driver().cuGraphExecDestroy_(graph_);
    } catch (const Failure&) {
      // The context is gone, and with it the graph.
    }
  }
  void run(void* stream) override {
    std::lock_guard lock(mutex_);  // the driver takes a graph from one thread at a time
    Current current(*device_);
    CUstream to = session_.stream_of(stream);
    session_.check(device_->driver().cuGraphLaunch_(graph_, to), "launching a graph of kernels");
    session_.launched(kernels_, to);
  }

 private:
  std::shared_ptr<const Device> device_;
  Session& session_;
  CUgraphExec graph_;
  KernelNames kernels_;
  std::mutex mutex_;
};

}  // namespace

std::unique_ptr<Recording> record_graph(const std::shared_ptr<const Device>& device,
                                        Session& session, GraphPriority priority,
                                        const std::function<void(void* stream)>& work) {
  const Driver& driver = device->driver();
  Current current(*device);
  Capture capture(driver, session);
  capture.begin();
  work(capture.stream());
  KernelNames kernels = session.recorded(capture.stream());
  CUgraph graph = capture.end();
  CUgraphExec made = nullptr;
  unsigned long long flags =
      priority == GraphPriority::of_recording ? CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY : 0;
  if (graph == nullptr ||
      driver.cuGraphInstantiateWithFlags_(&made, graph, flags) != CUDA_SUCCESS) {
    return nullptr;
  }
  return std::make_unique<Graph>(device, session, made, std::move(kernels));
}

}  // namespace tile::cuda
