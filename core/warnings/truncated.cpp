#include <algorithm>
#include <cstdint>
#include <optional>

#include "core/ir/analysis/integer_range.h"
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

// By node: whether a float is made of its value, or of the negative of it.
IdVector<NodeId, bool> made_to_floats(const Body& body) {
  IdVector<NodeId, bool> list(body.nodes.size());
  for (size_t i = list.size(); i-- > 0;) {
    const Node& user = body.nodes[i];
    if (user.kind != NodeKind::operation) continue;
    bool floats = is_float(user.type) || (user.op == Op::neg && list[NodeId(i)]);
    for (NodeId arg : user.args) {
      if (floats) list[arg] = true;
    }
  }
  return list;
}

// Whether a value of the first over one of the second, of which some are not 0, is 0 each time.
bool is_below(const IntegerRange& a, const IntegerRange& b) {
  bool zero = a.lo == 0 && a.hi == 0, wide = a.lo < -INT32_MAX || b.lo < -INT32_MAX;
  if (zero || wide || (b.lo <= 0 && b.hi >= 0)) return false;
  return std::max(-a.lo, a.hi) < (b.lo > 0 ? b.lo : -b.hi);
}

}  // namespace

// Of an index below a size and that size: 2 * k / D. Where a float is made of the quotient a
// fraction was meant; numbers of blocks are compared and counted with.
void check_fractions(const Checked& c, Warnings& list) {
  const Piece& piece = c.contraction.pieces[0];
  const Body& body = piece.body;
  lattice::Bounds bounds = bounds_of_indices(c);
  if (bounds.empty || bounds.unbounded) return;
  auto ranges = integer_ranges(body, [&](const Node& node) -> std::optional<IntegerRange> {
    if (node.kind != NodeKind::index) return std::nullopt;
    return IntegerRange{bounds.box[node.slot].lo, bounds.box[node.slot].hi};
  });
  IdVector<NodeId, bool> floats = made_to_floats(body);
  for (NodeId id : body.nodes.ids()) {
    const Node& node = body[id];
    bool divides = node.kind == NodeKind::operation && node.op == Op::div && !is_float(node.type);
    if (!divides || !floats[id] || body[node.args[0]].kind == NodeKind::integer) continue;
    const auto &a = ranges[node.args[0]], &b = ranges[node.args[1]];
    if (!a || !b || !is_below(*a, *b)) continue;
    warn(list, Stage::bind, "truncated", node.span,
         "this divides whole numbers, and is 0 at every point",
         "for a fraction make a float of one of them first: as_float(i, 32) / N");
  }
}

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
