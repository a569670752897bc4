#include "backends/cpu/emit/body_emitter.h"

#include "backends/cpu/emit/fold_emitter.h"
#include "backends/cpu/values/convert.h"
#include "backends/cpu/values/operation.h"
#include "backends/cpu/values/types.h"
#include "core/ir/scalar.h"
#include "core/support/diagnostic.h"

namespace tile::cpu {
namespace {

llvm::Constant* float_literal(llvm::LLVMContext& context, double value, DType type) {
  llvm::Type* as = register_type(context, type);
  if (type == DType::f32 || type == DType::f64) return llvm::ConstantFP::get(as, value);
  uint16_t bits = 0;
  store_element(reinterpret_cast<std::byte*>(&bits), real_scalar(value, type));
  return llvm::ConstantInt::get(as, bits);
}

}  // namespace

NodeValues BodyEmitter::values(const Body& body, const std::vector<nest::Access>& loads,
                               const std::vector<NodeId>& roots) {
  BodyValues all{body, loads, {}};
  emit(all, roots);
  return std::move(all.nodes);
}

void BodyEmitter::emit(BodyValues& values, const std::vector<NodeId>& roots) {
  const Body& body = values.body;
  IdVector<NodeId, bool> needed(body.nodes.size());
  auto need = [&](NodeId id) {
    if (id.valid()) needed[id] = true;
  };
  for (NodeId id : body.results) need(id);
  for (NodeId id : roots) need(id);
  for (size_t i = body.nodes.size(); i-- > 0;) {
    if (!needed[i]) continue;
    for (NodeId id : body.nodes[i].args) need(id);
  }
  values.nodes.assign(body.nodes.size(), nullptr);
  values.ranges = ranges_of(body);
  for (NodeId id : needed.ids()) {
    if (!needed[id]) continue;
    c_.lines.within(nest::place_of(body, body[id]),
                    [&] { values.nodes[id] = node_value(values, id); });
  }
}

llvm::Value* BodyEmitter::node_value(BodyValues& values, NodeId id) {
  const Node& node = values.body[id];
  switch (node.kind) {
    case NodeKind::integer:
    case NodeKind::real:
      return literal(node);
    case NodeKind::size:
      return size_value(node.expr, node.type);
    case NodeKind::load:
      return loaded(values, node);
    case NodeKind::operation:
      if (llvm::Value* quotient = small_quotient(values, node)) return quotient;
      return operation(values.body, node, values.nodes);
    case NodeKind::fold:
      values.folds[id] = folds_->fold(values, node);
      return nullptr;
    case NodeKind::component:
      return values.folds.at(node.args[0])[node.slot];
    case NodeKind::argument:
      if (node.slot == 0) return size_value(Expr::variable(*values.counter), node.type);
      return values.arguments[node.slot];
    case NodeKind::index:
      break;
  }
  throw InternalError("cpu: an index node in a nest");
}

llvm::Value* BodyEmitter::size_value(const Expr& e, DType type) {
  llvm::Value* value = c_.indices.value(c_.indices.form(e), c_.lanes.width);
  return c_.scopes.once({key_of(value), static_cast<uint64_t>(type), 'c'},
                        [&] { return emit_convert(c_.ir, value, DType::i64, type, c_.half); });
}

llvm::Value* BodyEmitter::loaded(const BodyValues& values, const Node& node) {
  const nest::Access& access = values.loads[node.slot];
  const nest::Buffer& buffer = c_.buffer(access.buffer);
  if (access.index.empty() && buffer.scope == nest::Scope::argument && !buffer.written) {
    llvm::Value* scalar =
        c_.scopes.once_at(0, {static_cast<uint64_t>(access.buffer.number()), 'u'},
                          [&] { return c_.memory.load(c_.memory.resolve(access, {}, {}), {}); });
    c_.settled.insert(scalar);
    return scalar;
  }
  std::vector<Operand> indices;
  for (NodeId id : node.args) {
    indices.push_back({values.nodes[id], values.body[id].type});
  }
  Reference r = c_.memory.resolve(access, indices, c_.lanes);
  if (llvm::Value* running = running_.running_value(r)) return running;
  return c_.memory.load(r, c_.lanes);
}

llvm::Value* BodyEmitter::literal(const Node& node) {
  bool real = node.kind == NodeKind::real;
  llvm::LLVMContext& context = c_.function.getContext();
  if (is_float(node.type)) {
    double value = real ? node.real : static_cast<double>(node.integer);
    return float_literal(context, value, node.type);
  }
  if (real) {
    llvm::Value* value = llvm::ConstantFP::get(c_.ir.getDoubleTy(), node.real);
    return emit_convert(c_.ir, value, DType::f64, node.type, c_.half);
  }
  bool truth = node.type == DType::bool_;
  int64_t value = truth ? static_cast<int64_t>(node.integer != 0) : node.integer;
  return llvm::ConstantInt::get(register_type(context, node.type), static_cast<uint64_t>(value));
}

llvm::Value* BodyEmitter::operation(const Body& body, const Node& node, const NodeValues& nodes) {
  std::vector<Operand> operands;
  bool lanes = false, settled = true;
  for (NodeId id : node.args) {
    operands.push_back({nodes[id], body[id].type});
    llvm::Value* value = operands.back().value;
    lanes = lanes || value->getType()->isVectorTy();
    settled = settled && c_.is_settled(value);
  }
  Key key{'o', static_cast<uint64_t>(node.op), static_cast<uint64_t>(node.type)};
  for (Operand& x : operands) {
    if (lanes) x.value = c_.splat(x.value);
    key.push_back(key_of(x.value));
    key.push_back(static_cast<uint64_t>(x.type));
  }
  llvm::Value* result = c_.scopes.once_at(settled ? 0 : c_.scopes.current(), key, [&] {
    if (info(node.op).rule == TypeRule::packed)
      return emit_packed(c_.ir, node.op, operands, c_.dots);
    return emit_operation(c_.ir, node.op, node.type, operands, c_.half);
  });
  if (settled) c_.settled.insert(result);
  return result;
}

}  // namespace tile::cpu
