#include "core/ir/body.h"
#include "core/warnings/checks.h"
#include "core/warnings/texts.h"

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

// Of literals alone MFG and Lift leave nothing but the quotient, so their texts are looked at.
template <class Text, class Quotient>
void check_text(const Text& text, Warnings& list, Quotient is_quotient) {
  for (const auto& node : text.nodes) {
    if (!is_quotient(node) || node.args.size() != 2) continue;
    const auto &a = text[node.args[0]], &b = text[node.args[1]];
    using Kind = decltype(a.kind);
    if (a.kind != Kind::integer || b.kind != Kind::integer) continue;
    if (a.integer == 0 || a.integer >= b.integer) continue;
    std::string number = std::to_string(a.integer);
    warn(list, Stage::parse, "truncated", node.span,
         "this divides whole numbers: " + number + " / " + std::to_string(b.integer) + " is 0",
         "for a fraction write " + number + ".0 / " + std::to_string(b.integer) + ".0");
  }
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
  if (auto text = mfg_syntax(program)) {
    check_text(*text, list, [](const mfg::Syntax& node) {
      return node.kind == mfg::SyntaxKind::binary && node.text == "/";
    });
  } else if (auto lift = lift_syntax(program)) {
    check_text(*lift, list, [](const lift::Syntax& node) {
      return node.kind == lift::SyntaxKind::operation && node.op == Op::div;
    });
  }
}

}  // namespace tile::warnings
