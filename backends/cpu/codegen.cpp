#include "backends/cpu/codegen.h"

#include <llvm/ADT/StringExtras.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Pass.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/Transforms/Scalar.h>
#include <llvm/Transforms/Utils.h>

#include "backends/cpu/emitter.h"
#include "core/support/diagnostic.h"

namespace tile::cpu {
namespace {

[[noreturn]] void fail_backend(const std::string& message) {
  fail(Stage::compile, "backend", {}, message);
}

// The module of a nest, checked: code generation may end the process on an invalid one.
std::unique_ptr<llvm::Module> emit(llvm::LLVMContext& context, const nest::Nest& nest,
                                   const Plan& plan, const llvm::TargetMachine& machine) {
  auto module = std::make_unique<llvm::Module>("tile", context);
  module->setTargetTriple(machine.getTargetTriple().str());
  module->setDataLayout(machine.createDataLayout());
  const llvm::MCSubtargetInfo& features = *machine.getMCSubtargetInfo();
  if (features.checkFeatures("+avx512dq,+avx512vl")) use_range_instructions(*module);
  bool hardware = features.checkFeatures("+f16c");
  emit_module(*module, nest, plan, hardware ? HalfConversion::Hardware : HalfConversion::Integer,
              dot_instructions(features));
  std::string broken;
  llvm::raw_string_ostream out(broken);
  if (llvm::verifyModule(*module, &out)) throw InternalError("cpu: invalid LLVM IR: " + broken);
  return module;
}

// LLVM's code generation without loop strength reduction, which with its analyses takes a sixth of
// the time from text to first result for next to nothing: the emitter already computes outside of a
// loop what does not change in it, and x86 adds scaled indices for free.
class Pipeline : public llvm::legacy::PassManager {
 public:
  void add(llvm::Pass* pass) override {
    static const llvm::AnalysisID kReduction = id_of(llvm::createLoopStrengthReducePass());
    static const llvm::AnalysisID kPreparation = id_of(llvm::createCanonicalizeFreezeInLoopsPass());
    if (pass->getPassID() == kReduction || pass->getPassID() == kPreparation) {
      delete pass;
    } else {
      llvm::legacy::PassManager::add(pass);
    }
  }

 private:
  static llvm::AnalysisID id_of(llvm::Pass* pass) {
    return std::unique_ptr<llvm::Pass>(pass)->getPassID();
  }
};

}  // namespace

// A machine taken from the idle ones, or a new one, and given back at the end.
class CodeGenerator::Loan {
 public:
  Loan(CodeGenerator& owner, const std::string& features) : owner_(owner), features_(features) {
    std::lock_guard lock(owner.mutex_);
    auto& idle = owner.idle_[features];
    if (idle.empty()) return;
    machine_ = std::move(idle.back());
    idle.pop_back();
  }
  ~Loan() {
    std::lock_guard lock(owner_.mutex_);
    if (machine_) owner_.idle_[features_].push_back(std::move(machine_));
  }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;
  llvm::TargetMachine& operator*() {
    if (!machine_) machine_ = owner_.make(features_);
    return *machine_;
  }

 private:
  CodeGenerator& owner_;
  std::string features_;
  Machine machine_;
};

CodeGenerator::CodeGenerator() {
  if (llvm::InitializeNativeTarget() || llvm::InitializeNativeTargetAsmPrinter()) {
    fail_backend("LLVM makes no code for this machine");
  }
}

CodeGenerator::Machine CodeGenerator::make(const std::string& text) const {
  llvm::SmallVector<llvm::StringRef> words;
  llvm::StringRef(text).split(words, ' ', -1, false);
  if (words.empty()) fail_backend("a target without a CPU");
  std::string features = llvm::join(llvm::ArrayRef(words).drop_front(), ",");
  std::string triple = llvm::sys::getProcessTriple(), error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (target == nullptr) fail_backend(error);
  // Asked first: a target machine for an unknown CPU prints to the terminal.
  std::unique_ptr<llvm::MCSubtargetInfo> generic(target->createMCSubtargetInfo(triple, "", ""));
  if (!generic || !generic->isCPUStringValid(words[0])) {
    fail_backend("LLVM does not know the CPU '" + words[0].str() + "'");
  }
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  Machine machine(target->createTargetMachine(triple, words[0], features, options,
                                              llvm::Reloc::PIC_, llvm::CodeModel::Small,
                                              llvm::CodeGenOptLevel::Default, true));
  if (!machine) fail_backend("LLVM makes no code for this machine");
  return machine;
}

llvm::SmallVector<char> CodeGenerator::object(const nest::Nest& nest, const Plan& plan,
                                              const Target& target) {
  std::string bytes = generate(nest, plan, target, llvm::CodeGenFileType::ObjectFile);
  return {bytes.begin(), bytes.end()};
}

std::string CodeGenerator::assembly(const nest::Nest& nest, const Plan& plan,
                                    const Target& target) {
  return generate(nest, plan, target, llvm::CodeGenFileType::AssemblyFile);
}

std::string CodeGenerator::ir(const nest::Nest& nest, const Plan& plan, const Target& target) {
  Loan machine(*this, target.features);
  llvm::LLVMContext context;
  std::string text;
  llvm::raw_string_ostream out(text);
  emit(context, nest, plan, *machine)->print(out, nullptr);
  return text;
}

std::string CodeGenerator::generate(const nest::Nest& nest, const Plan& plan, const Target& target,
                                    llvm::CodeGenFileType type) {
  Loan machine(*this, target.features);
  llvm::LLVMContext context;
  context.setDiscardValueNames(true);
  std::unique_ptr<llvm::Module> module = emit(context, nest, plan, *machine);
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out(bytes);
  Pipeline passes;
  if ((*machine).addPassesToEmitFile(passes, out, nullptr, type)) {
    fail_backend("LLVM cannot write code for this target");
  }
  passes.run(*module);
  return {bytes.begin(), bytes.end()};
}

}  // namespace tile::cpu
