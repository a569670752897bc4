// Sorting on the GPU: bitonic networks over positions, so that equal elements keep their places.
#pragma once

#include <string>
#include <vector>

#include "backends/cuda/driver/code.h"
#include "core/ir/bound.h"

namespace tile::cuda {

// The text of the kernels that sort rows of one element type.
CudaSource sort_source(DType type);
std::vector<std::string> sort_parameters();  // the names of its kernels' parameters, in order

// Bytes for the positions of every row, padded to a power of two.
size_t sort_workspace_bytes(const Sort& sort, const BoundTensor& source);

// Gives the stream the launches that sort `from` into `to` (both dense). `code` is sort_source's.
void sort_on_device(const CudaCode& code, const Sort& sort, const BoundTensor& source,
                    const void* from, void* to, const LaunchOptions& options, Session& session);

}  // namespace tile::cuda
