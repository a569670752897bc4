#include "backends/cpu/emit/fold_emitter.h"

#include <algorithm>
#include <bit>

#include "backends/cpu/values/combine.h"
#include "backends/cpu/values/types.h"
#include "core/support/diagnostic.h"

namespace tile::cpu {

// A stand-in for a fold's counter where only the shape of expressions matters.
Form FoldEmitter::nominal_counter(const std::string& name) {
  auto [known, added] = counters_.try_emplace(name);
  if (added) known->second = c_.indices.variable(c_.ir.getInt64(0));
  return known->second;
}

void FoldEmitter::describe(const Body& region, const std::vector<nest::Access>& loads, Key& key,
                           std::set<nest::BufferId>& buffers) {
  key.push_back(region.nodes.size());
  for (const Node& n : region.nodes) {
    for (auto part :
         {static_cast<uint64_t>(n.kind), static_cast<uint64_t>(n.op), static_cast<uint64_t>(n.type),
          static_cast<uint64_t>(n.integer), std::bit_cast<uint64_t>(n.real)}) {
      key.push_back(part);
    }
    for (NodeId arg : n.args) key.push_back(arg.index());
    if (n.kind == NodeKind::size) append(key, c_.indices.form(n.expr));
    if (n.kind == NodeKind::load) {
      const nest::Access& a = loads[n.slot];
      buffers.insert(a.buffer);
      key.push_back(static_cast<uint64_t>(a.buffer.number()));
      for (const Expr& e : a.index) append(key, c_.indices.form(e));
      for (int v : a.values) key.push_back(static_cast<uint64_t>(v));
    } else {
      key.push_back(static_cast<uint64_t>(n.slot));
    }
    if (n.kind != NodeKind::fold) continue;
    c_.indices.bind(n.expr.name(), nominal_counter(n.expr.name()));
    describe(*n.region, loads, key, buffers);
    c_.indices.unbind(n.expr.name());
  }
  for (NodeId r : region.results) key.push_back(r.index());
}

// The same loop with the same operands is run once, however many statements need a result of it.
Nodes FoldEmitter::fold(const BodyValues& values, const Node& node) {
  Key key{'F',
          static_cast<uint64_t>(node.op),
          static_cast<uint64_t>(node.slot),
          c_.lanes.width,
          key_of(c_.lanes.mask),
          key_of(c_.lanes.any)};
  for (NodeId arg : node.args) key.push_back(key_of(values.nodes[arg]));
  std::set<nest::BufferId> buffers{nest::BufferId()};
  c_.indices.bind(node.expr.name(), nominal_counter(node.expr.name()));
  describe(*node.region, values.loads, key, buffers);
  c_.indices.unbind(node.expr.name());
  auto key_of_result = [&](size_t k) {
    Key part = key;
    part.push_back(static_cast<uint64_t>(k));
    return part;
  };
  Nodes results;
  for (size_t k = 0; k < node.slot; ++k) {
    Key part = key_of_result(k);
    llvm::Value* known = nullptr;
    bool all = std::all_of(buffers.begin(), buffers.end(), [&](nest::BufferId buffer) {
      known = c_.scopes.content(buffer, part);
      return known != nullptr;
    });
    if (!all) break;
    results.push_back(known);
  }
  if (results.size() == node.slot) return results;
  results = new_fold(values, node);
  for (size_t k = 0; k < node.slot; ++k) {
    for (nest::BufferId buffer : buffers) {
      c_.scopes.remember(buffer, key_of_result(k), results[k]);
    }
  }
  return results;
}

// A bound as a form: index expressions keep their strides.
Form FoldEmitter::bound_form(const BodyValues& values, NodeId id) {
  const Node& node = values.body[id];
  if (node.kind == NodeKind::size) return c_.indices.form(node.expr);
  if (node.kind == NodeKind::integer) return {{}, node.integer};
  return c_.indices.variable(values.nodes[id]);
}

// Whether the lanes' values differ, for each node of a region.
IdVector<NodeId, bool> FoldEmitter::varying_nodes(const Body& region,
                                                  const std::vector<nest::Access>& loads,
                                                  const std::vector<bool>& arguments) {
  IdVector<NodeId, bool> varies;
  std::map<NodeId, std::vector<bool>> folds;
  auto uses_lanes = [&](const Expr& e) { return c_.indices.uses_lanes(c_.indices.form(e)); };
  for (NodeId id : region.nodes.ids()) {
    const Node& n = region[id];
    auto at = [&](NodeId operand) { return static_cast<bool>(varies[operand]); };
    bool v = std::any_of(n.args.begin(), n.args.end(), at);
    if (n.kind == NodeKind::size) v = uses_lanes(n.expr);
    if (n.kind == NodeKind::argument) v = arguments[n.slot];
    if (n.kind == NodeKind::load) {
      const nest::Access& a = loads[n.slot];
      v = v || std::any_of(a.index.begin(), a.index.end(), uses_lanes);
    }
    if (n.kind == NodeKind::component) {
      v = folds.at(n.args[0])[n.slot];
    }
    if (n.kind == NodeKind::fold) {
      std::vector<bool> given(n.args.size() - 1);
      for (size_t a = 2; a < n.args.size(); ++a) given[a - 1] = at(n.args[a]);
      bool differ = at(n.args[0]) || at(n.args[1]);
      Form counter = differ ? c_.indices.lane(c_.lanes.width) : nominal_counter(n.expr.name());
      c_.indices.bind(n.expr.name(), counter);
      folds[id] = varying_carried(n, loads, std::move(given), differ);
      c_.indices.unbind(n.expr.name());
    }
    varies.push_back(v);
  }
  return varies;
}

// Which carried values differ by lane, the counter being bound; `given` tells it of the arguments
// at the start, `differ` whether lanes may drop out.
std::vector<bool> FoldEmitter::varying_carried(const Node& fold,
                                               const std::vector<nest::Access>& loads,
                                               std::vector<bool> given, bool differ) {
  size_t count = fold.slot;
  given[0] = c_.indices.uses_lanes(c_.indices.form(fold.expr));
  for (size_t k = 0; k < count; ++k) given[k + 1] = given[k + 1] || differ;
  for (bool changed = true; changed;) {
    changed = false;
    IdVector<NodeId, bool> inside = varying_nodes(*fold.region, loads, given);
    for (size_t k = 0; k < count; ++k) {
      if (!inside[fold.region->results[k]] || given[k + 1]) continue;
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

Nodes FoldEmitter::new_fold(const BodyValues& values, const Node& node) {
  FoldLoop loop;
  loop.begin = bound_form(values, node.args[0]);
  Form count = bound_form(values, node.args[1]) - loop.begin;
  Nodes starts;
  for (size_t i = 2; i < node.args.size(); ++i) {
    starts.push_back(values.nodes[node.args[i]]);
  }
  if (count.is_constant() && count.constant <= 0) {
    starts.resize(node.slot);
    return starts;
  }
  loop.certain = count.is_constant();
  loop.rounds = c_.indices.value(count, c_.lanes.width);
  if (c_.indices.uses_lanes(count)) {
    loop.counts = loop.rounds;
    llvm::Value* none = llvm::Constant::getNullValue(loop.counts->getType());
    llvm::Value* on = c_.lanes.mask == nullptr
                          ? loop.counts
                          : c_.ir.CreateSelect(c_.lanes.mask, loop.counts, none);
    loop.rounds = c_.ir.CreateIntMaxReduce(on, true);
  }
  return fold_loop(values, node, std::move(starts), loop);
}

// One function: the basic blocks of the rounds, and of the runs of rounds around them, name each
// other as predecessors and successors.
Nodes FoldEmitter::fold_loop(const BodyValues& values, const Node& node, Nodes starts,
                             const FoldLoop& loop) {
  llvm::LLVMContext& context = c_.function.getContext();
  size_t carried = node.slot;
  std::vector<bool> given{false};
  for (llvm::Value* start : starts) given.push_back(start->getType()->isVectorTy());
  const std::string& counter = node.expr.name();
  c_.indices.bind(counter, loop.begin + nominal_counter(counter));
  std::vector<bool> varies =
      varying_carried(node, values.loads, std::move(given), loop.counts != nullptr);
  c_.indices.unbind(counter);
  // Carried values that differ by lane are vectors from the start.
  for (size_t k = 0; k < carried; ++k) {
    if (varies[k]) starts[k] = c_.splat(starts[k]);
  }
  auto* after = llvm::BasicBlock::Create(context, "");
  llvm::BasicBlock* before = c_.ir.GetInsertBlock();
  int64_t run = questions_.run_of(&node);
  // With questions: the rounds in runs, with one question behind each but the last.
  Rounds runs = run > 0 ? begin_rounds() : Rounds{};
  Rounds rounds = begin_rounds();
  llvm::BasicBlock* first = run > 0 ? runs.block : rounds.block;
  llvm::Value *from = c_.ir.getInt64(0), *end = loop.rounds;
  if (run > 0) end = questions_.first_end(from, loop.rounds, run);
  llvm::Instruction* entry =
      loop.certain
          ? c_.ir.CreateBr(first)
          : c_.ir.CreateCondBr(c_.ir.CreateICmpSGT(loop.rounds, c_.ir.getInt64(0)), first, after);
  Nodes carried_in(starts.begin(), starts.begin() + node.slot);
  llvm::BasicBlock* outer = before;
  if (run > 0) {
    enter(runs, outer, from, carried_in);
    runs.end = c_.ir.CreatePHI(c_.ir.getInt64Ty(), 2);
    runs.end->addIncoming(end, before);
    end = runs.end;
    c_.ir.CreateBr(rounds.block);
    from = runs.number;
    carried_in.assign(runs.carried.begin(), runs.carried.end());
    outer = runs.block;
  }
  enter(rounds, outer, from, carried_in);
  Nodes arguments{nullptr};
  arguments.insert(arguments.end(), rounds.carried.begin(), rounds.carried.end());
  arguments.insert(arguments.end(), starts.begin() + node.slot, starts.end());
  c_.scopes.open(entry);
  c_.indices.bind(counter, loop.begin + c_.indices.variable(rounds.number));
  Nodes next = fold_round(values, node, rounds.number, arguments, loop);
  c_.indices.unbind(counter);
  c_.scopes.close();
  llvm::Value* done = c_.ir.CreateNSWAdd(rounds.number, c_.ir.getInt64(1));
  auto* behind = run > 0 ? llvm::BasicBlock::Create(context, "", &c_.function) : after;
  again(rounds, done, next);
  c_.ir.CreateCondBr(c_.ir.CreateICmpSLT(done, end), rounds.block, behind);
  llvm::BasicBlock* latch = rounds.latch;
  if (run > 0) {
    auto* more = llvm::BasicBlock::Create(context, "", &c_.function);
    auto* asked = llvm::BasicBlock::Create(context, "", &c_.function);
    c_.ir.SetInsertPoint(behind);
    latch = behind;
    c_.ir.CreateCondBr(c_.ir.CreateICmpSLT(end, loop.rounds), more, after);
    c_.ir.SetInsertPoint(more);
    questions_.ask(asked);
    c_.ir.SetInsertPoint(asked);
    again(runs, end, next);
    llvm::Value* length = c_.ir.getInt64(static_cast<uint64_t>(run));
    runs.end->addIncoming(c_.ir.CreateNSWAdd(end, length), asked);
    c_.ir.CreateBr(runs.block);
  }
  after->insertInto(&c_.function);
  c_.ir.SetInsertPoint(after);
  if (loop.certain) return next;
  for (size_t k = 0; k < carried; ++k) {
    llvm::PHINode* result = c_.ir.CreatePHI(starts[k]->getType(), 2);
    result->addIncoming(starts[k], before);
    result->addIncoming(next[k], latch);
    next[k] = result;
  }
  return next;
}

FoldEmitter::Rounds FoldEmitter::begin_rounds() {
  Rounds r;
  r.block = llvm::BasicBlock::Create(c_.function.getContext(), "", &c_.function);
  return r;
}

// From here on in the loop's block, which is entered from `before` with these values.
void FoldEmitter::enter(Rounds& r, llvm::BasicBlock* before, llvm::Value* number,
                        const Nodes& carried) {
  c_.ir.SetInsertPoint(r.block);
  r.number = c_.ir.CreatePHI(c_.ir.getInt64Ty(), 2);
  r.number->addIncoming(number, before);
  for (llvm::Value* value : carried) {
    r.carried.push_back(c_.ir.CreatePHI(value->getType(), 2));
    r.carried.back()->addIncoming(value, before);
  }
}

// What the loop goes on with from the present block.
void FoldEmitter::again(Rounds& r, llvm::Value* number, const Nodes& carried) {
  r.latch = c_.ir.GetInsertBlock();
  r.number->addIncoming(number, r.latch);
  for (size_t k = 0; k < carried.size(); ++k) r.carried[k]->addIncoming(carried[k], r.latch);
}

// One round: the carried values after it.
Nodes FoldEmitter::fold_round(const BodyValues& values, const Node& node, llvm::Value* round,
                              const Nodes& arguments, const FoldLoop& loop) {
  Nodes next;
  Lanes lanes = c_.lanes;
  llvm::Value* running = nullptr;
  if (loop.counts != nullptr) {
    running = c_.ir.CreateICmpSLT(c_.ir.CreateVectorSplat(c_.lanes.width, round), loop.counts);
    lanes = c_.masked(running);
  }
  c_.within(lanes, [&] {
    BodyValues inside{*node.region, values.loads, arguments, {}, {}, &node.expr.name()};
    bodies_.emit(inside, {});
    for (size_t k = 0; k < node.slot; ++k) {
      NodeId result = node.region->results[k];
      llvm::Value* old = arguments[k + 1];
      llvm::Value* value = inside.nodes[result];
      if (old->getType()->isVectorTy()) value = c_.splat(value);
      if (node.op != Op::ident) {
        DType type = (*node.region)[result].type;
        value = emit_combine(c_.ir, store_kind(node.op), type, old, value, nullptr, c_.half);
      }
      next.push_back(running == nullptr ? value : c_.ir.CreateSelect(running, value, old));
    }
  });
  return next;
}

}  // namespace tile::cpu
