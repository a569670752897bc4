// Tensors that objects give by DLPack's protocol: taken here, as what they say has to be looked at
// before anything is read by it.
#pragma once

#include <nanobind/nanobind.h>

#include "tile/dlpack.h"

namespace tilejit {

namespace nb = nanobind;

// One tensor, given back when this goes.
class ForeignTensor {
 public:
  ForeignTensor() = default;
  ~ForeignTensor();
  ForeignTensor(const ForeignTensor&) = delete;
  ForeignTensor& operator=(const ForeignTensor&) = delete;

  // Of a capsule or of what has `__dlpack__`; false where the object is neither or gives none.
  // Raises ArgumentError for a tensor that says nonsense, or that says that it is read-only where
  // `writable`; and what no handler of Exception catches, such as KeyboardInterrupt.
  bool take(nb::handle object, bool writable);
  // Valid after take() gave true.
  DLTensor& tensor();

 private:
  bool take_capsule(nb::handle capsule, bool writable);

  DLManagedTensor* plain_ = nullptr;
  DLManagedTensorVersioned* versioned_ = nullptr;
};

// Raises ArgumentError where there is no shape to read.
void check_shape(const DLTensor& tensor);

}  // namespace tilejit
