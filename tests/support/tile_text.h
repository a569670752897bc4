// What the tests of the Tile front end share: parsing a text, and a dump of every field of a
// Program except positions, independent of the printer under test.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "core/ir/program.h"
#include "core/language/tile/tile.h"

namespace tile::test {

inline SourcePtr source_of(std::string text) {
  return std::make_shared<const Source>(Source{"test.tile", std::move(text)});
}

inline Program parse_text(const std::string& text) { return parse_tile(source_of(text)); }

// The diagnostic of a text that must fail; nullopt if it parses.
inline std::optional<Diagnostic> failure_of(const std::string& text) {
  try {
    parse_text(text);
  } catch (const Failure& failure) {
    return failure.diagnostic();
  }
  return std::nullopt;
}

// The rendered error; empty if the text parses.
inline std::string error_of(const std::string& text) {
  std::optional<Diagnostic> d = failure_of(text);
  return d ? render(*d, *source_of(text)) : "";
}

// "line:column" of the error; empty if the text parses.
inline std::string place_of_error(const std::string& text) {
  std::optional<Diagnostic> d = failure_of(text);
  if (!d) return "";
  Position p = position_of(*source_of(text), d->span.begin);
  return std::to_string(p.line) + ":" + std::to_string(p.column);
}

// A program around one statement or several, with inputs of each kind.
inline std::string with_inputs(const std::string& statements) {
  return "function (A[N, M], B[M, L], V[N], S[], T) -> (O) { " + statements + " }";
}

inline std::string dump(const Expr& e) {
  std::string out = std::to_string(static_cast<int>(e.kind())) + ":";
  if (e.kind() == ExprKind::constant) return out + std::to_string(e.value());
  if (e.kind() == ExprKind::variable) return out + e.name();
  for (const Expr& arg : e.args()) out += "(" + dump(arg) + ")";
  return out;
}

inline std::string dump(const std::vector<Expr>& list) {
  std::string out;
  for (const Expr& e : list) out += "[" + dump(e) + "]";
  return out;
}

inline std::string dump(const Body& body) {
  std::string out;
  for (const Node& n : body.nodes) {
    out += " {" + std::to_string(static_cast<int>(n.kind)) + " " + std::string(info(n.op).name) +
           " " + std::string(to_string(n.type)) + " " + std::to_string(n.integer) + " " +
           std::to_string(n.real) + " " + std::to_string(n.slot) + " " + dump(n.expr);
    for (NodeId arg : n.args) out += " %" + to_string(arg);
    out += "}";
  }
  for (NodeId r : body.results) out += " =%" + to_string(r);
  return out;
}

inline std::string dump(const SymbolicContraction& c) {
  std::string out = "contraction " + std::string(to_string(c.aggregation));
  for (const std::string& index : c.indices) out += " " + index;
  out += " out " + dump(c.out_index) + " size " + dump(c.out_size);
  for (const SymbolicAccess& a : c.accesses) {
    out += " access " + to_string(a.tensor) + dump(a.index);
  }
  for (const SymbolicConstraint& k : c.constraints) {
    out += " where " + dump(k.form) + "<" + dump(k.bound);
  }
  if (c.default_tensor) out += " default " + to_string(*c.default_tensor);
  return out + (c.no_defract ? " no_defract" : "") + dump(c.body);
}

inline std::string dump(const Elementwise& e) {
  std::string out = "elementwise";
  for (TensorId id : e.operands) out += " " + to_string(id);
  return out + dump(e.body);
}

inline std::string dump(const Call& c) {
  std::string out = "call " + std::string(to_string(c.function));
  for (TensorId id : c.tensors) out += " " + to_string(id);
  return out + dump(c.sizes);
}

inline std::string dump(const Literal& l) {
  std::string out = "literal " + std::string(to_string(l.type));
  for (int64_t v : l.integers) out += " " + std::to_string(v);
  for (double v : l.reals) out += " " + std::to_string(v);
  return out;
}

inline std::string dump(const Program& p);

inline std::string dump(const Repeat& r) {
  std::string out = "repeat " + std::to_string(r.trips);
  for (TensorId id : r.operands) out += " " + to_string(id);
  return out + " {\n" + dump(*r.step) + "}";
}

inline std::string dump(const Program& p) {
  std::string out;
  for (const Tensor& t : p.tensors) {
    out += t.name + (t.ranked ? " ranked " : " ") + dump(t.dims) + "\n";
  }
  for (TensorId id : p.inputs) out += "in " + to_string(id) + "\n";
  for (TensorId id : p.outputs) out += "out " + to_string(id) + "\n";
  for (const Statement& s : p.statements) {
    for (const Attribute& a : s.attributes) {
      out += "[[" + a.name;
      for (const std::string& argument : a.arguments) out += " " + argument;
      out += "]] ";
    }
    out += to_string(s.result) + " = ";
    out += std::visit([](const auto& what) { return dump(what); }, s.what) + "\n";
  }
  return out;
}

}  // namespace tile::test
