#include "core/passes/bind/bind_body.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "core/ir/scalar.h"

namespace tile {
namespace {

enum class Strength : uint8_t { weak_integer, weak_real, strong };

// What is known of a symbolic node. A strong value's type is its element type, which may be
// narrower than the type that it is computed in.
struct Kind {
  Strength strength = Strength::strong;
  DType type = DType::none;        // strong only
  std::optional<Scalar> constant;  // weak and free of indices: i64 or f64
};

DType held_type(DType type) { return type == DType::bool_ ? type : compute_type(type); }
bool is_narrow_integer(DType type) { return is_integer(type) && bit_width(type) < 32; }

std::string quoted(Op op) { return "`" + std::string(info(op).spelling) + "`"; }

class BodyTyper {
 public:
  BodyTyper(const Body& body, const BodyTyping& typing)
      : from_(body), typing_(typing), kinds_(body.nodes.size()), held_(body.nodes.size()) {}

  TypedBody run(const std::function<DType(DType)>& result_type) {
    for (NodeId n : from_.nodes.ids()) {
      kinds_[n] = infer(from_.nodes[n]);
      held_[n] = emit(n);
    }
    NodeId root = from_.results.at(0);
    const Kind& kind = kinds_[root];
    DType value = kind.strength == Strength::strong         ? kind.type
                  : kind.strength == Strength::weak_integer ? DType::i64
                                                            : DType::f32;
    DType wanted = result_type(value);
    body_.results = {final_value(root, value, wanted)};
    return {tidied(body_), value};
  }

 private:
  // Inference.
  static Kind strong(DType type) { return {Strength::strong, type, std::nullopt}; }

  Kind infer(const Node& node) {
    bool typed = node.type != DType::none;
    switch (node.kind) {
      case NodeKind::integer:
        if (typed) return strong(node.type);
        return {Strength::weak_integer, DType::none, Scalar{DType::i64, node.integer, 0}};
      case NodeKind::real:
        if (typed) return strong(node.type);
        return {Strength::weak_real, DType::none, Scalar{DType::f64, 0, node.real}};
      case NodeKind::size:
        return {Strength::weak_integer, DType::none,
                Scalar{DType::i64, typing_.size(node.expr, node.span), 0}};
      case NodeKind::index:
        return {Strength::weak_integer, DType::none, std::nullopt};
      case NodeKind::load:
        return strong(typing_.load_types.at(node.slot));
      case NodeKind::operation:
        return infer_operation(node);
      default:
        break;
    }
    throw InternalError("bind: a fold in a body without types");
  }

  Kind infer_operation(const Node& node) {
    Kind kind = kind_of_result(node);
    if (kind.strength != Strength::strong) kind.constant = fold(node, kind.strength);
    return kind;
  }

  Kind kind_of_result(const Node& node) {
    switch (info(node.op).rule) {
      case TypeRule::arithmetic:
        return node.op == Op::max || node.op == Op::min ? extreme(promoted(node, 0))
                                                        : acting_as_number(promoted(node, 0));
      case TypeRule::integral:
        return acting_as_number(integers_only(node));
      case TypeRule::comparison:
        promoted(node, 0);
        return strong(DType::bool_);
      case TypeRule::logical:
      case TypeRule::predicate:
        return strong(DType::bool_);
      case TypeRule::selection:
        return promoted(node, 1);
      case TypeRule::casting:
        return strong(node.type);
      case TypeRule::casting_like:
        return strong(default_type(kinds_[node.args[1]]));
      case TypeRule::floating:
        return as_float(promoted(node, 0));
      case TypeRule::rounding:
      case TypeRule::identity:
        return {kinds_[node.args[0]].strength, kinds_[node.args[0]].type, std::nullopt};
      case TypeRule::random:
        return strong(DType::f32);
      case TypeRule::packed:
        break;
    }
    throw InternalError("bind: an operation that programs do not have");
  }

  static Kind acting_as_number(Kind kind) {
    kind.type = arithmetic_type(kind.type);
    return kind;
  }
  // One of the operands.
  static Kind extreme(Kind kind) { return is_f8(kind.type) ? kind : acting_as_number(kind); }
  static Kind as_float(Kind kind) {
    bool narrow = !is_float(kind.type) || is_f8(kind.type);
    if (kind.strength == Strength::strong && narrow) kind.type = DType::f32;
    if (kind.strength == Strength::weak_integer) kind.strength = Strength::weak_real;
    return kind;
  }

  Kind integers_only(const Node& node) {
    Kind kind = promoted(node, 0);
    bool real = kind.strength == Strength::weak_real ||
                (kind.strength == Strength::strong && is_float(kind.type));
    if (real) {
      fail(Stage::bind, "type", node.span,
           quoted(node.op) + " needs integers, but its operands are " +
               (kind.strength == Strength::strong ? std::string(to_string(kind.type))
                                                  : "floating-point numbers"),
           node.op == Op::bit_xor
               ? "`^` is the exclusive or of integers; a power is pow(A, 2.0), a square square(A)"
               : "cast with as_int or as_uint");
    }
    return kind;
  }

