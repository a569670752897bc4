#include <llvm/IR/MDBuilder.h>

#include "backends/cpu/emit/emitter.h"
#include "core/support/diagnostic.h"

namespace tile::cpu {

void FunctionEmitter::statement(const nest::For& f) {
  Form begin = indices_.form(f.begin), extent = indices_.form(f.extent);
  if (extent.is_constant() && extent.constant <= 0) return;
  if (f.kind == nest::LoopKind::vector && lanes_of(f) > 1) {
    vector_loop(f, begin, extent);
  } else if (writes_out(f)) {
    written_out(f, begin, extent.constant);
  } else if (indices_.uses_lanes(begin) || indices_.uses_lanes(extent)) {
    loop_by_lane(f, begin, extent);
  } else {
    counted_loop(f, begin, extent);
  }
}

void FunctionEmitter::body_with(const nest::For& f, Form variable) {
  indices_.bind(f.variable, std::move(variable));
  block(f.body);
  indices_.unbind(f.variable);
}

void FunctionEmitter::counted_body(const nest::For& f, const Form& variable) {
  loops_.push_back({f.variable, variable});
  body_with(f, variable);
  loops_.pop_back();
}

void FunctionEmitter::written_out(const nest::For& f, const Form& begin, int64_t extent) {
  const WrittenOut loop{f.variable, begin, extent};
  for (int64_t i = 0; i < extent; ++i) {
    block_.reset();
    if (i == 0 && extent > 1 && turns(f, loop)) block_ = loop;
    body_with(f, begin + Form{{}, i});
  }
  block_.reset();
}

void FunctionEmitter::vector_loop(const nest::For& f, const Form& begin, const Form& extent) {
  internal_check(lanes_.width == 1, "cpu: a vector loop inside another");
  Lanes lanes;
  lanes.width = lanes_of(f);
  Form lane = indices_.lane(lanes.width);
  if (!extent.is_constant() || extent.constant < lanes.width) {
    llvm::Value* count = indices_.value(extent, 1);
    llvm::Value* numbers = indices_.value(lane, lanes.width);
    lanes.mask = scopes_.once({key_of(count), lanes.width, 'm'}, [&] {
      return ir_.CreateICmpSLT(numbers, ir_.CreateVectorSplat(lanes.width, count));
    });
    if (extent.is_constant()) {
      lanes.leading = static_cast<unsigned>(extent.constant);
    } else {
      lanes.any = scopes_.once({key_of(count), 'n'},
                               [&] { return ir_.CreateICmpSGT(count, ir_.getInt64(0)); });
    }
  }
  within(lanes, [&] {
    Form at = begin + lane;
    if (f.ordered) {
      indices_.bind(f.variable, begin);
      mirrored_ = lanes.mask == nullptr && runs_back(f.body, f.variable, begin);
      if (mirrored_) at = begin + Form{{}, int64_t{lanes.width} - 1} - lane;
      indices_.bind(f.variable, at);
      begin_running(f.body);
    }
    if (block_) {
      indices_.bind(f.variable, at);
      read_transposed(*block_, f.body);
    }
    body_with(f, at);
  });
  running_.clear();
  updated_.clear();
  mirrored_ = false;
}

int64_t FunctionEmitter::run_of(const void* loop) const {
  auto at = long_loops_.find(loop);
  return at == long_loops_.end() ? 0 : at->second;
}

// Goes on to `next` unless somebody answers that the code is to end.
void FunctionEmitter::ask(llvm::BasicBlock* next) {
  llvm::LLVMContext& context = function_.getContext();
  if (stopped_ == nullptr) stopped_ = llvm::BasicBlock::Create(context, "");
  auto* asked = llvm::BasicBlock::Create(context, "", &function_);
  llvm::MDNode* rarely = llvm::MDBuilder(context).createBranchWeights(1, 1 << 20);
  ir_.CreateCondBr(ir_.CreateIsNotNull(question_), asked, next, rarely);
  ir_.SetInsertPoint(asked);
  llvm::Value* answer = ir_.CreateLoad(ir_.getPtrTy(), question_);
  auto* type = llvm::FunctionType::get(ir_.getInt1Ty(), {ir_.getPtrTy()}, false);
  llvm::CallInst* is_over = ir_.CreateCall(type, answer, {question_});
  is_over->addRetAttr(llvm::Attribute::ZExt);
  is_over->setDoesNotThrow();
  // Whoever answers may use tile registers itself.
  if (configured_ != nullptr) ir_.CreateStore(ir_.getInt32(0), configured_);
  ir_.CreateCondBr(is_over, stopped_, next, rarely);
}

// Where the first of the runs of a loop with questions ends: all others are whole.
llvm::Value* FunctionEmitter::first_end(llvm::Value* begin, llvm::Value* end, int64_t run) {
  llvm::Value* last = ir_.CreateSub(ir_.CreateSub(end, begin), ir_.getInt64(1));
  llvm::Value* rest = ir_.CreateAnd(last, ir_.getInt64(static_cast<uint64_t>(run - 1)));
  return ir_.CreateAdd(begin, ir_.CreateAdd(rest, ir_.getInt64(1)));
}

// for i in [begin, end), tested at the bottom; with questions in runs of iterations, and one behind
// each but the last.
void FunctionEmitter::count_up(const Count& count, const std::set<int>& stored,
                               const std::function<void(llvm::Value*)>& body) {
  llvm::LLVMContext& context = function_.getContext();
  llvm::BasicBlock* before = ir_.GetInsertBlock();
  bool asks = count.run > 0;
  auto* runs = asks ? llvm::BasicBlock::Create(context, "", &function_) : nullptr;
  auto* loop = llvm::BasicBlock::Create(context, "", &function_);
  auto* after = llvm::BasicBlock::Create(context, "");
  llvm::BasicBlock* first = asks ? runs : loop;
  llvm::Value* end = asks ? first_end(count.begin, count.end, count.run) : count.end;
  llvm::Instruction* entry =
      count.certain ? ir_.CreateBr(first)
                    : ir_.CreateCondBr(ir_.CreateICmpSLT(count.begin, count.end), first, after);
  llvm::PHINode *run = nullptr, *run_end = nullptr;
  if (asks) {
    ir_.SetInsertPoint(runs);
    run = ir_.CreatePHI(ir_.getInt64Ty(), 2);
    run_end = ir_.CreatePHI(ir_.getInt64Ty(), 2);
    run->addIncoming(count.begin, before);
    run_end->addIncoming(end, before);
    end = run_end;
    ir_.CreateBr(loop);
  }
  ir_.SetInsertPoint(loop);
  llvm::PHINode* i = ir_.CreatePHI(ir_.getInt64Ty(), 2);
  i->addIncoming(asks ? static_cast<llvm::Value*>(run) : count.begin, asks ? runs : before);
  scopes_.open(entry, stored);
  body(i);
  scopes_.close();
  llvm::Value* next = ir_.CreateNSWAdd(i, ir_.getInt64(1));
  i->addIncoming(next, ir_.GetInsertBlock());
  auto* done = asks ? llvm::BasicBlock::Create(context, "", &function_) : after;
  ir_.CreateCondBr(ir_.CreateICmpSLT(next, end), loop, done);
  if (asks) {
    auto* more = llvm::BasicBlock::Create(context, "", &function_);
    auto* again = llvm::BasicBlock::Create(context, "", &function_);
    ir_.SetInsertPoint(done);
    ir_.CreateCondBr(ir_.CreateICmpSLT(end, count.end), more, after);
    ir_.SetInsertPoint(more);
    ask(again);
    ir_.SetInsertPoint(again);
    run->addIncoming(end, again);
    llvm::Value* length = ir_.getInt64(static_cast<uint64_t>(count.run));
    run_end->addIncoming(ir_.CreateNSWAdd(end, length), again);
    ir_.CreateBr(runs);
  }
  after->insertInto(&function_);
  ir_.SetInsertPoint(after);
}

void FunctionEmitter::counted_loop(const nest::For& f, const Form& begin, const Form& extent) {
  if (extent.is_constant() && extent.constant == 1) {
    body_with(f, begin);
    return;
  }
  if (f.kind == nest::LoopKind::vector) {  // of one lane
    llvm::Value* some = ir_.CreateICmpSGT(indices_.value(extent, 1), ir_.getInt64(0));
    conditional(some, [&] { body_with(f, begin); });
    return;
  }
  llvm::Value* from = indices_.value(begin, 1);
  llvm::Value* to = indices_.value(begin + extent, 1);
  count_up({from, to, extent.is_constant(), run_of(&f)}, stored_buffers(f.body),
           [&](llvm::Value* i) {
             Form variable = indices_.variable(i);
             prefetch_operands(f, variable, i);
             counted_body(f, variable);
           });
}

// Bounds that differ by lane: as many rounds as the longest lane needs, lanes dropping out.
void FunctionEmitter::loop_by_lane(const nest::For& f, const Form& begin, const Form& extent) {
  llvm::Value* counts = indices_.value(extent, lanes_.width);
  llvm::Value* longest = counts;
  if (counts->getType()->isVectorTy()) {
    llvm::Value* none = llvm::Constant::getNullValue(counts->getType());
    llvm::Value* live =
        lanes_.mask == nullptr ? counts : ir_.CreateSelect(lanes_.mask, counts, none);
    longest = ir_.CreateIntMaxReduce(live, true);
  }
  count_up({ir_.getInt64(0), longest, false, run_of(&f)}, stored_buffers(f.body),
           [&](llvm::Value* i) {
             Lanes inner = lanes_;
             if (counts->getType()->isVectorTy()) {
               inner = masked(ir_.CreateICmpSLT(ir_.CreateVectorSplat(lanes_.width, i), counts));
             }
             within(inner, [&] { body_with(f, begin + indices_.variable(i)); });
           });
}

void FunctionEmitter::parallel_loop(const nest::For& f) {
  Form begin = indices_.form(f.begin);
  llvm::Value* from = indices_.value(begin, 1);
  count_up({function_.getArg(4), function_.getArg(5), false, run_of(&f)}, stored_buffers(f.body),
           [&](llvm::Value* i) {
             counted_body(f,
                          indices_.variable(from == ir_.getInt64(0) ? i : ir_.CreateAdd(from, i)));
           });
}

}  // namespace tile::cpu
