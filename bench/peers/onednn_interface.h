// Declarations of oneDNN 3's C interface, as far as it is used here: the library is opened at run
// time.
#pragma once

#include <cstdint>
#include <memory>

#include "bench/peers/library.h"

namespace tile::bench::onednn {

enum : int {
  kSuccess = 0,
  kCpu = 1,      // engine kind
  kInOrder = 1,  // stream flags
  kBf16 = 2,     // data types
  kF32 = 3,
  kAnyLayout = 1,  // format tag
  kTraining = 64,  // propagation kinds
  kInference = 96,
  kDirect = 0x1,  // algorithms
  kRelu = 0x20,
  kMaxPooling = 0x1ff,
  kReduceMax = 0x2fff2,
  kReduceSum = 0x2fff4,
  kReduceMean = 0x2fff6,
  kSoftmax = 0x30000,
  kUseScaleAndShift = 0x6,  // normalization flags
  kSource = 1,              // arguments
  kDestination = 17,
  kWeights = 33,
  kBias = 41,
  kScale = 51,
  kShift = 52,
  kDiffSource = 129,
  kDiffDestination = 145,
  kDiffWeights = 161,
  kQueryWeights = 131,  // queries for a memory descriptor
  kQueryDiffWeights = 132,
};
constexpr unsigned kRuntimeSycl = 512;
constexpr int kMaxDims = 12;

using Dims = int64_t[kMaxDims];
// Pointers to objects of the library.
using Engine = struct EngineObject*;
using Stream = struct StreamObject*;
using Descriptor = struct DescriptorObject*;  // of memory
using Memory = struct MemoryObject*;
using Attributes = struct AttributesObject*;
using PostOperations = struct PostOperationsObject*;
using PrimitiveDescriptor = struct PrimitiveDescriptorObject*;
using Primitive = struct PrimitiveObject*;

struct Version {
  int major, minor, patch;
  const char* hash;
  unsigned cpu_runtime, gpu_runtime;
};
struct Argument {
  int which;
  Memory memory;
};

// The functions, under their names without "dnnl_".
struct Interface {
  explicit Interface(std::shared_ptr<Library> opened) : library(std::move(opened)) {}
  std::shared_ptr<Library> library;

#define TILE_ONEDNN(name, ...) \
  int (*name)(__VA_ARGS__) = library->function<int(__VA_ARGS__)>("dnnl_" #name)
  const Version* (*version)() = library->function<const Version*()>("dnnl_version");
  TILE_ONEDNN(engine_create, Engine*, int, size_t);
  TILE_ONEDNN(stream_create, Stream*, Engine, unsigned);
  TILE_ONEDNN(stream_wait, Stream);
  TILE_ONEDNN(memory_desc_create_with_strides, Descriptor*, int, const int64_t*, int,
              const int64_t*);
  TILE_ONEDNN(memory_desc_create_with_tag, Descriptor*, int, const int64_t*, int, int);
  TILE_ONEDNN(memory_desc_destroy, Descriptor);
  TILE_ONEDNN(memory_desc_equal, const DescriptorObject*, const DescriptorObject*);
  TILE_ONEDNN(memory_create, Memory*, const DescriptorObject*, Engine, void*);
  TILE_ONEDNN(memory_destroy, Memory);
  TILE_ONEDNN(primitive_attr_create, Attributes*);
  TILE_ONEDNN(primitive_attr_destroy, Attributes);
  TILE_ONEDNN(primitive_attr_set_post_ops, Attributes, const PostOperationsObject*);
  TILE_ONEDNN(post_ops_create, PostOperations*);
  TILE_ONEDNN(post_ops_destroy, PostOperations);
  TILE_ONEDNN(post_ops_append_eltwise, PostOperations, int, float, float);
  TILE_ONEDNN(primitive_desc_destroy, PrimitiveDescriptor);
  TILE_ONEDNN(primitive_create, Primitive*, const PrimitiveDescriptorObject*);
  TILE_ONEDNN(primitive_destroy, Primitive);
  TILE_ONEDNN(primitive_execute, const PrimitiveObject*, Stream, int, const Argument*);
  TILE_ONEDNN(reorder_primitive_desc_create, PrimitiveDescriptor*, const DescriptorObject*, Engine,
              const DescriptorObject*, Engine, const AttributesObject*);
  TILE_ONEDNN(matmul_primitive_desc_create, PrimitiveDescriptor*, Engine, const DescriptorObject*,
              const DescriptorObject*, const DescriptorObject*, const DescriptorObject*,
              const AttributesObject*);
  TILE_ONEDNN(convolution_forward_primitive_desc_create, PrimitiveDescriptor*, Engine, int, int,
              const DescriptorObject*, const DescriptorObject*, const DescriptorObject*,
              const DescriptorObject*, const int64_t*, const int64_t*, const int64_t*,
              const int64_t*, const AttributesObject*);
  TILE_ONEDNN(convolution_backward_data_primitive_desc_create, PrimitiveDescriptor*, Engine, int,
              const DescriptorObject*, const DescriptorObject*, const DescriptorObject*,
              const int64_t*, const int64_t*, const int64_t*, const int64_t*,
              const PrimitiveDescriptorObject*, const AttributesObject*);
  TILE_ONEDNN(convolution_backward_weights_primitive_desc_create, PrimitiveDescriptor*, Engine, int,
              const DescriptorObject*, const DescriptorObject*, const DescriptorObject*,
              const DescriptorObject*, const int64_t*, const int64_t*, const int64_t*,
              const int64_t*, const PrimitiveDescriptorObject*, const AttributesObject*);
  TILE_ONEDNN(pooling_forward_primitive_desc_create, PrimitiveDescriptor*, Engine, int, int,
              const DescriptorObject*, const DescriptorObject*, const int64_t*, const int64_t*,
              const int64_t*, const int64_t*, const int64_t*, const AttributesObject*);
  TILE_ONEDNN(softmax_forward_primitive_desc_create, PrimitiveDescriptor*, Engine, int, int,
              const DescriptorObject*, const DescriptorObject*, int, const AttributesObject*);
  TILE_ONEDNN(layer_normalization_forward_primitive_desc_create, PrimitiveDescriptor*, Engine, int,
              const DescriptorObject*, const DescriptorObject*, const DescriptorObject*, float,
              unsigned, const AttributesObject*);
  TILE_ONEDNN(reduction_primitive_desc_create, PrimitiveDescriptor*, Engine, int,
              const DescriptorObject*, const DescriptorObject*, float, float,
              const AttributesObject*);
#undef TILE_ONEDNN
  const DescriptorObject* (*query_md)(const PrimitiveDescriptorObject*, int, int) =
      library->function<const DescriptorObject*(const PrimitiveDescriptorObject*, int, int)>(
          "dnnl_primitive_desc_query_md");
  size_t (*memory_desc_get_size)(const DescriptorObject*) =
      library->function<size_t(const DescriptorObject*)>("dnnl_memory_desc_get_size");
};

}  // namespace tile::bench::onednn
