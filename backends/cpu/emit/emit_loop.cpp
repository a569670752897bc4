#include "backends/cpu/emit/emitter.h"
#include "core/support/diagnostic.h"

namespace tile::cpu {

void FunctionEmitter::statement(const nest::For& f) {
  Form begin = c_.indices.form(f.begin), extent = c_.indices.form(f.extent);
  if (extent.is_constant() && extent.constant <= 0) return;
  if (f.kind == nest::LoopKind::vector && lanes_of(f) > 1) {
    vector_loop(f, begin, extent);
  } else if (writes_out(f)) {
    written_out(f, begin, extent.constant);
  } else if (c_.indices.uses_lanes(begin) || c_.indices.uses_lanes(extent)) {
    loop_by_lane(f, begin, extent);
  } else {
    counted_loop(f, begin, extent);
  }
}

void FunctionEmitter::body_with(const nest::For& f, Form variable) {
  c_.indices.bind(f.variable, std::move(variable));
  block(f.body);
  c_.indices.unbind(f.variable);
}

void FunctionEmitter::counted_body(const nest::For& f, const Form& variable) {
  c_.loops.push_back({f.variable, variable});
  body_with(f, variable);
  c_.loops.pop_back();
}

void FunctionEmitter::written_out(const nest::For& f, const Form& begin, int64_t extent) {
  const TransposeEmitter::WrittenOut loop{f.variable, begin, extent};
  for (int64_t i = 0; i < extent; ++i) {
    transposes_.begin_iteration(f, loop, i);
    body_with(f, begin + Form{{}, i});
  }
  transposes_.end_loop();
}

// The lanes of a vector loop whose numbers are `lane`: those below the extent.
Lanes FunctionEmitter::lanes_of_loop(const nest::For& f, const Form& lane, const Form& extent) {
  Lanes lanes;
  lanes.width = lanes_of(f);
  if (extent.is_constant() && extent.constant >= lanes.width) return lanes;
  llvm::Value* count = c_.indices.value(extent, 1);
  llvm::Value* numbers = c_.indices.value(lane, lanes.width);
  lanes.mask = c_.scopes.once({key_of(count), lanes.width, 'm'}, [&] {
    return c_.ir.CreateICmpSLT(numbers, c_.ir.CreateVectorSplat(lanes.width, count));
  });
  if (extent.is_constant()) {
    lanes.leading = static_cast<unsigned>(extent.constant);
  } else {
    lanes.any = c_.scopes.once({key_of(count), 'n'},
                               [&] { return c_.ir.CreateICmpSGT(count, c_.ir.getInt64(0)); });
  }
  return lanes;
}

void FunctionEmitter::vector_loop(const nest::For& f, const Form& begin, const Form& extent) {
  internal_check(c_.lanes.width == 1, "cpu: a vector loop inside another");
  Form lane = c_.indices.lane(lanes_of(f));
  Lanes lanes = lanes_of_loop(f, lane, extent);
  c_.within(lanes, [&] {
    Form at = begin + lane;
    if (f.ordered) {
      c_.indices.bind(f.variable, begin);
      running_.begin_loop(f, begin);
      if (running_.is_mirrored()) at = begin + Form{{}, int64_t{lanes.width} - 1} - lane;
      c_.indices.bind(f.variable, at);
      running_.begin_running(f.body);
    }
    if (transposes_.reads_blocks()) {
      c_.indices.bind(f.variable, at);
      transposes_.read_transposed(f.body);
    }
    body_with(f, at);
  });
  running_.end_loop();
}

// for i in [begin, end), tested at the bottom; with questions in runs of iterations, and one behind
// each but the last.
void FunctionEmitter::count_up(const Count& count, const std::set<nest::BufferId>& stored,
                               const std::function<void(llvm::Value*)>& body) {
  llvm::LLVMContext& context = c_.function.getContext();
  llvm::BasicBlock* before = c_.ir.GetInsertBlock();
  bool asks = count.run > 0;
  auto* runs = asks ? llvm::BasicBlock::Create(context, "", &c_.function) : nullptr;
  auto* loop = llvm::BasicBlock::Create(context, "", &c_.function);
  auto* after = llvm::BasicBlock::Create(context, "");
  llvm::BasicBlock* first = asks ? runs : loop;
  llvm::Value* end = asks ? questions_.first_end(count.begin, count.end, count.run) : count.end;
  llvm::Instruction* entry =
      count.certain ? c_.ir.CreateBr(first)
                    : c_.ir.CreateCondBr(c_.ir.CreateICmpSLT(count.begin, count.end), first, after);
  llvm::PHINode *run = nullptr, *run_end = nullptr;
  if (asks) {
    c_.ir.SetInsertPoint(runs);
    run = c_.ir.CreatePHI(c_.ir.getInt64Ty(), 2);
    run_end = c_.ir.CreatePHI(c_.ir.getInt64Ty(), 2);
    run->addIncoming(count.begin, before);
    run_end->addIncoming(end, before);
    end = run_end;
    c_.ir.CreateBr(loop);
  }
  c_.ir.SetInsertPoint(loop);
  llvm::PHINode* i = c_.ir.CreatePHI(c_.ir.getInt64Ty(), 2);
  i->addIncoming(asks ? static_cast<llvm::Value*>(run) : count.begin, asks ? runs : before);
  c_.scopes.open(entry, stored);
  c_.lines.inside([&] { body(i); });
  c_.scopes.close();
  llvm::Value* next = c_.ir.CreateNSWAdd(i, c_.ir.getInt64(1));
  i->addIncoming(next, c_.ir.GetInsertBlock());
  auto* done = asks ? llvm::BasicBlock::Create(context, "", &c_.function) : after;
  c_.ir.CreateCondBr(c_.ir.CreateICmpSLT(next, end), loop, done);
  if (asks) {
    auto* more = llvm::BasicBlock::Create(context, "", &c_.function);
    auto* again = llvm::BasicBlock::Create(context, "", &c_.function);
    c_.ir.SetInsertPoint(done);
    c_.ir.CreateCondBr(c_.ir.CreateICmpSLT(end, count.end), more, after);
    c_.ir.SetInsertPoint(more);
    questions_.ask(again);
    c_.ir.SetInsertPoint(again);
    run->addIncoming(end, again);
    llvm::Value* length = c_.ir.getInt64(static_cast<uint64_t>(count.run));
    run_end->addIncoming(c_.ir.CreateNSWAdd(end, length), again);
    c_.ir.CreateBr(runs);
  }
  after->insertInto(&c_.function);
  c_.ir.SetInsertPoint(after);
}

void FunctionEmitter::counted_loop(const nest::For& f, const Form& begin, const Form& extent) {
  if (extent.is_constant() && extent.constant == 1) {
    body_with(f, begin);
    return;
  }
  if (f.kind == nest::LoopKind::vector) {  // of one lane
    llvm::Value* some = c_.ir.CreateICmpSGT(c_.indices.value(extent, 1), c_.ir.getInt64(0));
    c_.conditional(some, [&] { body_with(f, begin); });
    return;
  }
  llvm::Value* from = c_.indices.value(begin, 1);
  llvm::Value* to = c_.indices.value(begin + extent, 1);
  count_up({from, to, extent.is_constant(), questions_.run_of(&f)}, stored_buffers(f.body),
           [&](llvm::Value* i) {
             Form variable = c_.indices.variable(i);
             prefetches_.prefetch_operands(f, variable, i);
             counted_body(f, variable);
           });
}

// Bounds that differ by lane: as many rounds as the longest lane needs, lanes dropping out.
void FunctionEmitter::loop_by_lane(const nest::For& f, const Form& begin, const Form& extent) {
  llvm::Value* counts = c_.indices.value(extent, c_.lanes.width);
  llvm::Value* longest = counts;
  if (counts->getType()->isVectorTy()) {
    llvm::Value* none = llvm::Constant::getNullValue(counts->getType());
    llvm::Value* live =
        c_.lanes.mask == nullptr ? counts : c_.ir.CreateSelect(c_.lanes.mask, counts, none);
    longest = c_.ir.CreateIntMaxReduce(live, true);
  }
  count_up({c_.ir.getInt64(0), longest, false, questions_.run_of(&f)}, stored_buffers(f.body),
           [&](llvm::Value* i) {
             Lanes inner = c_.lanes;
             if (counts->getType()->isVectorTy()) {
               inner = c_.masked(
                   c_.ir.CreateICmpSLT(c_.ir.CreateVectorSplat(c_.lanes.width, i), counts));
             }
             c_.within(inner, [&] { body_with(f, begin + c_.indices.variable(i)); });
           });
}

void FunctionEmitter::parallel_loop(const nest::For& f) {
  Form begin = c_.indices.form(f.begin);
  llvm::Value* from = c_.indices.value(begin, 1);
  count_up({c_.function.getArg(4), c_.function.getArg(5), false, questions_.run_of(&f)},
           stored_buffers(f.body), [&](llvm::Value* i) {
             counted_body(
                 f, c_.indices.variable(from == c_.ir.getInt64(0) ? i : c_.ir.CreateAdd(from, i)));
           });
}

}  // namespace tile::cpu
