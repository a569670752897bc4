// Functions of the module that hold long or branching math, and calls of the C library.

#include <llvm/IR/Function.h>
#include <llvm/IR/Module.h>

#include <string>

#include "backends/cpu/math/vector_math_kernels.h"

namespace tile::cpu::lanes {
namespace {

std::string type_suffix(llvm::Type* type) {
  unsigned lanes = lane_count(type);
  std::string element = is_double(type) ? "f64" : "f32";
  return llvm::isa<llvm::FixedVectorType>(type) ? "v" + std::to_string(lanes) + element : element;
}

void mark_pure(llvm::Function& function) {
  function.setDoesNotThrow();
  function.setDoesNotAccessMemory();
  function.setWillReturn();
}

/// The new function is compiled for the same CPU features as the one that calls it.
void copy_target_attributes(const llvm::Function& from, llvm::Function& to) {
  for (llvm::Attribute attribute : from.getAttributes().getFnAttrs()) {
    if (attribute.isStringAttribute()) to.addFnAttr(attribute);
  }
}

llvm::Function* make_function(llvm::IRBuilderBase& ir, const std::string& name,
                              llvm::ArrayRef<Real> arguments,
                              llvm::function_ref<Real(llvm::ArrayRef<Real>)> body) {
  llvm::Function& caller = *ir.GetInsertBlock()->getParent();
  llvm::SmallVector<llvm::Type*, 2> types;
  for (const Real& argument : arguments) types.push_back(argument.value->getType());
  auto* type = llvm::FunctionType::get(types.front(), types, false);
  auto* function =
      llvm::Function::Create(type, llvm::GlobalValue::InternalLinkage, name, *caller.getParent());
  mark_pure(*function);
  copy_target_attributes(caller, *function);
  llvm::IRBuilder<> inside(llvm::BasicBlock::Create(ir.getContext(), "entry", function));
  llvm::SmallVector<Real, 2> parameters;
  for (llvm::Argument& argument : function->args()) parameters.push_back({&inside, &argument});
  inside.CreateRet(body(parameters).value);
  return function;
}

}  // namespace

Real outlined(llvm::StringRef name, llvm::ArrayRef<Real> arguments,
              llvm::function_ref<Real(llvm::ArrayRef<Real>)> body) {
  llvm::IRBuilderBase& ir = *arguments.front().ir;
  llvm::Module& module = *ir.GetInsertBlock()->getModule();
  std::string full = "tile." + name.str() + "." + type_suffix(arguments.front().value->getType());
  llvm::Function* function = module.getFunction(full);
  if (!function) function = make_function(ir, full, arguments, body);
  llvm::SmallVector<llvm::Value*, 2> values;
  for (const Real& argument : arguments) values.push_back(argument.value);
  return {&ir, ir.CreateCall(function, values)};
}

llvm::SmallVector<llvm::Value*, 2> when_any(
    Mask condition, llvm::ArrayRef<llvm::Value*> values,
    llvm::function_ref<llvm::SmallVector<llvm::Value*, 2>()> slow) {
  llvm::IRBuilderBase& ir = *condition.ir;
  llvm::BasicBlock* before = ir.GetInsertBlock();
  auto* rare = llvm::BasicBlock::Create(ir.getContext(), "rare", before->getParent());
  auto* joined = llvm::BasicBlock::Create(ir.getContext(), "joined", before->getParent());
  llvm::Value* any = condition.value;
  if (any->getType()->isVectorTy()) any = ir.CreateOrReduce(any);
  ir.CreateCondBr(any, rare, joined);
  ir.SetInsertPoint(rare);
  llvm::SmallVector<llvm::Value*, 2> replaced = slow();
  llvm::BasicBlock* after = ir.GetInsertBlock();
  ir.CreateBr(joined);
  ir.SetInsertPoint(joined);
  llvm::SmallVector<llvm::Value*, 2> merged;
  for (size_t i = 0; i < values.size(); ++i) {
    llvm::PHINode* phi = ir.CreatePHI(values[i]->getType(), 2);
    phi->addIncoming(values[i], before);
    phi->addIncoming(replaced[i], after);
    merged.push_back(phi);
  }
  return merged;
}

Real libm_per_lane(llvm::StringRef name, llvm::ArrayRef<Real> arguments) {
  llvm::IRBuilderBase& ir = *arguments.front().ir;
  llvm::Type* type = arguments.front().value->getType();
  llvm::SmallVector<llvm::Type*, 2> types(arguments.size(), ir.getDoubleTy());
  llvm::Module& module = *ir.GetInsertBlock()->getModule();
  llvm::FunctionCallee callee =
      module.getOrInsertFunction(name, llvm::FunctionType::get(ir.getDoubleTy(), types, false));
  if (auto* function = llvm::dyn_cast<llvm::Function>(callee.getCallee())) mark_pure(*function);
  auto call = [&](auto lane_of) {
    llvm::SmallVector<llvm::Value*, 2> values;
    for (const Real& argument : arguments) values.push_back(lane_of(argument.value));
    return ir.CreateCall(callee, values);
  };
  if (!type->isVectorTy()) return {&ir, call([](llvm::Value* v) { return v; })};
  llvm::Value* result = llvm::PoisonValue::get(type);
  for (unsigned lane = 0; lane < lane_count(type); ++lane) {
    llvm::Value* y = call([&](llvm::Value* v) { return ir.CreateExtractElement(v, lane); });
    result = ir.CreateInsertElement(result, y, lane);
  }
  return {&ir, result};
}

}  // namespace tile::cpu::lanes
