#include "backends/cuda/driver/code.h"

#include <algorithm>
#include <array>
#include <vector>

#include "core/support/diagnostic.h"

namespace tile::cuda {
namespace {

constexpr size_t kFewArguments = 64;  // pointers, parameters and maps that need no allocation
constexpr int64_t kGridLimit = (int64_t{1} << 31) - 1;
constexpr size_t kStaticShared = 48 << 10;  // above it a kernel must ask

CUtensorMapDataType map_type(DType type) {
  switch (type) {
    case DType::i16:
    case DType::u16:
      return CU_TENSOR_MAP_DATA_TYPE_UINT16;
    case DType::i32:
      return CU_TENSOR_MAP_DATA_TYPE_INT32;
    case DType::u32:
      return CU_TENSOR_MAP_DATA_TYPE_UINT32;
    case DType::i64:
      return CU_TENSOR_MAP_DATA_TYPE_INT64;
    case DType::u64:
      return CU_TENSOR_MAP_DATA_TYPE_UINT64;
    case DType::f16:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::bf16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case DType::f32:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    case DType::f64:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT64;
    default:
      return CU_TENSOR_MAP_DATA_TYPE_UINT8;
  }
}

CUtensorMapSwizzle map_swizzle(int bytes) {
  switch (bytes) {
    case 32:
      return CU_TENSOR_MAP_SWIZZLE_32B;
    case 64:
      return CU_TENSOR_MAP_SWIZZLE_64B;
    case 128:
      return CU_TENSOR_MAP_SWIZZLE_128B;
    default:
      return CU_TENSOR_MAP_SWIZZLE_NONE;
  }
}

CUtensorMapL2promotion map_promotion(int bytes) {
  switch (bytes) {
    case 64:
      return CU_TENSOR_MAP_L2_PROMOTION_L2_64B;
    case 128:
      return CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
    case 256:
      return CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
    default:
      return CU_TENSOR_MAP_L2_PROMOTION_NONE;
  }
}

CUlaunchAttribute cluster_of(const CudaKernel& kernel) {
  auto extent = [&](size_t d) {
    return static_cast<unsigned>(d < kernel.cluster.size() ? kernel.cluster[d] : 1);
  };
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attribute.value.clusterDim.x = extent(0);
  attribute.value.clusterDim.y = extent(1);
  attribute.value.clusterDim.z = extent(2);
  return attribute;
}

}  // namespace

Module::Module(std::shared_ptr<const Device> device, const void* image, const std::string& label)
    : device_(std::move(device)) {
  Current current(*device_);
  device_->driver().check(device_->driver().cuModuleLoadData_(&handle_, image),
                          "loading the code of kernel " + label);
}

Module::~Module() {
  try {
    Current current(*device_);
    // Launches return before they are done, and an engine may drop code soon after.
    device_->driver().cuCtxSynchronize_();
    device_->driver().cuModuleUnload_(handle_);
  } catch (const Failure&) {
    // The context is gone, and with it the module.
  }
}

CudaCode::CudaCode(Object object, std::string label, std::vector<std::string> parameters,
                   std::shared_ptr<const Device> device)
    : object_(std::move(object)),
      packed_(pack(object_)),
      label_(std::move(label)),
      names_(std::make_shared<const std::vector<std::string>>(1, label_)),
      parameters_(std::move(parameters)),
      device_(std::move(device)) {
  if (device_) load();
}

void CudaCode::load() {
  const Driver& driver = device_->driver();
  module_ = std::make_unique<Module>(device_, object_.image.data(), label_);
  Current current(*device_);
  for (const CudaKernel& kernel : object_.kernels) {
    CUfunction function = nullptr;
    driver.check(driver.cuModuleGetFunction_(&function, module_->handle(), kernel.name.c_str()),
                 "finding kernel " + kernel.name + " of " + label_);
    if (kernel.shared_bytes > kStaticShared) {
      driver.check(
          driver.cuFuncSetAttribute_(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                     static_cast<int>(kernel.shared_bytes)),
          "asking for " + std::to_string(kernel.shared_bytes) +
              " bytes of shared memory for kernel " + label_);
    }
    functions_.push_back(function);
  }
}

int64_t CudaCode::blocks(const CudaKernel& kernel, std::span<const int64_t> parameters) const {
  if (kernel.grid.is_constant()) return kernel.grid.value();
  auto value = [&](std::string_view name) -> std::optional<int64_t> {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (parameters_[i] == name) return parameters[i];
    }
    return std::nullopt;
  };
  std::optional<int64_t> count = evaluate(kernel.grid, value);
  internal_check(count.has_value(), "a grid depends on the nest's parameters only");
  return *count;
}

