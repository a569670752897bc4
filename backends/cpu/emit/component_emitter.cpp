#include "backends/cpu/emit/component_emitter.h"

#include <algorithm>

#include "backends/cpu/values/operation.h"
#include "backends/cpu/values/types.h"

namespace tile::cpu {
namespace {

constexpr int kMostBits = 16;

bool is_narrow(DType type) {
  return type == DType::bool_ || (is_integer(type) && bit_width(type) <= kMostBits);
}

llvm::Value* replicated(llvm::IRBuilderBase& ir, llvm::Value* value, unsigned count,
                        unsigned width) {
  if (!value->getType()->isVectorTy()) return ir.CreateVectorSplat(count * width, value);
  llvm::SmallVector<int> picks;
  for (unsigned i = 0; i < count * width; ++i) picks.push_back(static_cast<int>(i / count));
  return ir.CreateShuffleVector(value, picks);
}

}  // namespace

bool same_pixel(const nest::Access& a, const nest::Access& b) {
  if (a.buffer != b.buffer || a.index.empty() || !a.values.empty() || !b.values.empty()) {
    return false;
  }
  return std::equal(a.index.begin(), a.index.end() - 1, b.index.begin(), b.index.end() - 1);
}

const nest::Access& ComponentEmitter::Components::access(size_t c, NodeId id) const {
  return stores[c]->loads[body(c)[id].slot];
}

// Whether the loads read the pixel's components in order.
bool ComponentEmitter::reads_components(const Components& all, const std::vector<NodeId>& ids) {
  const nest::Access& first = all.access(0, ids[0]);
  for (size_t c = 0; c < ids.size(); ++c) {
    const nest::Access& a = all.access(c, ids[c]);
    if (!same_pixel(first, a) || !a.index.back().is_constant(static_cast<int64_t>(c))) return false;
  }
  unsigned component = 0;
  unsigned count = c_.memory.group_size(c_.memory.resolve(first, {}, c_.lanes), component);
  return count == ids.size() && component == 0;
}

// Whether one operation on all components does what each store does on its own; `ids` has a node
// of each store's body.
bool ComponentEmitter::packs(const Components& all, const std::vector<NodeId>& ids,
                             std::set<std::vector<NodeId>>& known) {
  if (!known.insert(ids).second) return true;
  const Node& first = all.body(0)[ids[0]];
  if (!is_narrow(first.type)) return false;
  for (size_t c = 1; c < ids.size(); ++c) {
    const Node& n = all.body(c)[ids[c]];
    bool alike = n.kind == first.kind && n.op == first.op && n.type == first.type &&
                 n.args.size() == first.args.size();
    if (!alike) return false;
  }
  if (first.kind == NodeKind::integer) return true;
  if (first.kind == NodeKind::load) {
    auto same = [&](size_t c) {
      const nest::Access &a = all.access(0, ids[0]), &b = all.access(c, ids[c]);
      return a.buffer == b.buffer && a.index == b.index;
    };
    bool one = true;
    for (size_t c = 1; c < ids.size(); ++c) one = one && same(c);
    return first.args.empty() && (one || reads_components(all, ids));
  }
  if (first.kind != NodeKind::operation || info(first.op).rule == TypeRule::packed) return false;
  for (size_t a = 0; a < first.args.size(); ++a) {
    if (!packs(all, all.arguments(ids, a), known)) return false;
  }
  return true;
}

std::vector<NodeId> ComponentEmitter::Components::arguments(const std::vector<NodeId>& ids,
                                                            size_t which) const {
  std::vector<NodeId> list;
  for (size_t c = 0; c < ids.size(); ++c) list.push_back(body(c)[ids[c]].args[which]);
  return list;
}

// Element l * count + c is component c of lane l.
llvm::Value* ComponentEmitter::packed(Components& all, const std::vector<NodeId>& ids) {
  if (auto known = all.values.find(ids); known != all.values.end()) return known->second;
  const Node& first = all.body(0)[ids[0]];
  auto count = static_cast<unsigned>(ids.size());
  llvm::Value* value = nullptr;
  if (first.kind == NodeKind::integer) {
    llvm::SmallVector<llvm::Constant*> elements;
    for (unsigned i = 0; i < count * c_.lanes.width; ++i) {
      const Node& n = all.body(i % count)[ids[i % count]];
      elements.push_back(llvm::cast<llvm::Constant>(bodies_.literal(n)));
    }
    value = llvm::ConstantVector::get(elements);
  } else if (first.kind == NodeKind::load) {
    Reference r = c_.memory.resolve(all.access(0, ids[0]), {}, c_.lanes);
    value = reads_components(all, ids)
                ? c_.memory.load_pixels(r, count, c_.lanes)
                : replicated(c_.ir, c_.memory.load(r, c_.lanes), count, c_.lanes.width);
  } else {
    std::vector<Operand> operands;
    Key key{'p', static_cast<uint64_t>(first.op), static_cast<uint64_t>(first.type)};
    for (size_t a = 0; a < first.args.size(); ++a) {
      DType type = all.body(0)[first.args[a]].type;
      operands.push_back({packed(all, all.arguments(ids, a)), type});
      key.push_back(key_of(operands.back().value));
      key.push_back(static_cast<uint64_t>(type));
    }
    value = c_.scopes.once(
        key, [&] { return emit_operation(c_.ir, first.op, first.type, operands, c_.half); });
  }
  return all.values[ids] = value;
}

// The components of one pixel for each lane, as they lie in memory; null: not computed alike.
llvm::Value* ComponentEmitter::packed_pixels(const std::vector<const nest::Store*>& stores) {
  Components all{stores, {}};
  std::vector<NodeId> roots;
  for (size_t c = 0; c < stores.size(); ++c) roots.push_back(all.body(c).results[0]);
  std::set<std::vector<NodeId>> known;
  return packs(all, roots, known) ? packed(all, roots) : nullptr;
}

}  // namespace tile::cpu
