#include <charconv>
#include <cmath>
#include <functional>

#include "core/ir/program.h"
#include "core/ir/text.h"

namespace tile {
namespace {

// Binding strengths beside those of precedence(): a conditional binds least, then the binary
// operators, unary operators, and calls, names and numbers most.
constexpr int kConditional = 0;
constexpr int kUnary = 11;
constexpr int kPrimary = 12;

// Shared nodes are printed once for each use, which can grow without bound.
constexpr size_t kMaxPrinted = size_t{64} << 20;

struct Text {
  std::string text;
  int strength = kPrimary;
};

std::string bracketed(const Text& t, int least) {
  return t.strength < least ? "(" + t.text + ")" : t.text;
}

std::string real_text(double value) {
  if (std::isnan(value)) return "(0.0 / 0.0)";
  if (std::isinf(value)) return value > 0 ? "(1.0 / 0.0)" : "(-1.0 / 0.0)";
  char buffer[40];
  char* end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string out(buffer, end);
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

std::string cast_text(const std::string& value, DType type) {
  if (type == DType::bool_) return "as_bool(" + value + ")";
  if (type == DType::bf16) return "as_bf16(" + value + ")";
  std::string name = is_float(type) ? "as_float" : is_signed_integer(type) ? "as_int" : "as_uint";
  return name + "(" + value + ", " + std::to_string(bit_width(type)) + ")";
}

std::string_view unary_symbol(Op op) {
  switch (op) {
    case Op::neg:
      return "-";
    case Op::bit_not:
    case Op::logical_not:
      return info(op).spelling;
    default:
      return "";
  }
}

// A minus before a number would be read as part of the number.
bool is_literal(const Node& node) {
  return node.kind == NodeKind::integer || node.kind == NodeKind::real;
}

// The names of a body's slots.
struct Slots {
  std::function<std::string(int)> load;
  std::function<std::string(int)> index;
};

class BodyPrinter {
 public:
  BodyPrinter(const Body& body, const Slots& slots) : body_(body), slots_(slots) {}

  std::string print(NodeId root) {
    std::vector<bool> needed(body_.nodes.size());
    needed[static_cast<size_t>(root)] = true;
    for (size_t i = body_.nodes.size(); i-- > 0;) {
      if (!needed[i]) continue;
      for (NodeId arg : body_.nodes[i].args) needed[static_cast<size_t>(arg)] = true;
    }
    texts_.resize(body_.nodes.size());
    for (size_t i = 0; i < body_.nodes.size(); ++i) {
      if (!needed[i]) continue;
      texts_[i] = node_text(body_.nodes[i]);
      total_ += texts_[i].text.size();
      if (total_ > kMaxPrinted) {
        fail(Stage::compile, "limit", {}, "the program is too large to print");
      }
    }
    return std::move(texts_[static_cast<size_t>(root)].text);
  }

 private:
  const Text& text(NodeId id) const { return texts_[static_cast<size_t>(id)]; }

  Text node_text(const Node& node) const {
    switch (node.kind) {
      case NodeKind::integer:
        return {std::to_string(node.integer), node.integer < 0 ? kUnary : kPrimary};
      case NodeKind::real:
        return {real_text(node.real), std::signbit(node.real) ? kUnary : kPrimary};
      case NodeKind::size: {
        bool atom = node.expr.kind() == ExprKind::variable;
        return {atom ? node.expr.name() : "(" + to_string(node.expr) + ")"};
      }
      case NodeKind::index:
        return {slots_.index(node.slot)};
      case NodeKind::load:
        return {slots_.load(node.slot)};
      case NodeKind::operation:
        return operation_text(node);
      default:
        break;
    }
    throw InternalError("print: a fold outside of a typed contraction");
  }

  Text operation_text(const Node& node) const {
    if (node.op == Op::cast) return {cast_text(text(node.args[0]).text, node.type)};
    if (node.op == Op::select) {
      return {bracketed(text(node.args[0]), 1) + " ? " +
                  bracketed(text(node.args[1]), kConditional) + " : " +
                  bracketed(text(node.args[2]), kConditional),
              kConditional};
    }
    if (int strength = precedence(node.op); strength > 0) {
      return {bracketed(text(node.args[0]), strength) + " " + std::string(info(node.op).spelling) +
                  " " + bracketed(text(node.args[1]), strength + 1),
              strength};
    }
    std::string symbol(unary_symbol(node.op));
    bool merges = node.op == Op::neg && is_literal(body_[node.args[0]]);
    if (!symbol.empty() && !merges) {
      std::string operand = bracketed(text(node.args[0]), kUnary);
      return {symbol + (operand.starts_with(symbol) ? " " : "") + operand, kUnary};
    }
    return call_text(node);
  }

  Text call_text(const Node& node) const {
    std::string out = std::string(info(node.op).spelling) + "(";
    for (size_t i = 0; i < node.args.size(); ++i) {
      out += (i == 0 ? "" : ", ") + text(node.args[i]).text;
    }
    return {out + ")"};
  }

  const Body& body_;
  const Slots& slots_;
  std::vector<Text> texts_;
  size_t total_ = 0;
};

template <typename Items, typename ToText>
std::string joined(const Items& items, ToText to_text) {
  std::string out;
  for (const auto& item : items) out += (out.empty() ? "" : ", ") + to_text(item);
  return out;
}

std::string expr_text(const Expr& e) { return to_string(e); }

class ProgramPrinter {
 public:
  explicit ProgramPrinter(const Program& program) : program_(program) {}

  std::string print() const {
    std::string out = "function (";
    out += joined(program_.inputs, [&](TensorId id) { return input(id); }) + ") -> (";
    out += joined(program_.outputs, [&](TensorId id) { return name(id); }) + ") {\n";
    for (const Statement& s : program_.statements) {
      out += "  " + statement(s) + ";\n";
      if (out.size() > kMaxPrinted) {
        fail(Stage::compile, "limit", {}, "the program is too large to print");
      }
    }
    return out + "}\n";
  }

 private:
  const Tensor& tensor(TensorId id) const { return program_.tensors[static_cast<size_t>(id)]; }
  std::string name(TensorId id) const { return tensor(id).name; }

  std::string input(TensorId id) const {
    const Tensor& t = tensor(id);
    std::string out = t.ranked ? t.name + "[" + joined(t.dims, expr_text) + "]" : t.name;
    if (t.type) out += ": " + std::string(to_string(*t.type));
    if (t.parameter) out += " = " + parameter(*t.parameter);
    return out;
  }

  static std::string parameter(const RuntimeParameter& p) {
    std::string out = "parameter(" + joined(p.init, print_real);
    if (p.min) out += ", min " + print_real(*p.min);
    if (p.max) out += ", max " + print_real(*p.max);
    return out + ")";
  }

  std::string statement(const Statement& s) const {
    std::string out;
    for (const Attribute& a : s.attributes) {
      out += "[[" + a.name;
      if (!a.arguments.empty()) {
        out += "(" + joined(a.arguments, [](const std::string& n) { return n; }) + ")";
      }
      out += "]] ";
    }
    out += name(s.result);
    return out + std::visit([&](const auto& what) { return right_side(what); }, s.what);
  }

  std::string right_side(const SymbolicContraction& c) const {
    std::string out = "[" + joined(c.out_index, expr_text);
    if (!c.out_size.empty()) out += ": " + joined(c.out_size, expr_text);
    out += "] = " + std::string(to_string(c.aggregation)) + "(";
    out += (c.typed ? typed_body(c) : untyped_body(c)) + ")";
    if (c.components != 0) out += " components " + std::to_string(c.components);
    for (const SymbolicConstraint& k : c.constraints) {
      out += ", " + to_string(k.form) + " < " + to_string(k.bound);
    }
    if (c.default_tensor) out += " default " + name(*c.default_tensor);
    if (c.no_defract) out += " no_defract";
    return out;
  }

  // Beyond Tile: the indices, the accesses ("%0" being an operand of the loads) and the typed
  // block.
  std::string typed_body(const SymbolicContraction& c) const {
    return "[" + joined(c.indices, [](const std::string& n) { return n; }) + "] (" +
           joined(c.accesses, [&](const SymbolicAccess& a) { return access(a); }) + ") " +
           tile::print(c.body);
  }

  std::string untyped_body(const SymbolicContraction& c) const {
    Slots slots{[&](int slot) { return access(c.accesses[static_cast<size_t>(slot)]); },
                [&](int slot) { return c.indices[static_cast<size_t>(slot)]; }};
    return BodyPrinter(c.body, slots).print(c.body.results.at(0));
  }

  std::string access(const SymbolicAccess& a) const {
    std::string out;
    for (size_t d = 0; d < a.index.size(); ++d) {
      out += d == 0 ? "" : ", ";
      Boundary boundary = a.boundary.empty() ? Boundary::in_range : a.boundary[d];
      bool by_value = d < a.values.size() && a.values[d] >= 0;
      out += boundary_text(boundary,
                           by_value ? "%" + std::to_string(a.values[d]) : to_string(a.index[d]));
    }
    return name(a.tensor) + "[" + out + "]";
  }

  // Tile has in_range only; the others are shown as functions of the index.
  static std::string boundary_text(Boundary boundary, const std::string& index) {
    switch (boundary) {
      case Boundary::in_range:
        return index;
      case Boundary::clamp:
        return "clamp(" + index + ")";
      case Boundary::mirror:
        return "mirror(" + index + ")";
      case Boundary::wrap:
        return "wrap(" + index + ")";
      case Boundary::constant:
        return "constant(" + index + ")";
    }
    return index;
  }

  std::string right_side(const Elementwise& e) const {
    Slots slots{[&](int slot) { return name(e.operands[static_cast<size_t>(slot)]); },
                [](int slot) { return "i" + std::to_string(slot); }};
    return " = " + BodyPrinter(e.body, slots).print(e.body.results.at(0));
  }

  std::string right_side(const Literal& l) const {
    std::string out = " = " + std::string(to_string(l.type)) + print_integers(l.shape) + " {";
    if (is_float(l.type)) return out + joined(l.reals, print_real) + "}";
    return out + joined(l.integers, [](int64_t v) { return std::to_string(v); }) + "}";
  }

  std::string right_side(const Call& c) const {
    std::string tensors = joined(c.tensors, [&](TensorId id) { return name(id); });
    std::string sizes = joined(c.sizes, expr_text);
    bool leading = c.function == Function::concat;
    const std::string& first = leading ? sizes : tensors;
    const std::string& second = leading ? tensors : sizes;
    std::string comma = first.empty() || second.empty() ? "" : ", ";
    return " = " + std::string(to_string(c.function)) + "(" + first + comma + second + ")";
  }

  const Program& program_;
};

}  // namespace

std::string print(const Program& program) { return ProgramPrinter(program).print(); }

}  // namespace tile
