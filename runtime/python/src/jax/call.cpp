// Programs as custom calls of XLA: the handler that compiled JAX computations call, without Python.
#include <cstdint>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "tile/tile.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

constexpr int32_t kHost = -1;  // else the number of a GPU
constexpr size_t kWorkspaceAlignment = 256;

// By a hash of their text, so that a computation that another process compiled finds the same
// program or none; on each device.
struct Programs {
  std::shared_mutex mutex;
  std::map<std::pair<int64_t, int32_t>, tile_program*> by_key;
};
Programs& programs() {
  static auto& all = *new Programs;  // computations may run until the process is gone
  return all;
}

DLDataType type_of(ffi::DataType type) {
  switch (type) {
    case ffi::DataType::PRED:
      return {kDLBool, 8, 1};
    case ffi::DataType::S8:
      return {kDLInt, 8, 1};
    case ffi::DataType::S16:
      return {kDLInt, 16, 1};
    case ffi::DataType::S32:
      return {kDLInt, 32, 1};
    case ffi::DataType::S64:
      return {kDLInt, 64, 1};
    case ffi::DataType::U8:
      return {kDLUInt, 8, 1};
    case ffi::DataType::U16:
      return {kDLUInt, 16, 1};
    case ffi::DataType::U32:
      return {kDLUInt, 32, 1};
    case ffi::DataType::U64:
      return {kDLUInt, 64, 1};
    case ffi::DataType::F8E4M3FN:
      return {kDLFloat8_e4m3fn, 8, 1};
    case ffi::DataType::F8E5M2:
      return {kDLFloat8_e5m2, 8, 1};
    case ffi::DataType::F16:
      return {kDLFloat, 16, 1};
    case ffi::DataType::BF16:
      return {kDLBfloat, 16, 1};
    case ffi::DataType::F32:
      return {kDLFloat, 32, 1};
    case ffi::DataType::F64:
      return {kDLFloat, 64, 1};
    default:  // the library says that it has no such type
      return {kDLOpaqueHandle, 8, 1};
  }
}

DLTensor tensor_of(const ffi::AnyBuffer& buffer, DLDevice device) {
  ffi::AnyBuffer::Dimensions shape = buffer.dimensions();
  DLTensor t{};
  t.data = buffer.untyped_data();
  t.device = device;
  t.ndim = static_cast<int32_t>(shape.size());
  t.dtype = type_of(buffer.element_type());
  t.shape = const_cast<int64_t*>(shape.begin());  // DLPack has no const
  return t;
}

// What a custom call is given, as the C interface takes it.
class Call {
 public:
  Call(ffi::RemainingArgs arguments, ffi::RemainingRets results, DLDevice device)
      : inputs_(arguments.size()) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      tensors_.push_back(tensor_of(arguments.get<ffi::AnyBuffer>(i).value(), device));
    }
    for (size_t i = 0; i < results.size(); ++i) {
      tensors_.push_back(tensor_of(*results.get<ffi::AnyBuffer>(i).value(), device));
    }
    for (DLTensor& t : tensors_) pointers_.push_back(&t);
  }

  tile_error* run(tile_program* program) {
    return tile_program_run(program, pointers_.data(), inputs_, outputs(), outputs_count(),
                            nullptr);
  }
  // In XLA's stream, with temporaries from its allocator.
  tile_error* run(tile_program* program, void* stream, ffi::ScratchAllocator& scratch) {
    tile_executable* executable = nullptr;
    tile_error* error = tile_program_compile(program, pointers_.data(), inputs_, &executable);
    if (error != nullptr) return error;
    tile_run_options options{};
    options.struct_size = sizeof options;
    options.stream = stream;
    error = tile_executable_workspace_size(executable, &options.workspace_size);
    if (error == nullptr && options.workspace_size != 0) {
      // Without memory of XLA's the library takes its own, or says that there is none.
      options.workspace =
          scratch.Allocate(options.workspace_size, kWorkspaceAlignment).value_or(nullptr);
      if (options.workspace == nullptr) options.workspace_size = 0;
    }
    if (error == nullptr) {
      error = tile_executable_run(executable, pointers_.data(), inputs_, outputs(), outputs_count(),
                                  &options);
    }
    tile_executable_free(executable);
    return error;
  }

 private:
  DLTensor* const* outputs() const { return pointers_.data() + inputs_; }
  size_t outputs_count() const { return pointers_.size() - inputs_; }

  size_t inputs_;
  std::vector<DLTensor> tensors_;
  std::vector<DLTensor*> pointers_;
};

tile_program* find(int64_t key, int32_t device) {
  std::shared_lock lock(programs().mutex);
  auto found = programs().by_key.find({key, device});
  return found == programs().by_key.end() ? nullptr : found->second;
}

ffi::Error result_of(tile_error* error) {
  if (error == nullptr) return ffi::Error::Success();
  std::string text = tile_error_rendered(error);
  tile_error_free(error);
  return ffi::Error(ffi::ErrorCode::kInvalidArgument, text);
}

ffi::Error call(int64_t key, ffi::RemainingArgs arguments, ffi::RemainingRets results) {
  tile_program* program = find(key, kHost);
  if (program == nullptr) {
    return ffi::Error(ffi::ErrorCode::kFailedPrecondition,
                      "no operation of tilejit.jax in this process has this program");
  }
  return result_of(Call(arguments, results, {kDLCPU, 0}).run(program));
}

ffi::Error call_on_gpu(void* stream, int32_t gpu, ffi::ScratchAllocator scratch, int64_t key,
                       ffi::RemainingArgs arguments, ffi::RemainingRets results) {
  tile_program* program = find(key, gpu);
  if (program == nullptr) {
    return ffi::Error(ffi::ErrorCode::kFailedPrecondition,
                      "no operation of tilejit.jax in this process has this program on GPU " +
                          std::to_string(gpu));
  }
  return result_of(Call(arguments, results, {kDLCUDA, gpu}).run(program, stream, scratch));
}

}  // namespace

#define TILEJIT_EXPORT extern "C" __attribute__((visibility("default")))

// `device`: the number of a GPU, or -1 for the host.
TILEJIT_EXPORT void tilejit_jax_add(int64_t key, int32_t device, tile_program* program) {
  std::unique_lock lock(programs().mutex);
  programs().by_key[{key, device}] = program;
}

TILEJIT_EXPORT XLA_FFI_Error* tilejit_jax_call(XLA_FFI_CallFrame* frame) {
  static auto* handler =
      ffi::Ffi::Bind().Attr<int64_t>("program").RemainingArgs().RemainingRets().To(call).release();
  return handler->Call(frame);
}

TILEJIT_EXPORT XLA_FFI_Error* tilejit_jax_call_on_gpu(XLA_FFI_CallFrame* frame) {
  static auto* handler = ffi::Ffi::Bind()
                             .Ctx<ffi::PlatformStream<void*>>()
                             .Ctx<ffi::DeviceOrdinal>()
                             .Ctx<ffi::ScratchAllocator>()
                             .Attr<int64_t>("program")
                             .RemainingArgs()
                             .RemainingRets()
                             .To(call_on_gpu)
                             .release();
  return handler->Call(frame);
}
