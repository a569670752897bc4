#include "backends/cpu/values/types.h"

namespace tile::cpu {

llvm::Type* register_type(llvm::LLVMContext& context, DType type) {
  if (type == DType::bool_) return llvm::Type::getInt1Ty(context);
  return memory_type(context, type);
}

llvm::Type* memory_type(llvm::LLVMContext& context, DType type) {
  if (type == DType::f32) return llvm::Type::getFloatTy(context);
  if (type == DType::f64) return llvm::Type::getDoubleTy(context);
  return llvm::Type::getIntNTy(context, static_cast<unsigned>(bit_width(type)));
}

llvm::Type* with_lanes(llvm::Type* element, unsigned width) {
  return width > 1 ? llvm::FixedVectorType::get(element, width) : element;
}

}  // namespace tile::cpu
