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
  std::unique_ptr<ModuleLines> lines = ModuleLines::of(module, nest);
  for (size_t i = 0; i < plan.entries.size(); ++i) {
    FunctionEmitter(*declare(module, i), nest, plan, half, dots, lines.get()).run(plan.entries[i]);
  }
  if (lines) lines->finish();
}

FunctionEmitter::FunctionEmitter(llvm::Function& function, const nest::Nest& nest, const Plan& plan,
                                 HalfConversion half, const DotInstructions& dots,
                                 ModuleLines* lines)
    : c_(function, nest, plan, half, dots, lines), questions_(c_, amx_, plan.long_loops) {
  bodies_.use(folds_);
}

void FunctionEmitter::bind_parameters() {
  uint64_t given = 0;
  for (const nest::Parameter& p : c_.nest.parameters) {
    llvm::Value* value = nullptr;
    if (p.from.valid()) {
      Reference element;
      element.buffer = p.from;
      value =
          emit_convert(c_.ir, c_.memory.load(element, {}), c_.type_of(p.from), DType::i64, c_.half);
    } else {
      llvm::Value* at =
          c_.ir.CreateConstGEP1_64(c_.ir.getInt64Ty(), c_.function.getArg(1), given++);
      value = c_.ir.CreateLoad(c_.ir.getInt64Ty(), at, p.name);
    }
    c_.indices.bind(p.name, c_.indices.variable(value, p.lo > 0));
  }
  if (questions_.has_long_loops()) {
    llvm::Value* at = c_.ir.CreateConstGEP1_64(c_.ir.getInt64Ty(), c_.function.getArg(1), given);
    questions_.use(c_.ir.CreateLoad(c_.ir.getPtrTy(), at));
    bool tiles = std::any_of(c_.nest.buffers.begin(), c_.nest.buffers.end(),
                             [](const auto& b) { return b.scope == nest::Scope::fragment; });
    if (tiles) amx_.begin_configuration();
  }
}

void FunctionEmitter::run(const Entry& entry) {
  if (entry.first < entry.last) c_.lines.begin(c_.function, c_.nest.body[entry.first]);
  c_.memory.begin(c_.function.getArg(0), c_.function.getArg(2), c_.function.getArg(3));
  bind_parameters();
  for (size_t i = entry.first; i < entry.last; ++i) {
    const nest::Statement& s = c_.nest.body[i];
    c_.lines.at(s.span);
    if (amx_.begins_tiles(c_.nest.body, i)) amx_.configure_tiles(c_.nest.body, i);
    if (entry.parallel) {
      parallel_loop(std::get<nest::For>(s.what));
    } else {
      std::visit([&](const auto& what) { statement(what); }, s.what);
    }
  }
  finish();
  if (llvm::BasicBlock* stopped = questions_.stopped()) {
    stopped->insertInto(&c_.function);
    c_.ir.SetInsertPoint(stopped);
    finish();
  }
  std::vector<llvm::AllocaInst*> cells = c_.memory.cells();
  cells.insert(cells.end(), c_.cells.begin(), c_.cells.end());
  if (cells.empty()) return;
  llvm::DominatorTree tree(c_.function);
  llvm::PromoteMemToReg(cells, tree);
}

void FunctionEmitter::finish() {
  if (amx_.is_configured()) c_.ir.CreateIntrinsic(llvm::Intrinsic::x86_tilerelease, {}, {});
  // Streamed stores become visible to other threads in order only behind a fence.
  if (c_.memory.has_non_temporal_stores())
    c_.ir.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
  c_.ir.CreateRetVoid();
}

void FunctionEmitter::block(const nest::Block& statements) {
  for (size_t i = 0; i < statements.size();) {
    if (++statements_ > limits().code) {
      fail_limit(Stage::compile, {}, "the written-out loops of " + c_.nest.name + " are too long",
                 "limit_code");
    }
    checkpoint();
    size_t components = stores_.components_from(statements, i);
    c_.lines.within(statements[i].span, [&] {
      if (components == 0 || !stores_.store_together(statements, i, components)) {
        components = 1;
        if (amx_.begins_tiles(statements, i)) amx_.configure_tiles(statements, i);
        std::visit([&](const auto& what) { statement(what); }, statements[i].what);
      }
    });
    i += components;
  }
}

void FunctionEmitter::statement(const nest::If& i) {
  Condition c = conditions_.condition(i);
  auto then = [&] { block(i.then); };
  auto otherwise = [&] { block(i.otherwise); };
  if (c.never) return otherwise();
  if (c.lanes == nullptr) {
    if (c.uniform == nullptr) return then();
    return c_.conditional(c.uniform, then,
                          i.otherwise.empty() ? std::function<void()>() : otherwise);
  }
  llvm::Value* mask = c.lanes;
  if (c.uniform != nullptr) mask = c_.ir.CreateAnd(mask, c_.splat(c.uniform));
  c_.within(c_.masked(mask), then);
  if (!i.otherwise.empty()) c_.within(c_.masked(c_.ir.CreateNot(mask)), otherwise);
}

}  // namespace tile::cpu