  // The common kind of the operands from `first` on (rules 5.2, 5.3).
  Kind promoted(const Node& node, size_t first) {
    Kind kind = kinds_[node.args.at(first)];
    for (size_t a = first + 1; a < node.args.size(); ++a) {
      kind = common(kind, kinds_[node.args[a]], node);
    }
    kind.constant.reset();
    return kind;
  }

  static Kind common(const Kind& a, const Kind& b, const Node& node) {
    if (a.strength == Strength::strong && b.strength == Strength::strong) {
      std::optional<DType> type = promote(a.type, b.type);
      if (type) return strong(*type);
      fail(Stage::bind, "type", node.span,
           "the operands of " + quoted(node.op) + " are " + std::string(to_string(a.type)) +
               " and " + std::string(to_string(b.type)) + ", and no integer type holds both",
           "cast one of them, for example as_int(x, 64)");
    }
    if (a.strength == Strength::strong || b.strength == Strength::strong) {
      const Kind& s = a.strength == Strength::strong ? a : b;
      const Kind& weak = a.strength == Strength::strong ? b : a;
      return weak.strength == Strength::weak_real && !is_float(s.type) ? strong(DType::f32)
                                                                       : strong(s.type);
    }
    return {std::max(a.strength, b.strength), DType::none, std::nullopt};
  }

  // Weak constants are computed at once, in 64 bits.
  std::optional<Scalar> fold(const Node& node, Strength strength) const {
    DType type = strength == Strength::weak_integer ? DType::i64 : DType::f64;
    std::vector<Scalar> args;
    for (NodeId arg : node.args) {
      const std::optional<Scalar>& value = kinds_[arg].constant;
      if (!value) return std::nullopt;
      args.push_back(convert(*value, type));
    }
    return evaluate(node.op, type, args);
  }

  // Emission. held_ is the typed node of a strong value or of a weak integer one; weak reals are
  // emitted once for each float type that asks for them.
  NodeId emit(NodeId n) {
    const Node& node = from_[n];
    const Kind& kind = kinds_[n];
    if (kind.strength == Strength::weak_real || kind.constant) return NodeId();
    switch (node.kind) {
      case NodeKind::integer:
        return body_.integer(node.integer, node.type, node.span);
      case NodeKind::real:
        return body_.real(node.real, node.type, node.span);
      case NodeKind::index:
        return body_.index(node.slot, DType::i64, node.span);
      case NodeKind::load:
        return body_.load(node.slot, kind.type, node.span, index_values(node));
      default:
        break;
    }
    if (kind.strength == Strength::weak_integer) return emit_weak(node, DType::i64);
    return emit_strong(node, kind.type);
  }

  std::vector<NodeId> index_values(const Node& load) {
    std::vector<NodeId> values;
    for (NodeId arg : load.args) values.push_back(as(arg, default_type(kinds_[arg])));
    return values;
  }

  // An operation whose operands are weak, in `type`: i64 or a float.
  NodeId emit_weak(const Node& node, DType type) {
    bool same = info(node.op).rule == TypeRule::identity ||
                (info(node.op).rule == TypeRule::rounding && !is_float(type));
    if (same) return as(node.args[0], type);
    bool selects = info(node.op).rule == TypeRule::selection;
    std::vector<NodeId> args;
    for (size_t a = 0; a < node.args.size(); ++a) {
      args.push_back(as(node.args[a], selects && a == 0 ? DType::bool_ : type));
    }
    return body_.operation(node.op, std::move(args), type, node.span);
  }

  NodeId emit_strong(const Node& node, DType type) {
    switch (info(node.op).rule) {
      case TypeRule::casting:
      case TypeRule::casting_like:
        return emit_cast(node, type);
      case TypeRule::rounding:
        if (is_float(type)) break;
        return held_[node.args[0]];
      case TypeRule::identity:
        return held_[node.args[0]];
      case TypeRule::selection:
        if (const std::optional<Scalar>& condition = kinds_[node.args[0]].constant) {
          return as(node.args[is_true(*condition) ? 1 : 2], type);
        }
        break;
      default:
        break;
    }
    std::vector<NodeId> args;
    for (size_t a = 0; a < node.args.size(); ++a) {
      args.push_back(as(node.args[a], operand_type(node, a, type)));
    }
    if (node.op == Op::uniform) return add_uniform(body_, args[0], args[1]);
    NodeId result = body_.operation(node.op, std::move(args), held_type(type), node.span);
    bool keeps_range = node.op == Op::select || node.op == Op::max || node.op == Op::min;
    if (typing_.wraps_narrow && is_narrow_integer(type) && !keeps_range) {
      return body_.cast(result, type, node.span);
    }
    return result;
  }

  DType operand_type(const Node& node, size_t a, DType result) {
    switch (info(node.op).rule) {
      case TypeRule::logical:
        return DType::bool_;
      case TypeRule::selection:
        return a == 0 ? DType::bool_ : result;
      case TypeRule::random:
        return DType::i64;
      case TypeRule::comparison:
        return default_type(acting_as_number(promoted(node, 0)));
      case TypeRule::predicate:
        return default_type(acting_as_number(kinds_[node.args[a]]));
      default:
        return result;
    }
  }

