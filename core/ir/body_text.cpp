#include <algorithm>

#include "core/ir/text.h"

namespace tile {
namespace {

std::string reference(NodeId id) { return "%" + std::to_string(id); }

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
      return "load " + std::to_string(node.slot);
    case NodeKind::operation:
      break;
  }
  std::string out(info(node.op).name);
  for (NodeId arg : node.args) out += " " + reference(arg);
  return out;
}

NodeId parse_reference(TextReader& reader, const Body& body) {
  reader.expect("%");
  int64_t id = reader.integer();
  if (id < 0 || id >= static_cast<int64_t>(body.nodes.size())) reader.wrong("an earlier node");
  return static_cast<NodeId>(id);
}

int parse_slot(TextReader& reader) {
  int64_t slot = reader.integer();
  if (slot < 0 || slot > 1 << 20) reader.wrong("a slot number");
  return static_cast<int>(slot);
}

void parse_operation(TextReader& reader, const Body& body, Node& node) {
  std::string name = reader.name();
  auto rows = operations();
  auto row =
      std::find_if(rows.begin(), rows.end(), [&](const OpInfo& r) { return r.name == name; });
  if (row == rows.end()) reader.wrong("an operation");
  node.kind = NodeKind::operation;
  node.op = row->op;
  for (int i = 0; i < row->arity; ++i) node.args.push_back(parse_reference(reader, body));
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
  } else if (reader.accept("index")) {
    node.kind = NodeKind::index;
    node.slot = parse_slot(reader);
  } else if (reader.accept("load")) {
    node.kind = NodeKind::load;
    node.slot = parse_slot(reader);
  } else {
    parse_operation(reader, body, node);
  }
  return node;
}

void verify_types(const Body& body, const Node& node) {
  internal_check(node.type != DType::none, "body: a node without a type");
  if (node.kind != NodeKind::operation || node.op == Op::cast) return;
  bool computes = node.type == DType::bool_ || compute_type(node.type) == node.type;
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
  if (rule == TypeRule::comparison) {
    internal_check(body[node.args[0]].type == body[node.args[1]].type,
                   "body: a comparison of two types");
  }
}

}  // namespace

std::string print(const Body& body) {
  std::string out = "{ ";
  for (size_t i = 0; i < body.nodes.size(); ++i) {
    const Node& node = body.nodes[i];
    out += reference(static_cast<NodeId>(i));
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

void verify_body(const Body& body, size_t loads, size_t indices, bool typed) {
  for (size_t i = 0; i < body.nodes.size(); ++i) {
    const Node& node = body.nodes[i];
    for (NodeId arg : node.args) {
      internal_check(arg >= 0 && static_cast<size_t>(arg) < i, "body: an operand is not earlier");
    }
    if (node.kind == NodeKind::load) {
      internal_check(node.slot >= 0 && static_cast<size_t>(node.slot) < loads,
                     "body: a load's slot");
    }
    if (node.kind == NodeKind::index) {
      internal_check(node.slot >= 0 && static_cast<size_t>(node.slot) < indices,
                     "body: an index's slot");
    }
    if (node.kind == NodeKind::operation) {
      internal_check(node.args.size() == static_cast<size_t>(info(node.op).arity), "body: arity");
    }
    if (typed) verify_types(body, node);
  }
  for (NodeId result : body.results) {
    internal_check(result >= 0 && static_cast<size_t>(result) < body.nodes.size(),
                   "body: a result is no node");
  }
}

}  // namespace tile
