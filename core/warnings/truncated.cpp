#include "core/ir/body.h"
#include "core/warnings/checks.h"

namespace tile::warnings {
namespace {

// Of an integer literal other than 0 and a dimension or a larger literal: 1 / N, 2 / 3.
bool is_truncated(const Body& body, const Node& node) {
  if (node.kind != NodeKind::operation || node.op != Op::div || is_float(node.type)) return false;
  const Node &a = body[node.args[0]], &b = body[node.args[1]];
  if (a.kind != NodeKind::integer || a.integer == 0) return false;
  if (b.kind == NodeKind::size) return !b.expr.is_constant();
  bool divides = b.kind == NodeKind::integer && b.integer != 0 && b.integer != -1;
  return divides && a.integer / b.integer == 0;
}

void check_body(const Body& body, Warnings& list) {
  for (const Node& node : body.nodes) {
    if (node.region) check_body(*node.region, list);
    if (!is_truncated(body, node)) continue;
    const Node &a = body[node.args[0]], &b = body[node.args[1]];
    std::string number = std::to_string(a.integer);
    std::string text = number + " / ";
    text += b.kind == NodeKind::size ? to_string(b.expr) : std::to_string(b.integer);
    std::string message = "this divides whole numbers: " + text + " is 0";
    if (b.kind == NodeKind::size) message += " where " + to_string(b.expr) + " is larger";
    warn(list, Stage::parse, "truncated", node.span, message,
         "for a fraction write " + number + ".0 / …, or divide a float at last: S / N");
  }
}

}  // namespace

void check_truncated(const Program& program, Warnings& list) {
  for (const Statement& s : program.statements) {
    if (const auto* whole = std::get_if<Elementwise>(&s.what)) check_body(whole->body, list);
    if (const auto* c = std::get_if<SymbolicContraction>(&s.what)) check_body(c->body, list);
  }
}

}  // namespace tile::warnings