  static DType default_type(const Kind& kind) {
    if (kind.strength == Strength::strong) return kind.type;
    return kind.strength == Strength::weak_integer ? DType::i64 : DType::f32;
  }

  NodeId emit_cast(const Node& node, DType type) {
    NodeId arg = node.args[0];
    const Kind& kind = kinds_[arg];
    if (kind.strength == Strength::strong) return body_.cast(held_[arg], type, node.span);
    if (kind.constant) return literal(convert(*kind.constant, type), node.span);
    NodeId value = as(arg, is_float(type) ? type : default_type(kind));
    return body_.cast(value, type, node.span);
  }

  NodeId literal(const Scalar& value, Span span) {
    if (is_float(value.type)) return body_.real(value.f, value.type, span);
    return body_.integer(value.i, value.type, span);
  }

  // The value of `n`, taken as an element of `type`, in the type that such elements are computed
  // in.
  NodeId as(NodeId n, DType type) {
    const Kind& kind = kinds_[n];
    DType computed = held_type(type);
    Span span = from_[n].span;
    if (kind.constant) {
      Scalar value = is_float(type) ? *kind.constant : convert(*kind.constant, type);
      return literal(convert(value, computed), span);
    }
    if (kind.strength == Strength::weak_real) {
      DType real = is_float(type) ? computed : DType::f32;
      return body_.cast(weak_real(n, real), computed, span);
    }
    NodeId value = held_[n];
    bool wraps = kind.strength == Strength::weak_integer && is_narrow_integer(type);
    if (wraps) value = body_.cast(value, type, span);
    return body_.cast(value, computed, span);
  }

  // Nodes come in order, so every earlier weak real has been emitted for the type before `n`.
  NodeId weak_real(NodeId n, DType type) {
    IdVector<NodeId, NodeId>& nodes = weak_reals_[type];
    nodes.resize(from_.nodes.size());
    if (nodes[n].valid()) return nodes[n];
    for (size_t i = 0; i <= n.index(); ++i) {
      const Kind& kind = kinds_[i];
      bool needed = kind.strength == Strength::weak_real && !kind.constant && !nodes[i].valid();
      if (needed) nodes[i] = emit_weak(from_.nodes[i], type);
    }
    return nodes[n];
  }

  NodeId final_value(NodeId root, DType value, DType wanted) {
    const Kind& kind = kinds_[root];
    if (kind.strength != Strength::strong) return body_.cast(as(root, value), wanted);
    NodeId id = held_[root];
    // The store of an elementwise statement wraps to the tensor's type, so a last wrap to it is
    // left out.
    const Node& node = body_[id];
    bool wrap = typing_.wraps_narrow && node.kind == NodeKind::operation && node.op == Op::cast &&
                node.type == value && is_narrow_integer(value) &&
                body_[node.args[0]].type == wanted;
    return wrap ? node.args[0] : body_.cast(id, wanted);
  }

  const Body& from_;
  const BodyTyping& typing_;
  IdVector<NodeId, Kind> kinds_;
  IdVector<NodeId, NodeId> held_;
  std::map<DType, IdVector<NodeId, NodeId>> weak_reals_;
  Body body_;
};

// The finaliser S of uniform_bits.
NodeId scrambled(Body& body, NodeId z) {
  auto fold = [&](NodeId x, int64_t shift) {
    NodeId high = body.operation(Op::shr, {x, body.integer(shift, DType::u64)}, DType::u64);
    return body.operation(Op::bit_xor, {x, high}, DType::u64);
  };
  auto times = [&](NodeId x, uint64_t factor) {
    NodeId constant = body.integer(static_cast<int64_t>(factor), DType::u64);
    return body.operation(Op::mul, {x, constant}, DType::u64);
  };
  z = times(fold(z, 30), 0xBF58476D1CE4E5B9u);
  z = times(fold(z, 27), 0x94D049BB133111EBu);
  return fold(z, 31);
}

}  // namespace

NodeId add_uniform(Body& body, NodeId seed, NodeId counter) {
  auto add = [&](NodeId a, NodeId b) { return body.operation(Op::add, {a, b}, DType::u64); };
  NodeId step = body.integer(static_cast<int64_t>(0x9E3779B97F4A7C15u), DType::u64);
  NodeId first = scrambled(body, add(body.cast(seed, DType::u64), step));
  NodeId second = scrambled(body, add(first, step));
  NodeId position = body.operation(Op::mul, {body.cast(counter, DType::u64), step}, DType::u64);
  NodeId bits = scrambled(body, add(scrambled(body, add(position, first)), second));
  NodeId top = body.operation(Op::shr, {bits, body.integer(40, DType::u64)}, DType::u64);
  // 24 bits fit i32, whose conversion is cheaper than that of u64.
  NodeId real = body.cast(body.cast(top, DType::i32), DType::f32);
  return body.operation(Op::mul, {real, body.real(0x1p-24, DType::f32)}, DType::f32);
}

TypedBody type_body(const Body& body, const BodyTyping& typing,
                    const std::function<DType(DType)>& result_type) {
  return BodyTyper(body, typing).run(result_type);
}

}  // namespace tile
