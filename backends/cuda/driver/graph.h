// CUDA graphs: several launches given to the device at once.
#pragma once

#include <functional>
#include <memory>

#include "backends/cuda/driver/session.h"

namespace tile::cuda {

// Whose priority a graph's kernels have: that of the stream in which it runs, or each that of the
// stream by which it was recorded.
enum class GraphPriority : uint8_t { of_run, of_recording };

// What `work` gives the stream that it is called with, as a graph. Null where the driver does not
// record some of it. Throws what `work` throws, and Failure (run).
std::unique_ptr<Recording> record_graph(const std::shared_ptr<const Device>& device,
                                        Session& session, GraphPriority priority,
                                        const std::function<void(void* stream)>& work);

}  // namespace tile::cuda
