#include "backends/cpu/jit/llvm_tables.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>

#include <memory>
#include <string>

namespace tile::cpu {
namespace {

// A vector to which a constant is added: the constant's load becomes part of the addition, and its
// elements one that is broadcast, both of which LLVM knows from tables (X86InstrFoldTables.cpp).
void emit_addition(llvm::Module& module) {
  llvm::LLVMContext& context = module.getContext();
  llvm::Type* vector = llvm::FixedVectorType::get(llvm::Type::getFloatTy(context), 16);
  auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(context),
                                       {llvm::PointerType::get(context, 0)}, false);
  auto* function =
      llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, "addition", module);
  llvm::IRBuilder<> builder(llvm::BasicBlock::Create(context, "", function));
  llvm::Value* values = builder.CreateAlignedLoad(vector, function->getArg(0), llvm::Align(4));
  llvm::Value* sum = builder.CreateFAdd(values, llvm::ConstantFP::get(vector, 1.5));
  builder.CreateAlignedStore(sum, function->getArg(0), llvm::Align(4));
  builder.CreateRetVoid();
}

}  // namespace

bool make_llvm_tables() {
  std::string triple = llvm::sys::getProcessTriple(), error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (target == nullptr) return false;
  // Whatever this machine is: the first processor with all the tables.
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      triple, "skylake-avx512", "", llvm::TargetOptions(), llvm::Reloc::PIC_,
      llvm::CodeModel::Small, llvm::CodeGenOptLevel::Less, true));
  if (!machine) return false;
  llvm::LLVMContext context;
  llvm::Module module("tables", context);
  module.setTargetTriple(triple);
  module.setDataLayout(machine->createDataLayout());
  emit_addition(module);
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out(bytes);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, out, nullptr, llvm::CodeGenFileType::Null, true)) {
    return false;
  }
  passes.run(module);
  return true;
}

}  // namespace tile::cpu
