// Folds: a loop with a phi for each carried value, inside the lanes of a vector loop. Where the
// number of rounds is the same for every lane it is a plain loop; otherwise it runs as long as any
// lane does, lanes dropping out.
#include <algorithm>
#include <bit>

#include "backends/cpu/emit/emitter.h"
#include "backends/cpu/values/combine.h"
#include "backends/cpu/values/types.h"
#include "core/support/diagnostic.h"

namespace tile::cpu {

// A stand-in for a fold's counter where only the shape of expressions matters.
Form FunctionEmitter::nominal_counter(const std::string& name) {
  auto [known, added] = counters_.try_emplace(name);
  if (added) known->second = indices_.variable(ir_.getInt64(0));
  return known->second;
}

void FunctionEmitter::describe(const Body& region, const std::vector<nest::Access>& loads, Key& key,
                               std::set<int>& buffers) {
  key.push_back(region.nodes.size());
  for (const Node& n : region.nodes) {
    for (auto part :
         {static_cast<uint64_t>(n.kind), static_cast<uint64_t>(n.op), static_cast<uint64_t>(n.type),
          static_cast<uint64_t>(n.integer), std::bit_cast<uint64_t>(n.real)}) {
      key.push_back(part);
    }
    for (NodeId arg : n.args) key.push_back(static_cast<uint64_t>(arg));
    if (n.kind == NodeKind::size) append(key, indices_.form(n.expr));
    if (n.kind == NodeKind::load) {
      const nest::Access& a = loads[static_cast<size_t>(n.slot)];
      buffers.insert(a.buffer);
      key.push_back(static_cast<uint64_t>(a.buffer));
      for (const Expr& e : a.index) append(key, indices_.form(e));
      for (int v : a.values) key.push_back(static_cast<uint64_t>(v));
    } else {
      key.push_back(static_cast<uint64_t>(n.slot));
    }
    if (n.kind != NodeKind::fold) continue;
    indices_.bind(n.expr.name(), nominal_counter(n.expr.name()));
    describe(*n.region, loads, key, buffers);
    indices_.unbind(n.expr.name());
  }
  for (NodeId r : region.results) key.push_back(static_cast<uint64_t>(r));
}

// The same loop with the same operands is run once, however many statements need a result of it.
FunctionEmitter::Nodes FunctionEmitter::fold(const BodyValues& values, const Node& node) {
  Key key{'F',
          static_cast<uint64_t>(node.op),
          static_cast<uint64_t>(node.slot),
          lanes_.width,
          key_of(lanes_.mask),
          key_of(lanes_.any)};
  for (NodeId arg : node.args) key.push_back(key_of(values.nodes[static_cast<size_t>(arg)]));
  std::set<int> buffers{-1};
  indices_.bind(node.expr.name(), nominal_counter(node.expr.name()));
  describe(*node.region, values.loads, key, buffers);
  indices_.unbind(node.expr.name());
  auto key_of_result = [&](int k) {
    Key part = key;
    part.push_back(static_cast<uint64_t>(k));
    return part;
  };
  Nodes results;
  for (int k = 0; k < node.slot; ++k) {
    Key part = key_of_result(k);
    llvm::Value* known = nullptr;
    bool all = std::all_of(buffers.begin(), buffers.end(), [&](int buffer) {
      known = scopes_.content(buffer, part);
      return known != nullptr;
    });
    if (!all) break;
    results.push_back(known);
  }
  if (results.size() == static_cast<size_t>(node.slot)) return results;
  results = new_fold(values, node);
  for (int k = 0; k < node.slot; ++k) {
    for (int buffer : buffers) {
      scopes_.remember(buffer, key_of_result(k), results[static_cast<size_t>(k)]);
    }
  }
  return results;
}

// A bound as a form: index expressions keep their strides.
Form FunctionEmitter::bound_form(const BodyValues& values, NodeId id) {
  const Node& node = values.body[id];
  if (node.kind == NodeKind::size) return indices_.form(node.expr);
  if (node.kind == NodeKind::integer) return {{}, node.integer};
  return indices_.variable(values.nodes[static_cast<size_t>(id)]);
}

// Whether the lanes' values differ, for each node of a region.
std::vector<bool> FunctionEmitter::varying_nodes(const Body& region,
                                                 const std::vector<nest::Access>& loads,
                                                 const std::vector<bool>& arguments) {
  std::vector<bool> varies;
  std::map<size_t, std::vector<bool>> folds;
  auto uses_lanes = [&](const Expr& e) { return indices_.uses_lanes(indices_.form(e)); };
  for (size_t i = 0; i < region.nodes.size(); ++i) {
    const Node& n = region.nodes[i];
    auto at = [&](NodeId id) { return static_cast<bool>(varies[static_cast<size_t>(id)]); };
    bool v = std::any_of(n.args.begin(), n.args.end(), at);
    if (n.kind == NodeKind::size) v = uses_lanes(n.expr);
    if (n.kind == NodeKind::argument) v = arguments[static_cast<size_t>(n.slot)];
    if (n.kind == NodeKind::load) {
      const nest::Access& a = loads[static_cast<size_t>(n.slot)];
      v = v || std::any_of(a.index.begin(), a.index.end(), uses_lanes);
    }
    if (n.kind == NodeKind::component) {
      v = folds.at(static_cast<size_t>(n.args[0]))[static_cast<size_t>(n.slot)];
    }
    if (n.kind == NodeKind::fold) {
      std::vector<bool> given(n.args.size() - 1);
      for (size_t a = 2; a < n.args.size(); ++a) given[a - 1] = at(n.args[a]);
      bool differ = at(n.args[0]) || at(n.args[1]);
      Form counter = differ ? indices_.lane(lanes_.width) : nominal_counter(n.expr.name());
      indices_.bind(n.expr.name(), counter);
      folds[i] = varying_carried(n, loads, std::move(given), differ);
      indices_.unbind(n.expr.name());
    }
    varies.push_back(v);
  }
  return varies;
}

// Which carried values differ by lane, the counter being bound; `given` tells it of the arguments
// at the start, `differ` whether lanes may drop out.
std::vector<bool> FunctionEmitter::varying_carried(const Node& fold,
                                                   const std::vector<nest::Access>& loads,
                                                   std::vector<bool> given, bool differ) {
  auto count = static_cast<size_t>(fold.slot);
  given[0] = indices_.uses_lanes(indices_.form(fold.expr));
  for (size_t k = 0; k < count; ++k) given[k + 1] = given[k + 1] || differ;
  for (bool changed = true; changed;) {
    changed = false;
    std::vector<bool> inside = varying_nodes(*fold.region, loads, given);
    for (size_t k = 0; k < count; ++k) {
      auto result = static_cast<size_t>(fold.region->results[k]);
      if (!inside[result] || given[k + 1]) continue;
      given[k + 1] = true;
      changed = true;
    }
  }
  return {given.begin() + 1, given.begin() + 1 + static_cast<std::ptrdiff_t>(count)};
}

namespace {

nest::StoreKind store_kind(Op op) {
  switch (op) {
    case Op::add:
      return nest::StoreKind::add;
    case Op::mul:
      return nest::StoreKind::multiply;
    case Op::max:
      return nest::StoreKind::max;
    case Op::min:
      return nest::StoreKind::min;
    default:
      return nest::StoreKind::assign;
  }
}

}  // namespace

FunctionEmitter::Nodes FunctionEmitter::new_fold(const BodyValues& values, const Node& node) {
  FoldLoop loop;
  loop.begin = bound_form(values, node.args[0]);
  Form count = bound_form(values, node.args[1]) - loop.begin;
  Nodes starts;
  for (size_t i = 2; i < node.args.size(); ++i) {
    starts.push_back(values.nodes[static_cast<size_t>(node.args[i])]);
  }
  if (count.is_constant() && count.constant <= 0) {
    starts.resize(static_cast<size_t>(node.slot));
    return starts;
  }
  loop.certain = count.is_constant();
  loop.rounds = indices_.value(count, lanes_.width);
  if (indices_.uses_lanes(count)) {
    loop.counts = loop.rounds;
    llvm::Value* none = llvm::Constant::getNullValue(loop.counts->getType());
    llvm::Value* on =
        lanes_.mask == nullptr ? loop.counts : ir_.CreateSelect(lanes_.mask, loop.counts, none);
    loop.rounds = ir_.CreateIntMaxReduce(on, true);
  }
  return fold_loop(values, node, std::move(starts), loop);
}

// One function: the basic blocks of the rounds, and of the runs of rounds around them, name each
// other as predecessors and successors.
FunctionEmitter::Nodes FunctionEmitter::fold_loop(const BodyValues& values, const Node& node,
                                                  Nodes starts, const FoldLoop& loop) {
  llvm::LLVMContext& context = function_.getContext();
  auto carried = static_cast<size_t>(node.slot);
  std::vector<bool> given{false};
  for (llvm::Value* start : starts) given.push_back(start->getType()->isVectorTy());
  const std::string& counter = node.expr.name();
  indices_.bind(counter, loop.begin + nominal_counter(counter));
  std::vector<bool> varies =
      varying_carried(node, values.loads, std::move(given), loop.counts != nullptr);
  indices_.unbind(counter);
  // Carried values that differ by lane are vectors from the start.
  for (size_t k = 0; k < carried; ++k) {
    if (varies[k]) starts[k] = splat(starts[k]);
  }
  auto* after = llvm::BasicBlock::Create(context, "");
  llvm::BasicBlock* before = ir_.GetInsertBlock();
  int64_t run = run_of(&node);
  // With questions: the rounds in runs, with one question behind each but the last.
  Rounds runs = run > 0 ? begin_rounds() : Rounds{};
  Rounds rounds = begin_rounds();
  llvm::BasicBlock* first = run > 0 ? runs.block : rounds.block;
  llvm::Value *from = ir_.getInt64(0), *end = loop.rounds;
  if (run > 0) end = first_end(from, loop.rounds, run);
  llvm::Instruction* entry =
      loop.certain
          ? ir_.CreateBr(first)
          : ir_.CreateCondBr(ir_.CreateICmpSGT(loop.rounds, ir_.getInt64(0)), first, after);
  Nodes carried_in(starts.begin(), starts.begin() + node.slot);
  llvm::BasicBlock* outer = before;
  if (run > 0) {
    enter(runs, outer, from, carried_in);
    runs.end = ir_.CreatePHI(ir_.getInt64Ty(), 2);
    runs.end->addIncoming(end, before);
    end = runs.end;
    ir_.CreateBr(rounds.block);
    from = runs.number;
    carried_in.assign(runs.carried.begin(), runs.carried.end());
    outer = runs.block;
  }
  enter(rounds, outer, from, carried_in);
  Nodes arguments{nullptr};
  arguments.insert(arguments.end(), rounds.carried.begin(), rounds.carried.end());
  arguments.insert(arguments.end(), starts.begin() + node.slot, starts.end());
  scopes_.open(entry);
  indices_.bind(counter, loop.begin + indices_.variable(rounds.number));
  Nodes next = fold_round(values, node, rounds.number, arguments, loop);
  indices_.unbind(counter);
  scopes_.close();
  llvm::Value* done = ir_.CreateNSWAdd(rounds.number, ir_.getInt64(1));
  auto* behind = run > 0 ? llvm::BasicBlock::Create(context, "", &function_) : after;
  again(rounds, done, next);
  ir_.CreateCondBr(ir_.CreateICmpSLT(done, end), rounds.block, behind);
  llvm::BasicBlock* latch = rounds.latch;
  if (run > 0) {
    auto* more = llvm::BasicBlock::Create(context, "", &function_);
    auto* asked = llvm::BasicBlock::Create(context, "", &function_);
    ir_.SetInsertPoint(behind);
    latch = behind;
    ir_.CreateCondBr(ir_.CreateICmpSLT(end, loop.rounds), more, after);
    ir_.SetInsertPoint(more);
    ask(asked);
    ir_.SetInsertPoint(asked);
    again(runs, end, next);
    llvm::Value* length = ir_.getInt64(static_cast<uint64_t>(run));
    runs.end->addIncoming(ir_.CreateNSWAdd(end, length), asked);
    ir_.CreateBr(runs.block);
  }
  after->insertInto(&function_);
  ir_.SetInsertPoint(after);
  if (loop.certain) return next;
  for (size_t k = 0; k < carried; ++k) {
    llvm::PHINode* result = ir_.CreatePHI(starts[k]->getType(), 2);
    result->addIncoming(starts[k], before);
    result->addIncoming(next[k], latch);
    next[k] = result;
  }
  return next;
}

FunctionEmitter::Rounds FunctionEmitter::begin_rounds() {
  Rounds r;
  r.block = llvm::BasicBlock::Create(function_.getContext(), "", &function_);
  return r;
}

// From here on in the loop's block, which is entered from `before` with these values.
void FunctionEmitter::enter(Rounds& r, llvm::BasicBlock* before, llvm::Value* number,
                            const Nodes& carried) {
  ir_.SetInsertPoint(r.block);
  r.number = ir_.CreatePHI(ir_.getInt64Ty(), 2);
  r.number->addIncoming(number, before);
  for (llvm::Value* value : carried) {
    r.carried.push_back(ir_.CreatePHI(value->getType(), 2));
    r.carried.back()->addIncoming(value, before);
  }
}

// What the loop goes on with from the present block.
void FunctionEmitter::again(Rounds& r, llvm::Value* number, const Nodes& carried) {
  r.latch = ir_.GetInsertBlock();
  r.number->addIncoming(number, r.latch);
  for (size_t k = 0; k < carried.size(); ++k) r.carried[k]->addIncoming(carried[k], r.latch);
}

// One round: the carried values after it.
FunctionEmitter::Nodes FunctionEmitter::fold_round(const BodyValues& values, const Node& node,
                                                   llvm::Value* round, const Nodes& arguments,
                                                   const FoldLoop& loop) {
  Nodes next;
  Lanes lanes = lanes_;
  llvm::Value* running = nullptr;
  if (loop.counts != nullptr) {
    running = ir_.CreateICmpSLT(ir_.CreateVectorSplat(lanes_.width, round), loop.counts);
    lanes = masked(running);
  }
  within(lanes, [&] {
    BodyValues inside{*node.region, values.loads, arguments, {}, {}, &node.expr.name()};
    emit(inside, {});
    for (size_t k = 0; k < static_cast<size_t>(node.slot); ++k) {
      NodeId result = node.region->results[k];
      llvm::Value* old = arguments[k + 1];
      llvm::Value* value = inside.nodes[static_cast<size_t>(result)];
      if (old->getType()->isVectorTy()) value = splat(value);
      if (node.op != Op::ident) {
        DType type = (*node.region)[result].type;
        value = emit_combine(ir_, store_kind(node.op), type, old, value, nullptr, half_);
      }
      next.push_back(running == nullptr ? value : ir_.CreateSelect(running, value, old));
    }
  });
  return next;
}

}  // namespace tile::cpu
