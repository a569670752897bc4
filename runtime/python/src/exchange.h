// DLPack's exchange of tensors by C functions: own declarations of the public layout (DLPack 1.2),
// which a type offers as the capsule `__dlpack_c_exchange_api__`.
#pragma once

#include "tile/dlpack.h"

namespace tilejit {

struct ExchangeHeader {
  DLPackVersion version;
  ExchangeHeader* previous;
};

struct ExchangeApi {
  ExchangeHeader header;
  int (*allocate)(DLTensor* prototype, DLManagedTensorVersioned** out, void* context,
                  void (*set_error)(void* context, const char* kind, const char* message));
  int (*managed_from_object)(void* object, DLManagedTensorVersioned** out);
  int (*object_from_managed)(DLManagedTensorVersioned* tensor, void** out);
  // May be null. The tensor is the object's, which must outlive its use.
  int (*tensor_from_object)(void* object, DLTensor* out);
  int (*current_stream)(DLDeviceType device_type, int32_t device_id, void** out);
};

inline constexpr const char* kExchangeCapsule = "dlpack_exchange_api";

}  // namespace tilejit
