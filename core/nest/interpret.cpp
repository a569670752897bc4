// Runs a nest one iteration after another, checking every index. Names are resolved to slots once,
// so that thousands of test programs run in seconds.
#include <algorithm>
#include <map>
#include <memory>

#include "core/nest/nest.h"

namespace tile::nest {
namespace {

// An expression over numbered variables: the linear part directly, anything else by the tree.
struct SlotExpr {
  bool linear = false;
  std::vector<std::pair<size_t, int64_t>> terms;
  int64_t constant = 0;
  Expr general;
};

class Machine {
 public:
  Machine(const Nest& nest, const std::vector<HostTensor*>& arguments,
          const std::vector<int64_t>& parameters)
      : nest_(nest) {
    internal_check(arguments.size() == nest.argument_count(), "nest: number of arguments");
    internal_check(parameters.size() == nest.parameters.size(), "nest: number of parameters");
    for (size_t i = 0; i < nest.buffers.size(); ++i) {
      if (i < arguments.size()) {
        internal_check(arguments[i]->count() == element_count(nest.buffers[i].shape),
                       "nest: an argument's number of elements");
        internal_check(arguments[i]->type == nest.buffers[i].type, "nest: an argument's type");
        memory_.push_back(arguments[i]);
      } else {
        memory_.push_back(nullptr);
      }
    }
    own_.resize(nest.buffers.size());
    for (size_t i = 0; i < parameters.size(); ++i) {
      values_[slot(nest.parameters[i].name)] = parameters[i];
    }
  }

  void run() { block(nest_.body); }
  NestCounts counts;

 private:
  size_t slot(const std::string& name) {
    auto [it, added] = slots_.try_emplace(name, slots_.size());
    if (added) values_.push_back(0);
    return it->second;
  }

  const SlotExpr& resolved(const Expr& e) {
    auto [it, added] = expressions_.try_emplace(e.node());
    SlotExpr& s = it->second;
    if (!added) return s;
    s.general = e;
    if (std::optional<LinearForm> form = linear_form(e)) {
      s.linear = true;
      s.constant = form->constant;
      for (const auto& [name, factor] : form->terms) s.terms.emplace_back(slot(name), factor);
    }
    return s;
  }

  int64_t value(const Expr& e) {
    const SlotExpr& s = resolved(e);
    if (s.linear) {
      int64_t sum = s.constant;
      for (auto [at, factor] : s.terms) sum += factor * values_[at];
      return sum;
    }
    std::optional<int64_t> v = evaluate(s.general, [&](std::string_view name) {
      auto it = slots_.find(std::string(name));
      return it == slots_.end() ? std::nullopt : std::optional<int64_t>(values_[it->second]);
    });
    internal_check(v.has_value(), "nest: an expression without a value");
    return *v;
  }

  int64_t offset(const Access& a, const std::vector<Scalar>& nodes) {
    const Buffer& b = nest_.buffers[static_cast<size_t>(a.buffer)];
    int64_t flat = 0;
    for (size_t d = 0; d < a.index.size(); ++d) {
      NodeId by_value = d < a.values.size() ? a.values[d] : -1;
      int64_t i = by_value >= 0 ? nodes[static_cast<size_t>(by_value)].i : value(a.index[d]);
      if (i < 0 || i >= b.shape[d]) {
        throw InternalError("nest " + nest_.name + ": index " + std::to_string(i) + " of " +
                            b.name + " dimension " + std::to_string(d) + " is outside [0, " +
                            std::to_string(b.shape[d]) + ")");
      }
      flat = flat * b.shape[d] + i;
    }
    return flat;
  }
  HostTensor& memory(int buffer) {
    HostTensor* t = memory_[static_cast<size_t>(buffer)];
    internal_check(t != nullptr, "nest: a buffer used before its alloc");
    return *t;
  }

