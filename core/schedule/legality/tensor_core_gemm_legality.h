// Which schedules for tensor cores mean something.
#pragma once

#include <string>

#include "core/kernel/forms/tensor_core_gemm.h"

namespace tile::tensor_cores {

// Empty where the schedule is one for the product; else the first broken rule.
std::string broken(const TensorCoreGemm& schedule, const Product& product, const Target& target);

// Empty where every piece has a schedule for tensor cores that suits it, or none has one.
std::string broken(const Schedule& schedule, const Kernel& kernel, const Target& target);
// False where the schedule is for tensor cores and the tensors' strides forbid its boxes.
bool fits_strides(const Schedule& schedule, const Kernel& kernel, const Target& target,
                  const Strides& strides);

}  // namespace tile::tensor_cores
