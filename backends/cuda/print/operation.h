// The table's operations as C++ expressions over named values: one emitter for each row of
// core/ir/operations.def.
#pragma once

#include <span>
#include <string>

#include "core/ir/dtype.h"
#include "core/ir/operation.h"

namespace tile::cuda {

struct ValueText {
  std::string text;
  DType type = DType::none;
};

std::string_view type_name(DType type);    // of a value; bool is `bool`
std::string_view memory_type(DType type);  // of an element; bool is `u8`
std::string zero_value(DType type);
std::string integer_literal(int64_t value, DType type);
std::string real_literal(double value, DType type);
std::string print_conversion(const ValueText& value, DType type);
std::string print_truth(const ValueText& value);
// The operation, whose operands have compute types or bool; `type` is the result's.
std::string print_operation(Op op, DType type, std::span<const ValueText> operands);

}  // namespace tile::cuda
