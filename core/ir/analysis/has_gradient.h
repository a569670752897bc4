// Which inputs have gradients.
#pragma once

#include <string>

#include "core/ir/program.h"
#include "core/support/diagnostic.h"

namespace tile {

// Throws Failure (bind, "gradient") unless the gradient with respect to an input of this element
// type exists.
inline void require_gradient(const Tensor& input, DType type) {
  if (is_float(type)) return;
  fail(Stage::bind, "gradient", input.span,
       "the gradient with respect to " + input.name + " is asked for, but " + input.name + " is " +
           std::string(to_string(type)) + ": only floating-point inputs have gradients",
       "give or declare " + input.name + " as f32, f64, f16 or bf16, or leave it out");
}

}  // namespace tile