CUtensorMap CudaCode::encode(const TensorMap& map, void* pointer) const {
  CUtensorMap out;
  std::vector<cuuint64_t> sizes(map.sizes.begin(), map.sizes.end());
  std::vector<cuuint64_t> strides(map.strides_bytes.begin(), map.strides_bytes.end());
  std::vector<cuuint32_t> steps = map.element_strides;
  steps.resize(sizes.size(), 1);
  const Driver& driver = device_->driver();
  driver.check(driver.cuTensorMapEncodeTiled_(
                   &out, map.tf32 ? CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 : map_type(map.type),
                   static_cast<cuuint32_t>(sizes.size()), pointer, sizes.data(), strides.data(),
                   map.box.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
                   map_swizzle(map.swizzle_bytes), map_promotion(map.l2_promotion),
                   CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
               "encoding a tensor map of kernel " + label_);
  return out;
}

void CudaCode::fill_maps(size_t kernel, std::span<void* const> arguments, Maps& maps) const {
  const std::vector<TensorMap>& all = object_.kernels[kernel].maps;
  std::array<void*, kMapLimit> pointers{};
  for (size_t m = 0; m < all.size(); ++m) {
    pointers[m] = arguments[all[m].argument];
  }
  std::lock_guard lock(encoded_mutex_);
  for (const Encoded& known : encoded_) {
    if (known.kernel == kernel && known.pointers == pointers) {
      std::copy_n(known.maps.begin(), all.size(), maps.begin());
      return;
    }
  }
  for (size_t m = 0; m < all.size(); ++m) maps[m] = encode(all[m], pointers[m]);
  if (encoded_.size() < kEncoded) encoded_.emplace_back();
  Encoded& slot = encoded_[encoded_next_++ % kEncoded];
  slot.kernel = kernel;
  slot.pointers = pointers;
  slot.maps = maps;
}

void CudaCode::launch(std::span<void* const> arguments, std::span<const int64_t> parameters,
                      void* workspace, Session& session, void* stream) const {
  for (size_t k = 0; k < object_.kernels.size(); ++k) {
    launch_one(k, arguments, parameters, workspace, session, stream);
  }
}

void CudaCode::launch_one(size_t k, std::span<void* const> arguments,
                          std::span<const int64_t> parameters, void* workspace, Session& session,
                          void* stream) const {
  if (module_ == nullptr) {
    fail(Stage::run, "target", {}, "kernel " + label_ + " is compiled for another GPU",
         "leave the engine's features empty to run on this one");
  }
  internal_check(parameters.size() == parameters_.size(), "a value for each parameter");
  const CudaKernel& kernel = object_.kernels[k];
  int64_t grid = blocks(kernel, parameters);
  if (grid <= 0) return;
  if (grid > kGridLimit) {
    fail(Stage::run, "launch", {},
         "kernel " + label_ + " needs " + std::to_string(grid) + " blocks; a GPU takes 2^31 - 1");
  }
  Current current(*device_);
  // How many a kernel may take is known to the compiler, which refuses more (32,764 bytes).
  std::array<void*, kFewArguments> few;
  std::vector<void*> many;
  size_t total = arguments.size() + parameters.size() + 1 + kernel.maps.size();
  if (total >= kFewArguments) many.resize(total + 1);
  void** values = many.empty() ? few.data() : many.data();
  Maps maps;
  size_t count = 0;
  internal_check(kernel.maps.size() <= kMapLimit, "a kernel's maps fit the launch");
  for (void* const& pointer : arguments) values[count++] = const_cast<void**>(&pointer);
  values[count++] = &workspace;
  for (const int64_t& value : parameters) values[count++] = const_cast<int64_t*>(&value);
  if (!kernel.maps.empty()) fill_maps(k, arguments, maps);
  for (size_t m = 0; m < kernel.maps.size(); ++m) values[count++] = &maps[m];
  values[count] = nullptr;
  CUlaunchAttribute cluster = cluster_of(kernel);
  CUlaunchConfig config{};
  config.gridDimX = static_cast<unsigned>(grid);
  config.gridDimY = static_cast<unsigned>(kernel.grid_yz[0]);
  config.gridDimZ = static_cast<unsigned>(kernel.grid_yz[1]);
  config.blockDimX = static_cast<unsigned>(kernel.block);
  config.blockDimY = static_cast<unsigned>(kernel.block_yz[0]);
  config.blockDimZ = static_cast<unsigned>(kernel.block_yz[1]);
  config.sharedMemBytes = static_cast<unsigned>(kernel.shared_bytes);
  config.hStream = session.stream_of(stream);
  config.attrs = &cluster;
  config.numAttrs = kernel.cluster.empty() ? 0 : 1;
  CUresult result = device_->driver().cuLaunchKernelEx_(&config, functions_[k], values, nullptr);
  if (result != CUDA_SUCCESS) session.check(result, "launching kernel " + label_);
  session.launched(names_, config.hStream);
}

}  // namespace tile::cuda
