// CUDA graphs: several launches given to the device at once.
#pragma once

#include <functional>
#include <memory>

#include "backends/cuda/driver/session.h"

namespace tile::cuda {

// What `work` gives the stream that it is called with, as a graph. Null where the driver does not
// record some of it. Throws what `work` throws, and Failure (run).
std::unique_ptr<Recording> record_graph(const std::shared_ptr<const Device>& device,
                                        Session& session,
                                        const std::function<void(void* stream)>& work);

}  // namespace tile::cuda
