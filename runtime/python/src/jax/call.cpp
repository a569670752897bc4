// Programs as custom calls of XLA: the handler that compiled JAX computations call, without Python.
#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "tile/tile.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

// By a hash of their text, so that a computation that another process compiled finds the same
// program or none.
struct Programs {
  std::shared_mutex mutex;
  std::unordered_map<int64_t, tile_program*> by_key;
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

DLTensor tensor_of(const ffi::AnyBuffer& buffer) {
  ffi::AnyBuffer::Dimensions shape = buffer.dimensions();
  DLTensor t{};
  t.data = buffer.untyped_data();
  t.device = {kDLCPU, 0};
  t.ndim = static_cast<int32_t>(shape.size());
  t.dtype = type_of(buffer.element_type());
  t.shape = const_cast<int64_t*>(shape.begin());  // DLPack has no const
  return t;
}

ffi::Error call(int64_t key, ffi::RemainingArgs arguments, ffi::RemainingRets results) {
  tile_program* program = nullptr;
  {
    std::shared_lock lock(programs().mutex);
    auto found = programs().by_key.find(key);
    if (found != programs().by_key.end()) program = found->second;
  }
  if (program == nullptr) {
    return ffi::Error(ffi::ErrorCode::kFailedPrecondition,
                      "no operation of tilejit.jax in this process has this program");
  }
  std::vector<DLTensor> tensors;
  for (size_t i = 0; i < arguments.size(); ++i) {
    tensors.push_back(tensor_of(arguments.get<ffi::AnyBuffer>(i).value()));
  }
  for (size_t i = 0; i < results.size(); ++i) {
    tensors.push_back(tensor_of(*results.get<ffi::AnyBuffer>(i).value()));
  }
  std::vector<DLTensor*> pointers;
  for (DLTensor& t : tensors) pointers.push_back(&t);
  tile_error* error = tile_program_run(program, pointers.data(), arguments.size(),
                                       pointers.data() + arguments.size(), results.size(), nullptr);
  if (error == nullptr) return ffi::Error::Success();
  std::string text = tile_error_rendered(error);
  tile_error_free(error);
  return ffi::Error(ffi::ErrorCode::kInvalidArgument, text);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void tilejit_jax_add(int64_t key,
                                                                       tile_program* program) {
  std::unique_lock lock(programs().mutex);
  programs().by_key[key] = program;
}

extern "C" __attribute__((visibility("default"))) XLA_FFI_Error* tilejit_jax_call(
    XLA_FFI_CallFrame* frame) {
  static auto* handler =
      ffi::Ffi::Bind().Attr<int64_t>("program").RemainingArgs().RemainingRets().To(call).release();
  return handler->Call(frame);
}
