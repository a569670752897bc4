#pragma once
// Compiles an emitter as a loop over arrays, for a chosen set of CPU features and number of lanes.

#include <gtest/gtest.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/Support/TargetSelect.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/cpu/math/vector_math.h"

namespace tile::test {

/// Takes the loaded inputs, gives the value to store.
using Emitter = std::function<llvm::Value*(llvm::IRBuilderBase&, llvm::ArrayRef<llvm::Value*>)>;

enum class Cpu { Host, Avx2, Avx2WithoutF16c, Sse2 };

inline std::string name_of(Cpu cpu) {
  if (cpu == Cpu::Host) return "host";
  if (cpu == Cpu::Sse2) return "sse2";
  return cpu == Cpu::Avx2 ? "avx2" : "avx2 without f16c";
}

template <class T>
T unwrap(llvm::Expected<T> value) {
  if (!value) throw std::runtime_error(llvm::toString(value.takeError()));
  return std::move(*value);
}
inline void unwrap(llvm::Error error) {
  if (error) throw std::runtime_error(llvm::toString(std::move(error)));
}

inline llvm::orc::JITTargetMachineBuilder target_for(Cpu cpu) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  auto builder = unwrap(llvm::orc::JITTargetMachineBuilder::detectHost());
  if (cpu != Cpu::Host) {
    builder = llvm::orc::JITTargetMachineBuilder(builder.getTargetTriple());
    builder.setCPU("x86-64");
    if (cpu != Cpu::Sse2) builder.addFeatures({"+avx2", "+fma", "-avx512f"});
    if (cpu == Cpu::Avx2) builder.addFeatures({"+f16c"});
  }
  builder.getOptions().AllowFPOpFusion = llvm::FPOpFusion::Strict;
  builder.setCodeGenOptLevel(llvm::CodeGenOptLevel::Default);
  return builder;
}

/// The C type of an element, as LLVM's.
template <class T>
llvm::Type* element_type(llvm::LLVMContext& context) {
  if constexpr (std::is_same_v<T, float>) {
    return llvm::Type::getFloatTy(context);
  } else if constexpr (std::is_same_v<T, double>) {
    return llvm::Type::getDoubleTy(context);
  } else {
    return llvm::IntegerType::get(context, 8 * sizeof(T));
  }
}

/// out[i] = f(a[i], b[i]) for all i; `inputs` says whether b is read.
template <class In, class Out>
class Compiled {
 public:
  Compiled(const Emitter& emitter, int inputs, Cpu cpu, unsigned lanes) : lanes_(lanes) {
    auto context = std::make_unique<llvm::LLVMContext>();
    auto module = std::make_unique<llvm::Module>("test", *context);
    auto builder = target_for(cpu);
    jit_ = unwrap(llvm::orc::LLJITBuilder().setJITTargetMachineBuilder(builder).create());
    module->setDataLayout(jit_->getDataLayout());
    auto machine = unwrap(builder.createTargetMachine());
    if (machine->getMCSubtargetInfo()->checkFeatures("+avx512dq,+avx512vl")) {
      tile::cpu::use_range_instructions(*module);
    }
    build(*module, emitter, inputs);
    std::string message;
    llvm::raw_string_ostream stream(message);
    if (llvm::verifyModule(*module, &stream)) throw std::runtime_error(message);
    unwrap(jit_->addIRModule({std::move(module), std::move(context)}));
    function_ = unwrap(jit_->lookup("kernel")).template toPtr<Function>();
  }

  /// Results for all of a (and b); the arrays are padded to whole vectors with their first value.
  std::vector<Out> operator()(std::vector<In> a, std::vector<In> b = {}) const {
    size_t size = a.size();
    size_t padded = (size + lanes_ - 1) / lanes_ * lanes_;
    a.resize(padded, a.front());
    if (!b.empty()) b.resize(padded, b.front());
    std::vector<Out> out(padded);
    function_(a.data(), b.data(), out.data(), static_cast<int64_t>(padded));
    out.resize(size);
    return out;
  }

 private:
  using Function = void (*)(const In*, const In*, Out*, int64_t);

  void build(llvm::Module& module, const Emitter& emitter, int inputs) {
    llvm::LLVMContext& context = module.getContext();
    llvm::IRBuilder<> ir(context);
    llvm::Type* pointer = ir.getPtrTy();
    auto* type = llvm::FunctionType::get(ir.getVoidTy(),
                                         {pointer, pointer, pointer, ir.getInt64Ty()}, false);
    auto* function =
        llvm::Function::Create(type, llvm::Function::ExternalLinkage, "kernel", module);
    auto* entry = llvm::BasicBlock::Create(context, "entry", function);
    auto* loop = llvm::BasicBlock::Create(context, "loop", function);
    auto* exit = llvm::BasicBlock::Create(context, "exit", function);
    ir.SetInsertPoint(entry);
    ir.CreateBr(loop);
    ir.SetInsertPoint(loop);
    llvm::PHINode* i = ir.CreatePHI(ir.getInt64Ty(), 2);
    llvm::Type* in = element_type<In>(context);
    llvm::Type* out = element_type<Out>(context);
    llvm::Type* loaded = lanes_ == 1 ? in : llvm::FixedVectorType::get(in, lanes_);
    llvm::SmallVector<llvm::Value*, 2> values;
    for (int k = 0; k < inputs; ++k) {
      llvm::Value* address = ir.CreateGEP(in, function->getArg(k), i);
      values.push_back(ir.CreateAlignedLoad(loaded, address, llvm::Align(1)));
    }
    llvm::Value* result = emitter(ir, values);
    ir.CreateAlignedStore(result, ir.CreateGEP(out, function->getArg(2), i), llvm::Align(1));
    llvm::Value* next = ir.CreateAdd(i, ir.getInt64(lanes_));
    ir.CreateCondBr(ir.CreateICmpULT(next, function->getArg(3)), loop, exit);
    i->addIncoming(ir.getInt64(0), entry);
    i->addIncoming(next, ir.GetInsertBlock());
    ir.SetInsertPoint(exit);
    ir.CreateRetVoid();
  }

  unsigned lanes_;
  std::unique_ptr<llvm::orc::LLJIT> jit_;
  Function function_ = nullptr;
};

struct Variant {
  Cpu cpu;
  unsigned lanes;
};
/// What every function is compiled for: the usual vectors, and a few that no register fits.
inline const std::vector<Variant>& variants() {
  static const std::vector<Variant> all{
      {Cpu::Host, 1},  {Cpu::Host, 4}, {Cpu::Host, 8}, {Cpu::Host, 16}, {Cpu::Host, 5},
      {Cpu::Host, 32}, {Cpu::Avx2, 1}, {Cpu::Avx2, 8}, {Cpu::Avx2, 16}, {Cpu::Sse2, 4}};
  return all;
}

}  // namespace tile::test
