#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "core/ir/text.h"

namespace tile {
namespace {

std::string reference(NodeId id) { return "%" + to_string(id); }

std::string operands(const Node& node) {
  std::string out;
  for (NodeId arg : node.args) out += " " + reference(arg);
  return out;
}

std::string print_fold(const Node& node) {
  std::string out = "fold " + std::string(info(node.op).name) + " " + std::to_string(node.slot);
  out += operands(node) + " ";
  if (node.expr.kind() == ExprKind::variable) out += "[" + node.expr.name() + "] ";
  return out + print(*node.region);
}

std::string print_node(const Node& node) {
  switch (node.kind) {
    case NodeKind::integer:
      return "int " + std::to_string(node.integer);
    case NodeKind::real:
      return "real " + print_real(node.real);
    case NodeKind::size:
      return "size [" + to_string(node.expr) + "]";
    case NodeKind::index:
      return "index " + std::to_string(node.slot);
    case NodeKind::load:
      return "load " + std::to_string(node.slot) + operands(node);
    case NodeKind::fold:
      return print_fold(node);
    case NodeKind::argument:
      return "argument " + std::to_string(node.slot);
    case NodeKind::component:
      return "component " + std::to_string(node.slot) + operands(node);
    case NodeKind::operation:
      break;
  }
  return std::string(info(node.op).name) + operands(node);
}

NodeId parse_reference(TextReader& reader, const Body& body) {
  reader.expect("%");
  int64_t id = reader.integer();
  if (id < 0 || id >= static_cast<int64_t>(body.nodes.size())) reader.wrong("an earlier node");
  return NodeId(id);
}

size_t parse_slot(TextReader& reader) {
  int64_t slot = reader.integer();
  if (slot < 0 || slot > 1 << 20) reader.wrong("a slot number");
  return static_cast<size_t>(slot);
}

void parse_operands(TextReader& reader, const Body& body, Node& node) {
  while (reader.peek("%")) node.args.push_back(parse_reference(reader, body));
}

Op parse_operator(TextReader& reader) {
  std::string name = reader.name();
  auto rows = operations();
  auto row =
      std::find_if(rows.begin(), rows.end(), [&](const OpInfo& r) { return r.name == name; });
  if (row == rows.end()) reader.wrong("an operation");
  return row->op;
}

void parse_operation(TextReader& reader, const Body& body, Node& node) {
  node.kind = NodeKind::operation;
  node.op = parse_operator(reader);
  for (int i = 0; i < info(node.op).arity; ++i) node.args.push_back(parse_reference(reader, body));
}

void parse_fold(TextReader& reader, const Body& body, Node& node) {
  node.kind = NodeKind::fold;
  node.op = parse_operator(reader);
  node.slot = parse_slot(reader);
  parse_operands(reader, body, node);
  if (reader.accept("[")) {
    node.expr = Expr::variable(reader.name());
    reader.expect("]");
  }
  node.region = std::make_shared<const Body>(parse_body(reader));
}

// The leaf kinds that are a word and a slot, then perhaps operands.
bool parse_slotted(TextReader& reader, const Body& body, Node& node) {
  constexpr auto kWords =
      std::to_array<std::pair<std::string_view, NodeKind>>({{"index", NodeKind::index},
                                                            {"load", NodeKind::load},
                                                            {"argument", NodeKind::argument},
                                                            {"component", NodeKind::component}});
  for (auto [word, kind] : kWords) {
    if (!reader.accept(word)) continue;
    node.kind = kind;
    node.slot = parse_slot(reader);
    parse_operands(reader, body, node);
    return true;
  }
  return false;
}

Node parse_node(TextReader& reader, const Body& body) {
  Node node;
  if (reader.accept(":")) node.type = reader.type();
  reader.expect("=");
  if (reader.accept("int")) {
    node.kind = NodeKind::integer;
    node.integer = reader.integer();
  } else if (reader.accept("real")) {
    node.kind = NodeKind::real;
    node.real = reader.real();
  } else if (reader.accept("size")) {
    node.kind = NodeKind::size;
    reader.expect("[");
    node.expr = reader.expression();
    reader.expect("]");
  } else if (reader.accept("fold")) {
    parse_fold(reader, body, node);
  } else if (!parse_slotted(reader, body, node)) {
    parse_operation(reader, body, node);
  }
  return node;
}

void verify_types(const Body& body, const Node& node) {
  internal_check((node.type == DType::none) == (node.kind == NodeKind::fold),
                 "body: a node without a type, or a fold with one");
  if (node.kind != NodeKind::operation || node.op == Op::cast) return;
  // Narrow integers compute too, where the narrow-bodies pass has proved that nothing wraps.
  bool computes =
      node.type == DType::bool_ || is_integer(node.type) || compute_type(node.type) == node.type;
  internal_check(computes, "body: an operation in a storage type");
  TypeRule rule = info(node.op).rule;
  if (rule == TypeRule::arithmetic || rule == TypeRule::floating || rule == TypeRule::integral) {
    for (NodeId arg : node.args) {
      internal_check(body[arg].type == node.type, "body: operands of another type than the result");
    }
  }
  if (rule == TypeRule::selection) {
    internal_check(body[node.args[1]].type == node.type && body[node.args[2]].type == node.type,
                   "body: arms of another type than the result");
  }
  if (rule == TypeRule::packed) {
    bool joins = node.op == Op::pack2 || node.op == Op::pack4;
    int bits = 0;
    for (NodeId arg : node.args) bits += bit_width(body[arg].type);
    bool dot = body[node.args[0]].type == DType::u32 && body[node.args[1]].type == DType::u32 &&
               body[node.args.back()].type == node.type &&
               node.type == (node.op == Op::dot2_bf16 ? DType::f32 : DType::i32);
    internal_check(joins ? node.type == DType::u32 && bits == 32 : dot,
                   "body: packed elements of other types");
  }
  if (rule == TypeRule::comparison) {
    internal_check(body[node.args[0]].type == body[node.args[1]].type,
                   "body: a comparison of two types");
  }
}

}  // namespace

std::string print(const Body& body) {
  std::string out = "{ ";
  for (NodeId i : body.nodes.ids()) {
    const Node& node = body.nodes[i];
    out += reference(i);
    if (node.type != DType::none) out += ":" + std::string(to_string(node.type));
    out += " = " + print_node(node) + "; ";
  }
  out += "yield";
  for (size_t i = 0; i < body.results.size(); ++i) {
    out += (i == 0 ? " " : ", ") + reference(body.results[i]);
  }
  return out + " }";
}

Body parse_body(TextReader& reader) {
  Body body;
  reader.expect("{");
  while (!reader.accept("yield")) {
    reader.expect("%");
    if (reader.integer() != static_cast<int64_t>(body.nodes.size())) reader.wrong("the next node");
    body.add(parse_node(reader, body));
    reader.expect(";");
  }
  while (!reader.accept("}")) {
    if (!body.results.empty()) reader.expect(",");
    body.results.push_back(parse_reference(reader, body));
  }
  return body;
}

namespace {

struct LoopContext {
  size_t loads;
  size_t indices;
  bool typed;
  const std::vector<DType>* arguments;  // of the region; null outside
};

void verify_nodes(const Body& body, const LoopContext& around);

// The types of what a region is given.
std::vector<DType> region_arguments(const Body& body, const Node& fold) {
  std::vector<DType> types{DType::i64};
  for (size_t i = 2; i < fold.args.size(); ++i) types.push_back(body[fold.args[i]].type);
  return types;
}

bool combines(Op op) { return op == Op::add || op == Op::mul || op == Op::max || op == Op::min; }

void verify_fold(const Body& body, const Node& node, const LoopContext& around) {
  internal_check(node.region != nullptr && node.slot >= 1, "body: a fold without values");
  size_t carried = node.slot;
  internal_check(node.args.size() >= carried + 2 && node.region->results.size() == carried,
                 "body: a fold's operands or results");
  internal_check(node.op == Op::ident || combines(node.op), "body: a fold's operation");
  std::vector<DType> types = region_arguments(body, node);
  if (around.typed) {
    internal_check(body[node.args[0]].type == DType::i64 && body[node.args[1]].type == DType::i64,
                   "body: a fold's bounds are no i64");
  }
  LoopContext inside = around;
  inside.arguments = &types;
  verify_nodes(*node.region, inside);
  for (size_t c = 0; c < carried && around.typed; ++c) {
    internal_check((*node.region)[node.region->results[c]].type == types[c + 1],
                   "body: a fold's result of another type than its start");
  }
  for (const Node& inner : node.region->nodes) {
    bool reads = inner.kind == NodeKind::argument && inner.slot >= 1 && inner.slot <= node.slot;
    internal_check(node.op == Op::ident || !reads, "body: a combining fold reads what it carries");
  }
}

void verify_slot(const Body& body, const Node& node, const LoopContext& around) {
  size_t slot = node.slot;
  if (node.kind == NodeKind::load) {
    internal_check(slot < around.loads, "body: a load's slot");
  }
  if (node.kind == NodeKind::index) {
    internal_check(slot < around.indices, "body: an index's slot");
  }
  if (node.kind == NodeKind::argument) {
    internal_check(around.arguments != nullptr && slot < around.arguments->size(),
                   "body: an argument's slot");
    internal_check(!around.typed || node.type == (*around.arguments)[slot],
                   "body: an argument of another type");
  }
  if (node.kind == NodeKind::component) {
    internal_check(node.args.size() == 1 && body[node.args[0]].kind == NodeKind::fold,
                   "body: a component of no fold");
    const Node& fold = body[node.args[0]];
    internal_check(slot < fold.slot, "body: a component's slot");
    internal_check(!around.typed || node.type == body[fold.args[slot + 2]].type,
                   "body: a component of another type");
  }
}

void verify_operands(const Body& body, size_t at) {
  const Node& node = body.nodes[at];
  for (NodeId arg : node.args) {
    internal_check(arg.valid() && arg.index() < at, "body: an operand is not earlier");
    internal_check(node.kind == NodeKind::component || body[arg].kind != NodeKind::fold,
                   "body: a fold is used as a value");
    internal_check(
        node.kind != NodeKind::load || body[arg].type == DType::none || is_integer(body[arg].type),
        "body: an index value is no integer node");
  }
  if (node.kind == NodeKind::operation) {
    internal_check(node.args.size() == static_cast<size_t>(info(node.op).arity), "body: arity");
  }
}

void verify_nodes(const Body& body, const LoopContext& around) {
  for (size_t i = 0; i < body.nodes.size(); ++i) {
    const Node& node = body.nodes[i];
    verify_operands(body, i);
    verify_slot(body, node, around);
    if (node.kind == NodeKind::fold) verify_fold(body, node, around);
    if (around.typed) verify_types(body, node);
  }
  for (NodeId result : body.results) {
    internal_check(body.nodes.contains(result) && body[result].kind != NodeKind::fold,
                   "body: a result is no node");
  }
}

}  // namespace

void verify_body(const Body& body, size_t loads, size_t indices, bool typed) {
  verify_nodes(body, {loads, indices, typed, nullptr});
}

}  // namespace tile
