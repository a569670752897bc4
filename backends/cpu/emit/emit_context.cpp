#include "backends/cpu/emit/emit_context.h"

#include <algorithm>

namespace tile::cpu {

EmitContext::EmitContext(llvm::Function& of, const nest::Nest& of_nest, const Plan& plan,
                         HalfConversion conversion, const DotInstructions& instructions,
                         ModuleLines* module_lines)
    : function(of),
      nest(of_nest),
      half(conversion),
      dots(instructions),
      ir(llvm::BasicBlock::Create(of.getContext(), "", &of)),
      lines(ir, module_lines),
      scopes(ir),
      indices(ir, scopes),
      memory(ir, scopes, indices, of_nest, plan) {}

// Whether the value is known in the whole function.
bool EmitContext::is_settled(llvm::Value* value) const {
  return llvm::isa<llvm::Constant>(value) || settled.contains(value);
}

// A settled scalar's vector is settled too: what is computed from it stands in the function's scope
// and needs its operands there.
llvm::Value* EmitContext::splat(llvm::Value* value) {
  if (lanes.width == 1 || value->getType()->isVectorTy()) return value;
  bool known = is_settled(value);
  llvm::Value* all = scopes.once_at(known ? 0 : scopes.current(), {key_of(value), lanes.width, 's'},
                                    [&] { return ir.CreateVectorSplat(lanes.width, value); });
  if (known) settled.insert(all);
  return all;
}

Lanes EmitContext::masked(llvm::Value* mask) {
  Lanes inner = lanes;
  inner.leading = 0;
  inner.mask = lanes.mask == nullptr ? mask
                                     : scopes.once({key_of(lanes.mask), key_of(mask), 'a'},
                                                   [&] { return ir.CreateAnd(lanes.mask, mask); });
  inner.any = scopes.once({key_of(inner.mask), 'y'}, [&] { return ir.CreateOrReduce(inner.mask); });
  return inner;
}

void EmitContext::within(const Lanes& some, const std::function<void()>& emit) {
  Lanes outer = lanes;
  lanes = some;
  emit();
  lanes = outer;
}

void EmitContext::conditional(llvm::Value* condition, const std::function<void()>& then,
                              const std::function<void()>& otherwise) {
  llvm::LLVMContext& context = function.getContext();
  auto* yes = llvm::BasicBlock::Create(context, "", &function);
  auto* no = otherwise ? llvm::BasicBlock::Create(context, "", &function) : nullptr;
  auto* after = llvm::BasicBlock::Create(context, "");
  llvm::Instruction* branch = ir.CreateCondBr(condition, yes, no != nullptr ? no : after);
  auto side = [&](llvm::BasicBlock* block, const std::function<void()>& emit) {
    ir.SetInsertPoint(block);
    scopes.open(branch);
    lines.inside(emit);
    scopes.close();
    ir.CreateBr(after);
  };
  side(yes, then);
  if (no != nullptr) side(no, otherwise);
  after->insertInto(&function);
  ir.SetInsertPoint(after);
}

bool EmitContext::is_place_known(const nest::Access& a) const {
  std::vector<std::string> variables;
  for (const Expr& e : a.index) collect_variables(e, variables);
  auto bound = [&](const std::string& name) { return indices.is_bound(name); };
  return a.values.empty() && std::all_of(variables.begin(), variables.end(), bound);
}

Form EmitContext::offset_of(const nest::Access& a) {
  const nest::Buffer& b = buffer(a.buffer);
  Form sum;
  for (size_t d = 0; d < a.index.size(); ++d) sum = sum + indices.form(a.index[d]) * b.strides[d];
  return sum;
}

// Elements that the access moves by when the variable, which is bound to `at`, grows by one; 0
// where that is not a number.
int64_t EmitContext::move_of(const nest::Access& a, const std::string& variable, const Form& at) {
  Form here = offset_of(a);
  indices.bind(variable, at + Form{{}, 1});
  Form move = offset_of(a) - here;
  indices.bind(variable, at);
  return move.is_constant() ? move.constant : 0;
}

}  // namespace tile::cpu