  Scalar node_value(const Node& node, const std::vector<Access>& loads,
                    const std::vector<Scalar>& nodes) {
    switch (node.kind) {
      case NodeKind::integer:
        return integer_scalar(node.integer, node.type);
      case NodeKind::real:
        return real_scalar(node.real, node.type);
      case NodeKind::size:
        return integer_scalar(value(node.expr), node.type);
      case NodeKind::load: {
        const Access& a = loads[static_cast<size_t>(node.slot)];
        return memory(a.buffer).at(offset(a, nodes));
      }
      case NodeKind::index:
        throw InternalError("nest: an index node");
      case NodeKind::operation:
        break;
    }
    if (node.op == Op::cast) return convert(nodes[static_cast<size_t>(node.args[0])], node.type);
    Scalar operands[3];
    for (size_t i = 0; i < node.args.size(); ++i) {
      operands[i] = nodes[static_cast<size_t>(node.args[i])];
    }
    return evaluate(node.op, node.type, std::span(operands, node.args.size()));
  }
  std::vector<Scalar> body_values(const Body& body, const std::vector<Access>& loads) {
    std::vector<Scalar> nodes;
    nodes.reserve(body.nodes.size());
    for (const Node& node : body.nodes) nodes.push_back(node_value(node, loads, nodes));
    return nodes;
  }

  void block(const Block& statements) {
    for (const Statement& s : statements) {
      std::visit([&](const auto& what) { statement(what); }, s.what);
    }
  }
  void statement(const For& f) {
    int64_t begin = value(f.begin), extent = value(f.extent);
    internal_check(f.kind != LoopKind::vector || extent <= f.width, "nest: more than width lanes");
    size_t at = slot(f.variable);
    for (int64_t i = 0; i < extent; ++i) {
      values_[at] = begin + i;
      block(f.body);
    }
  }
  void statement(const If& i) {
    ++counts.guards;
    bool holds = std::all_of(i.nonnegative.begin(), i.nonnegative.end(),
                             [&](const Expr& e) { return value(e) >= 0; });
    if (holds && !i.predicate.results.empty()) {
      std::vector<Scalar> nodes = body_values(i.predicate, i.loads);
      holds = is_true(nodes[static_cast<size_t>(i.predicate.results[0])]);
    }
    block(holds ? i.then : i.otherwise);
  }
  void statement(const Store& s) {
    std::vector<Scalar> nodes = body_values(s.body, s.loads);
    HostTensor& target = memory(s.target.buffer);
    int64_t at = offset(s.target, nodes);
    Scalar result = nodes[static_cast<size_t>(s.body.results[0])];
    ++counts.stores;
    if (s.kind == StoreKind::fma) {
      Scalar operands[3] = {result, nodes[static_cast<size_t>(s.body.results[1])], target.at(at)};
      result = evaluate(Op::fma, target.type, operands);
      ++counts.multiply_adds;
    } else if (s.kind != StoreKind::assign) {
      result = combine(s.kind, target.at(at), result);
      const Node& root = s.body[s.body.results[0]];
      bool product = root.kind == NodeKind::operation && root.op == Op::mul;
      if (s.kind == StoreKind::add && product) ++counts.multiply_adds;
    }
    target.set(at, result);
  }
  // Narrow accumulators wrap as memory does: the operation runs in the compute type.
  static Scalar combine(StoreKind kind, const Scalar& old, const Scalar& value) {
    DType type = compute_type(old.type);
    Scalar operands[2] = {convert(old, type), convert(value, type)};
    Op op = kind == StoreKind::add        ? Op::add
            : kind == StoreKind::multiply ? Op::mul
            : kind == StoreKind::max      ? Op::max
                                          : Op::min;
    return convert(evaluate(op, type, operands), old.type);
  }
  void statement(const Alloc& a) {
    auto i = static_cast<size_t>(a.buffer);
    const Buffer& b = nest_.buffers[i];
    if (!own_[i]) own_[i] = std::make_unique<HostTensor>(b.type, b.shape);
    // Whatever was there is gone: reading it before a store shows as nonsense.
    std::fill(own_[i]->bytes.begin(), own_[i]->bytes.end(), std::byte{0x7f});
    memory_[i] = own_[i].get();
  }

  const Nest& nest_;
  std::map<std::string, size_t> slots_;
  std::vector<int64_t> values_;
  std::map<const ExprNode*, SlotExpr> expressions_;
  std::vector<HostTensor*> memory_;
  std::vector<std::unique_ptr<HostTensor>> own_;
};

}  // namespace

void interpret(const Nest& nest, const std::vector<HostTensor*>& arguments,
               const std::vector<int64_t>& parameters, NestCounts* counts) {
  Machine machine(nest, arguments, parameters);
  machine.run();
  if (counts != nullptr) *counts = machine.counts;
}

}  // namespace tile::nest
