#include "backends/cpu/jit/codegen.h"

#include <llvm/ADT/StringExtras.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Pass.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/Transforms/Scalar.h>
#include <llvm/Transforms/Utils.h>

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/code_passes.h"
#include "backends/cpu/emit/emitter.h"
#include "backends/cpu/jit/llvm_memory.h"
#include "core/support/diagnostic.h"

namespace tile::cpu {
namespace {

[[noreturn]] void fail_backend(const std::string& message) {
  fail(Stage::compile, "backend", {}, message);
}

std::unique_ptr<llvm::Module> new_module(llvm::LLVMContext& context) {
  return std::make_unique<llvm::Module>("tile", context);
}

// Fills the module of a nest and checks it: code generation may end the process on an invalid one.
void emit(llvm::Module& module, const nest::Nest& nest, const Plan& plan,
          const llvm::TargetMachine& machine) {
  module.setTargetTriple(machine.getTargetTriple().str());
  module.setDataLayout(machine.createDataLayout());
  const llvm::MCSubtargetInfo& features = *machine.getMCSubtargetInfo();
  if (features.checkFeatures("+avx512dq,+avx512vl")) use_range_instructions(module);
  bool hardware = features.checkFeatures("+f16c");
  emit_module(module, nest, plan, hardware ? HalfConversion::Hardware : HalfConversion::Integer,
              dot_instructions(features));
  std::string broken;
  llvm::raw_string_ostream out(broken);
  if (llvm::verifyModule(module, &out)) throw InternalError("cpu: invalid LLVM IR: " + broken);
}

// LLVM's code generation without loop strength reduction, which with its analyses takes a sixth of
// the time from text to first result for next to nothing: the emitter already computes outside of a
// loop what does not change in it, and x86 adds scaled indices for free.
class Pipeline : public llvm::legacy::PassManager {
 public:
  void add(llvm::Pass* pass) override {
    static const llvm::AnalysisID kReduction = id_of(llvm::createLoopStrengthReducePass());
    static const llvm::AnalysisID kPrepacking = id_of(llvm::createCanonicalizeFreezeInLoopsPass());
    if (pass->getPassID() == kReduction || pass->getPassID() == kPrepacking) {
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

using Machine = std::unique_ptr<llvm::TargetMachine>;

// `features`: the CPU, and what to switch on and off.
Machine make_machine(const std::string& features) {
  llvm::SmallVector<llvm::StringRef> words;
  llvm::StringRef(features).split(words, ' ', -1, false);
  if (words.empty()) fail_backend("a target without a CPU");
  std::string list = llvm::join(llvm::ArrayRef(words).drop_front(), ",");
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
  Machine machine(target->createTargetMachine(triple, words[0], list, options, llvm::Reloc::PIC_,
                                              llvm::CodeModel::Small,
                                              llvm::CodeGenOptLevel::Default, true));
  if (!machine) fail_backend("LLVM makes no code for this machine");
  return machine;
}

// The passes from a module to bytes. Setting them up takes as long as a fifth of a small kernel's
// compilation, so they run for one module after the other; all of these are of one context, which
// keeps every type and constant that it has seen.
class Passes {
 public:
  Passes(llvm::TargetMachine& machine, llvm::CodeGenFileType type)
      : parts_(std::make_unique<Parts>()) {
    parts_->context.setDiscardValueNames(true);
    if (machine.addPassesToEmitFile(parts_->pipeline, parts_->out, nullptr, type)) {
      fail_backend("LLVM cannot write code for this target");
    }
  }
  Passes(const Passes&) = delete;
  Passes& operator=(const Passes&) = delete;

  bool worn() const { return runs_ >= kMostRuns; }
  llvm::LLVMContext& context() {
    ++runs_;
    return parts_->context;
  }
  // What the module becomes, until the next run.
  llvm::StringRef run(llvm::Module& module) {
    parts_->bytes.clear();
    parts_->pipeline.run(module);
    return {parts_->bytes.data(), parts_->bytes.size()};
  }

 private:
  static constexpr int kMostRuns = 64;  // what the context and the passes keep is then given back

  struct Parts {
    llvm::LLVMContext context;
    llvm::SmallVector<char, 0> bytes;
    llvm::raw_svector_ostream out{bytes};
    Pipeline pipeline;
  };
  int runs_ = 0;
  // Held: where memory runs out while passes are added, tables of the pipeline say that they are
  // larger than they are, and whoever destroyed them would free what is behind their ends.
  Held<Parts> parts_;
};

// What one thread compiles with.
class CompilerContext {
 public:
  explicit CompilerContext(const std::string& features) : machine_(make_machine(features)) {}

  llvm::TargetMachine& machine() { return *machine_; }
  Passes& passes() {
    if (!passes_ || passes_->worn()) {
      passes_.reset();
      passes_ = std::make_unique<Passes>(*machine_, llvm::CodeGenFileType::ObjectFile);
    }
    return *passes_;
  }

  std::unique_ptr<CompilerContext> next;  // of those that nobody uses

 private:
  Machine machine_;
  std::unique_ptr<Passes> passes_;
};

// Those that nobody uses, by features: the first of each list.
struct Idle {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<CompilerContext>> workshops;
};

// Never destroyed: threads may still compile while the process ends.
Idle& idle() {
  static Idle& all = *new Idle;
  return all;
}

// A compiler_context taken from the idle ones, or a new one, and given back at the end. Giving back
// takes no memory.
class Lease {
 public:
  explicit Lease(const std::string& features) : features_(features) {
    std::lock_guard lock(idle().mutex);
    free_ = &idle().workshops[features];
    if (!*free_) return;
    workshop_ = std::move(*free_);
    *free_ = std::move(workshop_->next);
  }
  ~Lease() {
    if (!workshop_) return;
    std::lock_guard lock(idle().mutex);
    workshop_->next = std::move(*free_);
    *free_ = std::move(workshop_);
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  // work(compiler_context), with enough memory that it is likely to end well. Where memory runs out
  // in LLVM the compiler_context is not used again.
  template <class Work>
  auto use(const Work& work) {
    require_memory(kWorkBytes);
    return guarded_llvm(
        [&] {
          if (!workshop_) workshop_ = std::make_unique<CompilerContext>(features_);
          return work(*workshop_);
        },
        [&] { static_cast<void>(workshop_.release()); });
  }

 private:
  // Three times what was seen: the gradients of attention, 20 MB more than a process without them.
  static constexpr size_t kWorkBytes = size_t{64} << 20;
  std::string features_;
  std::unique_ptr<CompilerContext>* free_ = nullptr;  // nodes of a map stay where they are
  std::unique_ptr<CompilerContext> workshop_;
};

}  // namespace

CodeGenerator::CodeGenerator() { prepare_llvm(); }

llvm::SmallVector<char> CodeGenerator::object(const nest::Nest& nest, const Plan& plan,
                                              const Target& target, PassObserver* observer) {
  return Lease(target.features)
      .use([&](CompilerContext& compiler_context) -> llvm::SmallVector<char> {
        Passes& passes = compiler_context.passes();
        Held<llvm::Module> module(new_module(passes.context()));
        run_pass(kEmitLlvm, observer,
                 [&] { emit(*module, nest, plan, compiler_context.machine()); });
        llvm::StringRef bytes;
        run_pass(kMachineCode, observer, [&] { bytes = passes.run(*module); });
        return {bytes.begin(), bytes.end()};
      });
}

std::string CodeGenerator::assembly(const nest::Nest& nest, const Plan& plan,
                                    const Target& target) {
  return Lease(target.features).use([&](CompilerContext& compiler_context) {
    Held<Passes> passes(
        std::make_unique<Passes>(compiler_context.machine(), llvm::CodeGenFileType::AssemblyFile));
    Held<llvm::Module> module(new_module(passes->context()));
    emit(*module, nest, plan, compiler_context.machine());
    return passes->run(*module).str();
  });
}

std::string CodeGenerator::ir(const nest::Nest& nest, const Plan& plan, const Target& target) {
  return Lease(target.features).use([&](CompilerContext& compiler_context) {
    Held<llvm::LLVMContext> context(std::make_unique<llvm::LLVMContext>());
    Held<llvm::Module> module(new_module(*context));
    emit(*module, nest, plan, compiler_context.machine());
    std::string text;
    llvm::raw_string_ostream out(text);
    module->print(out, nullptr);
    return text;
  });
}

}  // namespace tile::cpu
