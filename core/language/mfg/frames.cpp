#include "core/language/mfg/frames.h"

#include <algorithm>

namespace tile::mfg {
namespace {

constexpr uint8_t kMaxCopied = 8;  // nodes that are copied into a region instead of captured

Node literal_node(const Scalar& value) {
  Node node;
  node.kind = is_float(value.type) ? NodeKind::real : NodeKind::integer;
  node.type = value.type;
  node.integer = value.i;
  node.real = value.f;
  return node;
}

std::optional<Scalar> literal_value(const Node& node) {
  if (node.kind == NodeKind::integer) return Scalar{node.type, node.integer, 0};
  if (node.kind == NodeKind::real) return Scalar{node.type, 0, node.real};
  return std::nullopt;
}

bool is_zero(const Scalar& value) { return is_float(value.type) ? value.f == 0 : value.i == 0; }

}  // namespace

NodeId Frames::add_to(size_t frame, Node node) {
  if (++nodes_ > kMaxNodes) {
    fail(Stage::parse, "limit", span_,
         "the expression grows to more than " + std::to_string(kMaxNodes) + " operations",
         "functions, small loops and local tensors are written out for every use");
  }
  Frame& f = frames_[frame];
  bool leaf = node.kind == NodeKind::integer || node.kind == NodeKind::real ||
              node.kind == NodeKind::index || node.kind == NodeKind::size;
  bool index_arithmetic = node.kind == NodeKind::operation &&
                          (node.op == Op::add || node.op == Op::sub || node.op == Op::mul ||
                           node.op == Op::cast || node.op == Op::neg) &&
                          is_integer(node.type);
  size_t cost = leaf ? 1 : 0;
  if (index_arithmetic) {
    cost = 1;
    for (NodeId arg : node.args) {
      uint8_t part = f.cheap[arg];
      cost = part == 0 ? size_t{kMaxCopied} + 1 : cost + part;
    }
  }
  f.cheap.push_back(cost <= kMaxCopied ? static_cast<uint8_t>(cost) : uint8_t{0});
  if (node.span.end == 0) node.span = span_;
  return f.body.add(std::move(node));
}

NodeId Frames::use_in(size_t frame, Ref value) {
  if (value.frame == frame) return value.id;
  internal_check(value.frame < frame, "mfg: a value is used outside its loop");
  if (frames_[value.frame].cheap[value.id] > 0) {
    return copy_cheap(frame, value);
  }
  NodeId outer = use_in(frame - 1, value);
  Frame& f = frames_[frame];
  auto known = f.captured.find(outer);
  if (known != f.captured.end()) return known->second;
  Node argument;
  argument.kind = NodeKind::argument;
  argument.type = frames_[frame - 1].body[outer].type;
  argument.slot = -1;  // set when the loop is complete
  NodeId id = add_to(frame, std::move(argument));
  Frame& g = frames_[frame];
  g.captured.emplace(outer, id);
  g.captures.push_back(outer);
  return id;
}

NodeId Frames::copy_cheap(size_t frame, Ref value) {
  Node node = this->node(value);
  for (NodeId& arg : node.args) arg = copy_cheap(frame, {value.frame, arg});
  return add_to(frame, std::move(node));
}

Ref Frames::integer(int64_t value, DType type) {
  return add(literal_node(integer_scalar(value, type)));
}

Ref Frames::real(double value) { return add(literal_node(real_scalar(value, DType::f32))); }

Ref Frames::index(size_t slot) {
  Node node;
  node.kind = NodeKind::index;
  node.type = DType::i64;
  node.slot = slot;
  return cast(add(std::move(node)), DType::i32);
}

Ref Frames::size(const Expr& expr) {
  if (expr.is_constant()) return integer(expr.value());
  Node node;
  node.kind = NodeKind::size;
  node.type = DType::i32;
  node.expr = expr;
  return add(std::move(node));
}

std::optional<Scalar> Frames::constant(Ref value) const { return literal_value(node(value)); }

Ref Frames::operation(Op op, const std::vector<Ref>& args, DType type) {
  std::vector<Scalar> values;
  for (Ref arg : args) {
    if (std::optional<Scalar> value = constant(arg)) values.push_back(*value);
  }
  if (values.size() == args.size()) return add(literal_node(evaluate(op, type, values)));
  Node node;
  node.kind = NodeKind::operation;
  node.op = op;
  node.type = type;
  for (Ref arg : args) node.args.push_back(use(arg));
  return add(std::move(node));
}

Ref Frames::cast(Ref value, DType type) {
  return type_of(value) == type ? value : operation(Op::cast, {value}, type);
}

Ref Frames::condition(Ref value) {
  const Node& n = node(value);
  bool from_bool = n.kind == NodeKind::operation && n.op == Op::cast;
  if (from_bool) {
    Ref inner{value.frame, n.args[0]};
    if (type_of(inner) == DType::bool_) return inner;
  }
  Ref zero = is_float(n.type) ? real(0) : integer(0, n.type);
  return operation(Op::ne, {value, zero}, DType::bool_);
}

Ref Frames::truth(Ref condition) { return cast(condition, DType::i32); }

Ref Frames::select(Ref condition, Ref yes, Ref no) {
  if (std::optional<Scalar> known = constant(condition)) return is_zero(*known) ? no : yes;
  return operation(Op::select, {condition, yes, no}, type_of(yes));
}

Ref Frames::load(size_t slot, const std::vector<Ref>& indices, DType type) {
  const AccessKey& key = accesses_[slot];
  std::vector<int64_t> at;
  for (Ref index : indices) {
    if (std::optional<Scalar> value = constant(index)) at.push_back(value->i);
  }
  if (at.size() == indices.size() && literal) {
    if (std::optional<Scalar> value = literal(key.tensor, at)) return add(literal_node(*value));
  }
  Node node;
  node.kind = NodeKind::load;
  node.type = type;
  node.slot = slot;
  for (Ref index : indices) node.args.push_back(use(index));
  return add(std::move(node));
}

int Frames::access(const AccessKey& key) {
  for (size_t i = 0; i < accesses_.size(); ++i) {
    if (accesses_[i].tensor == key.tensor && accesses_[i].component == key.component) {
      return static_cast<int>(i);
    }
  }
  accesses_.push_back(key);
  return static_cast<int>(accesses_.size()) - 1;
}

void Frames::in_root(const std::function<void()>& build) {
  size_t inner = std::exchange(current_, size_t{0});
  build();
  current_ = inner;
}

Body Frames::finish(const std::vector<Ref>& results) {
  Body body = frames_[0].body;
  for (Ref r : results) body.results.push_back(use_in(0, r));
  return tidied(body);
}

// Arguments: the counter, the carried values, then what is captured.
void Frames::set_arguments(Frame& frame, size_t carried) {
  for (size_t i = 0; i < frame.captures.size(); ++i) {
    NodeId argument = frame.captured.at(frame.captures[i]);
    frame.body.nodes[argument].slot = 1 + carried + i;
  }
}

std::vector<Ref> Frames::fold(Op op, Ref begin, Ref end, const std::vector<Ref>& starts,
                              const Region& region) {
  internal_check(current_ + 1 == frames_.size(), "mfg: a loop below another");
  std::optional<Scalar> first = constant(begin), last = constant(end);
  // The bounds belong to the enclosing frame.
  Ref from{current_, use(begin)}, to{current_, use(end)};
  std::vector<Ref> outer;
  for (Ref start : starts) outer.push_back({current_, use(start)});

  frames_.emplace_back();
  ++current_;
  Node counter;
  counter.kind = NodeKind::argument;
  counter.type = DType::i64;
  counter.slot = 0;
  Ref position = cast(add(std::move(counter)), DType::i32);
  std::vector<Ref> carried;
  for (size_t i = 0; i < starts.size(); ++i) {
    Node argument;
    argument.kind = NodeKind::argument;
    argument.type = type_of(outer[i]);
    argument.slot = 1 + i;
    carried.push_back(add(std::move(argument)));
  }
  std::vector<Ref> results = region(position, carried);
  std::vector<DType> types;
  for (Ref r : results) {
    types.push_back(type_of(r));
    top().body.results.push_back(use(r));
  }
  Frame frame = std::move(frames_.back());
  frames_.pop_back();
  --current_;
  set_arguments(frame, results.size());
  if (unrolls(frame, first, last)) {
    if (op == Op::add) {
      for (DType type : types) {
        outer.push_back(is_float(type) ? real(0) : integer(0, type));
      }
    }
    return unroll(op, frame, first->i, last->i, outer);
  }
  return emit_fold(op, from, to, outer, std::move(frame), types);
}

bool Frames::unrolls(const Frame& frame, std::optional<Scalar> begin,
                     std::optional<Scalar> end) const {
  if (!begin || !end) return false;
  int64_t trips = std::max<int64_t>(0, end->i - begin->i);
  bool loops = std::any_of(frame.body.nodes.begin(), frame.body.nodes.end(),
                           [](const Node& n) { return n.kind == NodeKind::fold; });
  if (trips <= 1) return !loops || trips == 0;
  return !loops && trips <= kMaxUnrolledTrips &&
         static_cast<size_t>(trips) * frame.body.nodes.size() <= kMaxUnrolledNodes;
}

std::vector<Ref> Frames::unroll(Op op, const Frame& frame, int64_t begin, int64_t end,
                                const std::vector<Ref>& starts) {
  std::vector<Ref> carried = starts;
  for (int64_t i = begin; i < end; ++i) {
    std::vector<Ref> next = copy_region(frame, integer(i, DType::i64), carried);
    for (size_t c = 0; c < next.size(); ++c) {
      bool adds = op == Op::add && i > begin;
      carried[c] = adds ? operation(Op::add, {carried[c], next[c]}, type_of(next[c])) : next[c];
    }
  }
  return carried;
}

std::vector<Ref> Frames::copy_region(const Frame& frame, Ref counter,
                                     const std::vector<Ref>& carried) {
  const Body& body = frame.body;
  IdVector<NodeId, Ref> copies(body.nodes.size());
  for (size_t i = 0; i < body.nodes.size(); ++i) {
    const Node& n = body.nodes[i];
    if (n.kind != NodeKind::argument) {
      copies[i] = copy_node(n, copies);
      continue;
    }
    size_t slot = n.slot;
    if (slot == 0) {
      copies[i] = counter;
    } else if (slot <= carried.size()) {
      copies[i] = carried[slot - 1];
    } else {
      copies[i] = {current_, frame.captures[slot - 1 - carried.size()]};
    }
  }
  std::vector<Ref> results;
  for (NodeId r : body.results) results.push_back(copies[r]);
  return results;
}

Ref Frames::copy_node(const Node& n, const IdVector<NodeId, Ref>& copies) {
  std::vector<Ref> args;
  for (NodeId arg : n.args) args.push_back(copies[arg]);
  span_ = n.span;
  if (n.kind == NodeKind::operation) {
    if (n.op == Op::select) return select(args[0], args[1], args[2]);
    return operation(n.op, args, n.type);
  }
  if (n.kind == NodeKind::load) return load(n.slot, args, n.type);
  Node node = n;
  node.args.clear();
  for (Ref arg : args) node.args.push_back(use(arg));
  return add(std::move(node));
}

std::vector<Ref> Frames::emit_fold(Op op, Ref begin, Ref end, const std::vector<Ref>& starts,
                                   Frame frame, const std::vector<DType>& types) {
  Node fold;
  fold.kind = NodeKind::fold;
  fold.op = op;
  fold.slot = types.size();
  fold.args = {use(cast(begin, DType::i64)), use(cast(end, DType::i64))};
  for (Ref start : starts) fold.args.push_back(use(start));
  for (size_t i = starts.size(); i < types.size(); ++i) {  // a sum starts at zero
    fold.args.push_back(use(is_float(types[i]) ? real(0) : integer(0, types[i])));
  }
  for (NodeId captured : frame.captures) fold.args.push_back(captured);
  fold.region = std::make_shared<const Body>(std::move(frame.body));
  NodeId id = add_to(current_, std::move(fold));
  std::vector<Ref> components;
  for (size_t i = 0; i < types.size(); ++i) {
    Node component;
    component.kind = NodeKind::component;
    component.type = types[i];
    component.slot = i;
    component.args = {id};
    components.push_back(add(std::move(component)));
  }
  return components;
}

}  // namespace tile::mfg
