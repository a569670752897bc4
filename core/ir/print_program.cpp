#include <algorithm>
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

// Index expressions are written out wherever they stand.
constexpr size_t kMaxPrinted = size_t{64} << 20;

// A value gets a name where it is used again and its text is longer, so that the whole text is as
// long as the body is large; and where its text is nested deeper, as texts that can be parsed are
// nested kMaxNesting levels and two may belong to one operation.
constexpr size_t kLongestRepeated = 48;
constexpr int kDeepest = 64;

struct Text {
  std::string text;
  int strength = kPrimary;
  int depth = 1;
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
  if (type == DType::bool_ || type == DType::bf16 || is_f8(type)) {
    return "as_" + std::string(to_string(type)) + "(" + value + ")";
  }
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

// A body with one result as an expression, behind names for values: "let v1 = …, v2 = … in ".
class BodyPrinter {
 public:
  // `taken`: names that stand for something else in the body.
  BodyPrinter(const Body& body, const Slots& slots, const std::vector<std::string>& taken)
      : body_(tidied(body)), slots_(slots), taken_(taken) {}

  std::string print() {
    NodeId root = body_.results.at(0);
    texts_.resize(body_.nodes.size());
    for (NodeId id : in_order_of_text(root)) {
      Text& own = texts_[id];
      own = node_text(body_[id]);
      for (NodeId arg : body_[id].args) own.depth = std::max(own.depth, text(arg).depth + 1);
      if (id != root && needs_name(id)) bind(own);
      total_ += own.text.size();
      if (total_ + bindings_.size() > kMaxPrinted) {
        fail(Stage::compile, "limit", {}, "the program is too large to print");
      }
    }
    return (bindings_.empty() ? "" : "let " + bindings_ + " in ") + text(root).text;
  }

 private:
  const Text& text(NodeId id) const { return texts_[id]; }

  // The nodes that `root` needs as the text has them first, which is the order that parsing makes
  // them in; counts their uses.
  std::vector<NodeId> in_order_of_text(NodeId root) {
    uses_.resize(body_.nodes.size(), 0);
    std::vector<NodeId> order;
    std::vector<std::pair<NodeId, size_t>> path;  // nodes with how many operands are done
    auto use = [&](NodeId id) {
      if (uses_[id]++ == 0) path.emplace_back(id, 0);
    };
    use(root);
    while (!path.empty()) {
      auto& [id, done] = path.back();
      const std::vector<NodeId>& args = body_[id].args;
      if (done < args.size()) {
        use(args[done++]);
      } else {
        order.push_back(id);
        path.pop_back();
      }
    }
    return order;
  }
  bool needs_name(NodeId id) const {
    bool again = uses_[id] > 1;
    return (again && text(id).text.size() > kLongestRepeated) || text(id).depth >= kDeepest;
  }
  void bind(Text& value) {
    std::string name;
    do {
      name = "v" + std::to_string(++last_name_);
    } while (std::find(taken_.begin(), taken_.end(), name) != taken_.end());
    bindings_ += (bindings_.empty() ? "" : ", ") + name + " = " + value.text;
    value = {std::move(name)};
  }

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

  Body body_;
  const Slots& slots_;
  const std::vector<std::string>& taken_;
  IdVector<NodeId, int> uses_;
  IdVector<NodeId, Text> texts_;
  std::string bindings_;
  int last_name_ = 0;
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
  const Tensor& tensor(TensorId id) const { return program_.tensors[id]; }
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
    Slots slots{[&](size_t slot) { return access(c.accesses[slot]); },
                [&](size_t slot) { return c.indices[slot]; }};
    return BodyPrinter(c.body, slots, c.indices).print();
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
    Slots slots{[&](size_t slot) { return name(e.operands[slot]); },
                [](size_t slot) { return "i" + std::to_string(slot); }};
    return " = " + BodyPrinter(e.body, slots, {}).print();
  }

  std::string right_side(const Literal& l) const {
    std::string out = " = " + std::string(to_string(l.type)) + print_integers(l.shape) + " {";
    if (is_float(l.type)) return out + joined(l.reals, print_real) + "}";
    return out + joined(l.integers, [](int64_t v) { return std::to_string(v); }) + "}";
  }

  // Beyond Tile: the trips, the first state, what every trip reads, and the step as a program.
  std::string right_side(const Repeat& r) const {
    std::string step = tile::print(*r.step);
    std::string out = " = repeat(" + std::to_string(r.trips) + ", " +
                      joined(r.operands, [&](TensorId id) { return name(id); }) + ") ";
    step.pop_back();  // the end of its last line
    for (char c : step) out += c == '\n' ? "\n  " : std::string(1, c);
    return out;
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
