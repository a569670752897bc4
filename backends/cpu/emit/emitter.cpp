#include "backends/cpu/emit/emitter.h"

#include <llvm/IR/Dominators.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/Transforms/Utils/PromoteMemToReg.h>

#include <algorithm>
#include <string>

#include "backends/cpu/values/convert.h"
#include "core/support/control.h"
#include "core/support/diagnostic.h"

namespace tile::cpu {
namespace {

// LLVM's scheduler relates every store of a basic block to every load.
constexpr int kBlockStores = 64;

llvm::Function* declare(llvm::Module& module, size_t number) {
  llvm::LLVMContext& context = module.getContext();
  llvm::Type* pointer = llvm::PointerType::getUnqual(context);
  llvm::Type* integer = llvm::Type::getInt64Ty(context);
  auto* type =
      llvm::FunctionType::get(llvm::Type::getVoidTy(context),
                              {pointer, pointer, pointer, pointer, integer, integer}, false);
  auto* function = llvm::Function::Create(type, llvm::Function::ExternalLinkage,
                                          "entry_" + std::to_string(number), module);
  function->setDoesNotThrow();
  function->addFnAttr("prefer-vector-width", "512");
  constexpr const char* names[] = {"buffers", "parameters", "workspace", "scratch", "begin", "end"};
  for (unsigned i = 0; i < 6; ++i) function->getArg(i)->setName(names[i]);
  return function;
}

}  // namespace

void emit_module(llvm::Module& module, const nest::Nest& nest, const Plan& plan,
                 HalfConversion half, const DotInstructions& dots) {
  for (size_t i = 0; i < plan.entries.size(); ++i) {
    FunctionEmitter(*declare(module, i), nest, plan, half, dots).run(plan.entries[i]);
  }
}

FunctionEmitter::FunctionEmitter(llvm::Function& function, const nest::Nest& nest, const Plan& plan,
                                 HalfConversion half, const DotInstructions& dots)
    : function_(function),
      nest_(nest),
      half_(half),
      dots_(dots),
      ir_(llvm::BasicBlock::Create(function.getContext(), "", &function)),
      scopes_(ir_),
      indices_(ir_, scopes_),
      memory_(ir_, scopes_, indices_, nest, plan),
      long_loops_(plan.long_loops) {}

void FunctionEmitter::run(const Entry& entry) {
  memory_.begin(function_.getArg(0), function_.getArg(2), function_.getArg(3));
  uint64_t given = 0;
  for (const nest::Parameter& p : nest_.parameters) {
    llvm::Value* value = nullptr;
    if (p.from >= 0) {
      Reference element;
      element.buffer = p.from;
      value = emit_convert(ir_, memory_.load(element, {}), type_of(p.from), DType::i64, half_);
    } else {
      llvm::Value* at = ir_.CreateConstGEP1_64(ir_.getInt64Ty(), function_.getArg(1), given++);
      value = ir_.CreateLoad(ir_.getInt64Ty(), at, p.name);
    }
    indices_.bind(p.name, indices_.variable(value, p.lo > 0));
  }
  if (!long_loops_.empty()) {
    llvm::Value* at = ir_.CreateConstGEP1_64(ir_.getInt64Ty(), function_.getArg(1), given);
    question_ = ir_.CreateLoad(ir_.getPtrTy(), at);
    bool tiles = std::any_of(nest_.buffers.begin(), nest_.buffers.end(),
                             [](const auto& b) { return b.scope == nest::Scope::fragment; });
    if (tiles) begin_configuration();
  }
  for (size_t i = entry.first; i < entry.last; ++i) {
    const nest::Statement& s = nest_.body[i];
    if (begins_tiles(nest_.body, i)) configure_tiles(nest_.body, i);
    if (entry.parallel) {
      parallel_loop(std::get<nest::For>(s.what));
    } else {
      std::visit([&](const auto& what) { statement(what); }, s.what);
    }
  }
  finish();
  if (stopped_ != nullptr) {
    stopped_->insertInto(&function_);
    ir_.SetInsertPoint(stopped_);
    finish();
  }
  std::vector<llvm::AllocaInst*> cells = memory_.cells();
  cells.insert(cells.end(), running_cells_.begin(), running_cells_.end());
  if (cells.empty()) return;
  llvm::DominatorTree tree(function_);
  llvm::PromoteMemToReg(cells, tree);
}

void FunctionEmitter::finish() {
  if (configured_ != nullptr) ir_.CreateIntrinsic(llvm::Intrinsic::x86_tilerelease, {}, {});
  // Streamed stores become visible to other threads in order only behind a fence.
  if (memory_.has_non_temporal_stores())
    ir_.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
  ir_.CreateRetVoid();
}

void FunctionEmitter::block(const nest::Block& statements) {
  for (size_t i = 0; i < statements.size();) {
    if (++statements_ > limits().code) {
      fail_limit(Stage::compile, {}, "the written-out loops of " + nest_.name + " are too long",
                 "limit_code");
    }
    checkpoint();
    size_t components = components_from(statements, i);
    if (components > 0 && store_together(statements, i, components)) {
      i += components;
      continue;
    }
    if (begins_tiles(statements, i)) configure_tiles(statements, i);
    std::visit([&](const auto& what) { statement(what); }, statements[i].what);
    ++i;
  }
}

// Ends a block of straight-line code that stores too often. A plain branch would be folded away
// again; this one tests what is always true.
void FunctionEmitter::count_store() {
  if (ir_.GetInsertBlock() != stores_in_) {
    stores_in_ = ir_.GetInsertBlock();
    stores_ = 0;
  }
  if (++stores_ < kBlockStores) return;
  llvm::LLVMContext& context = function_.getContext();
  auto* never = llvm::BasicBlock::Create(context, "", &function_);
  auto* next = llvm::BasicBlock::Create(context, "", &function_);
  ir_.CreateCondBr(ir_.CreateIsNotNull(function_.getArg(0)), next, never);
  ir_.SetInsertPoint(never);
  ir_.CreateRetVoid();
  ir_.SetInsertPoint(next);
}

void FunctionEmitter::conditional(llvm::Value* condition, const std::function<void()>& then,
                                  const std::function<void()>& otherwise) {
  llvm::LLVMContext& context = function_.getContext();
  auto* yes = llvm::BasicBlock::Create(context, "", &function_);
  auto* no = otherwise ? llvm::BasicBlock::Create(context, "", &function_) : nullptr;
  auto* after = llvm::BasicBlock::Create(context, "");
  llvm::Instruction* branch = ir_.CreateCondBr(condition, yes, no != nullptr ? no : after);
  auto side = [&](llvm::BasicBlock* block, const std::function<void()>& emit) {
    ir_.SetInsertPoint(block);
    scopes_.open(branch);
    emit();
    scopes_.close();
    ir_.CreateBr(after);
  };
  side(yes, then);
  if (no != nullptr) side(no, otherwise);
  after->insertInto(&function_);
  ir_.SetInsertPoint(after);
}

Lanes FunctionEmitter::masked(llvm::Value* mask) {
  Lanes inner = lanes_;
  inner.leading = 0;
  inner.mask =
      lanes_.mask == nullptr ? mask : scopes_.once({key_of(lanes_.mask), key_of(mask), 'a'}, [&] {
        return ir_.CreateAnd(lanes_.mask, mask);
      });
  inner.any =
      scopes_.once({key_of(inner.mask), 'y'}, [&] { return ir_.CreateOrReduce(inner.mask); });
  return inner;
}

void FunctionEmitter::within(const Lanes& lanes, const std::function<void()>& emit) {
  Lanes outer = lanes_;
  lanes_ = lanes;
  emit();
  lanes_ = outer;
}

}  // namespace tile::cpu
