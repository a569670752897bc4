// Accesses, bodies and stores.
#include <algorithm>
#include <cctype>

#include "backends/cuda/print/printer.h"
#include "core/ir/analysis/value_range.h"
#include "core/support/diagnostic.h"

namespace tile::cuda {

using nest::Access;
using nest::Scope;
using nest::StoreKind;

namespace {

// The text with the numbers of names that it declares, from `first` on, counted from zero.
std::string renumbered(const std::string& text, int first) {
  static constexpr std::string_view kFresh = "cgklntvwxy";  // of Printer::fresh
  auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  };
  auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::string out;
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && is_word(text[end])) ++end;
    std::string word = text.substr(i, std::max(end, i + 1) - i);
    bool name = word.size() > 1 && word.size() < 10 && kFresh.find(word[0]) != word.npos &&
                std::all_of(word.begin() + 1, word.end(), is_digit);
    int number = name ? std::stoi(word.substr(1)) : 0;
    bool own = name && number >= first;
    out += own ? std::string(1, word[0]) + "#" + std::to_string(number - first) : word;
    i += word.size();
  }
  return out;
}

}  // namespace

// The element's position without the dimensions whose index is a value.
Expr Printer::offset(const Access& access) const {
  const nest::Buffer& b = buffer(access.buffer);
  Expr sum = 0;
  for (size_t d = by_blocks(access.buffer) ? 1 : 0; d < access.index.size(); ++d) {
    bool by_value = d < access.values.size() && access.values[d] >= 0;
    if (!by_value) sum = sum + Expr(b.strides[d]) * access.index[d];
  }
  return simplify(sum, ranges_);
}

std::string Printer::place(const Access& access, const NodeValues& values,
                           const std::vector<NodeId>& operands) const {
  const nest::Buffer& b = buffer(access.buffer);
  std::string text = expression(offset(access)).text;
  for (size_t d = 0; d < access.values.size(); ++d) {
    if (access.values[d] < 0) continue;
    auto at = static_cast<size_t>(access.values[d]);
    NodeId id = operands.empty() ? NodeId(access.values[d]) : operands[at];
    text += " + " + std::to_string(b.strides[d]) + "ll * (i64)" + values[id].text;
  }
  return text;
}

std::string Printer::element(const Access& access, const NodeValues& values,
                             const std::vector<NodeId>& operands) {
  if (auto it = replaced_.find(access.buffer); it != replaced_.end()) {
    return lane_.empty() ? it->second : it->second + "[" + variables_.at(lane_).name + "]";
  }
  return base(access) + "[" + place(access, values, operands) + "]";
}

bool Printer::packs(const Access& access, const nest::For& loop) const {
  const nest::Buffer& b = buffer(access.buffer);
  if (b.scope == Scope::registers || b.scope == Scope::scratch) return false;
  if (replaced_.contains(access.buffer)) return false;
  if (!loop.extent.is_constant()) return false;
  int64_t lanes = loop.extent.value(), bytes = lanes * static_cast<int64_t>(byte_size(b.type));
  bool power = lanes > 1 && (lanes & (lanes - 1)) == 0;
  if (!power || bytes > 64) return false;
  bool by_value =
      std::any_of(access.values.begin(), access.values.end(), [](int v) { return v >= 0; });
  if (by_value) return false;
  Expr flat = offset(access);
  std::optional<LinearForm> form = linear_form(flat);
  Expr rest = simplify(flat - Expr::variable(loop.variable), ranges_);
  if (uses_variable(rest, loop.variable)) return false;
  if (form && form->terms.contains(loop.variable) && form->terms.at(loop.variable) != 1) {
    return false;
  }
  return multiple_of(simplify(rest + loop.begin, ranges_), std::min<int64_t>(lanes, 16));
}

std::string Printer::pack_type(nest::BufferId id, const nest::For& loop) const {
  return "Pack<" + std::string(memory_type(buffer(id).type)) + ", " +
         std::to_string(loop.extent.value()) + ">";
}

std::string Printer::pack_place(const Access& access, const nest::For& loop) {
  Expr rest = simplify(offset(access) - Expr::variable(loop.variable) + loop.begin, ranges_);
  return "(" + base(access) + " + " + expression(rest).text + ")";
}

ValueText Printer::node(const Body& of, const Node& n, const NodeValues& values,
                        const std::vector<Access>& loads, const Lanes* lanes,
                        const Region* region) {
  switch (n.kind) {
    case NodeKind::integer:
      return {integer_literal(n.integer, n.type), n.type};
    case NodeKind::real:
      return {real_literal(n.real, n.type), n.type};
    case NodeKind::size: {
      ValueText v{"(i64)" + expression(n.expr).text, DType::i64};
      return {print_conversion({"(" + v.text + ")", DType::i64}, n.type), n.type};
    }
    case NodeKind::load: {
      if (only_pairs(n, loads)) return {"0.0f", n.type};  // what reads it takes the pair
      size_t slot = n.slot;
      std::string text;
      if (lanes != nullptr && lanes->packs.contains(slot)) {
        text = lanes->packs.at(slot) + ".e[" + lanes->element + "]";
      } else {
        text = element(loads[slot], values, n.args);
      }
      if (n.type == DType::bool_) text = "(" + text + " != 0)";
      return {text, n.type};
    }
    case NodeKind::operation: {
      bool quick = stream_exponentials_ && n.op == Op::exp && n.type == DType::f32;
      if (quick) return {stream_exponential(of, n, values, loads), n.type};
      Values operands;
      for (NodeId id : n.args) operands.push_back(values[id]);
      // Of weights, which are rounded to 16 bits.
      bool quotient = stream_exponentials_ && !stream_between_ && n.op == Op::div;
      if (quotient && n.type == DType::f32) {
        std::string pair = column_pair(of[n.args[1]], loads, true);
        std::string name = is_usual(of, n, loads) ? "usual_quotient(" : "stream_quotient(";
        return {name + operands[0].text + ", " + (pair.empty() ? operands[1].text : pair) + ")",
                n.type};
      }
      if (n.op == Op::div && n.type == DType::f32 && in_thread_ && loops_ > 0) {
        return {"divided(" + operands[0].text + ", " + operands[1].text + ")", n.type};
      }
      return {print_operation(n.op, n.type, operands), n.type};
    }
    case NodeKind::argument:
      internal_check(region != nullptr, "cuda: an argument outside a fold");
      return (*region->arguments)[n.slot];
    default:
      throw InternalError("cuda: a node of no kind known here");
  }
}

void Printer::sharing(const std::function<void()>& print) {
  bool before = shares_;
  auto values = shared_values_;
  auto folds = shared_folds_;
  shares_ = true;
  print();
  shares_ = before;
  shared_values_ = std::move(values);
  shared_folds_ = std::move(folds);
}

std::string Printer::named(DType type, const std::string& value) {
  std::string declared = std::string(type_name(type)) + " = " + value;
  if (auto known = shared_values_.find(declared); shares_ && known != shared_values_.end()) {
    return known->second;
  }
  std::string name = fresh("v");
  line("const " + std::string(type_name(type)) + " " + name + " = " + value + ";");
  if (shares_) shared_values_[declared] = name;
  return name;
}

Printer::NodeValues Printer::body(const Body& of, const std::vector<Access>& loads,
                                  const Lanes* lanes, const Region* region) {
  NodeValues values;
  std::map<NodeId, Values> carried;  // by fold
  for (size_t i = 0; i < of.nodes.size(); ++i) {
    const Node& n = of.nodes[i];
    if (n.kind == NodeKind::fold) {
      carried[NodeId(i)] = shared_fold(of, n, values, loads, lanes);
      values.push_back({});
      continue;
    }
    if (n.kind == NodeKind::component) {
      values.push_back(carried.at(n.args[0])[n.slot]);
      continue;
    }
    ValueText v = node(of, n, values, loads, lanes, region);
    bool has_name =
        n.kind == NodeKind::operation || n.kind == NodeKind::load || n.kind == NodeKind::size;
    if (has_name) v.text = named(n.type, v.text);
    values.push_back(v);
  }
  return values;
}

// A fold whose text, but for the names that it declares, has been printed before is taken from
// there.
Printer::Values Printer::shared_fold(const Body& of, const Node& n, const NodeValues& values,
                                     const std::vector<Access>& loads, const Lanes* lanes) {
  if (!shares_) return fold(of, n, values, loads, lanes);
  size_t begin = text_.size();
  int first = counter_;
  Values made;
  sharing([&] { made = fold(of, n, values, loads, lanes); });
  std::string text = renumbered(text_.substr(begin), first);
  std::vector<std::string>& names = shared_folds_[text];
  if (names.empty()) {
    for (const ValueText& v : made) names.push_back(v.text);
    return made;
  }
  text_.resize(begin);
  for (size_t c = 0; c < made.size(); ++c) made[c].text = names[c];
  return made;
}

// Narrow bounds that are computed are counted from zero: ptxas (of CUDA 13.0, for sm_80 and sm_90)
// lets `for (n = -x; n < x + 1; ++n)` run once where it knows nothing of x.
void Printer::open_fold(const Body& of, const Node& n, const NodeValues& values,
                        const std::string& counter, bool narrow) {
  std::string begin = values[n.args[0]].text;
  std::string end = values[n.args[1]].text;
  if (!narrow || of[n.args[0]].kind == NodeKind::integer) {
    std::string type = narrow ? "int" : "i64", cast = narrow ? "(int)" : "";
    open("for (" + type + " " + counter + " = " + cast + begin + "; " + counter + " < " + cast +
         end + "; ++" + counter + ") {");
    return;
  }
  std::string step = fresh("n");
  std::string steps = "(unsigned)(" + begin + " < " + end + " ? " + end + " - " + begin + " : 0)";
  open("for (unsigned " + step + " = 0; " + step + " < " + steps + "; ++" + step + ") {");
  line("const int " + counter + " = (int)(" + begin + " + " + step + ");");
}

// for counter in [begin, end): carried = region(counter, carried…, captured…).
std::vector<ValueText> Printer::fold(const Body& of, const Node& n, const NodeValues& values,
                                     const std::vector<Access>& loads, const Lanes* lanes) {
  size_t count = n.slot;
  Values carried, arguments;
  std::string counter = fresh("n");
  auto bounds = [&](NodeId id) -> Interval {
    if (of[id].kind == NodeKind::size) return interval(of[id].expr, variables_);
    ValueRange known = value_range(of, id);
    return {known.lo, known.hi};
  };
  Interval range{bounds(n.args[0]).lo, bounds(n.args[1]).hi};
  range.hi = std::max(range.lo, range.hi);
  bool narrow = range.narrow();
  arguments.push_back({narrow ? "((i64)" + counter + ")" : counter, DType::i64});
  for (size_t c = 0; c < count; ++c) {
    NodeId start = n.args[2 + c];
    DType type = of[start].type;
    carried.push_back({fresh("w"), type});
    line(std::string(type_name(type)) + " " + carried[c].text + " = " + values[start].text + ";");
    arguments.push_back(carried[c]);
  }
  for (size_t a = 2 + count; a < n.args.size(); ++a) {
    arguments.push_back(values[n.args[a]]);
  }
  open_fold(of, n, values, counter, narrow);
  std::string variable;
  if (n.expr.kind() == ExprKind::variable) {
    variable = n.expr.name();
    range.hi = std::max(range.lo, range.hi - 1);
    variables_[variable] = {counter,
                            narrow ? range : Interval{-(int64_t{1} << 62), int64_t{1} << 62}};
    if (narrow) ranges_.set(variable, range.lo, range.hi);
  }
  Region inside{&arguments};
  NodeValues results = body(*n.region, loads, lanes, &inside);
  std::vector<std::string> next;
  for (size_t c = 0; c < count; ++c) {
    ValueText r = results[n.region->results[c]];
    if (n.op != Op::ident) {
      ValueText operands[2] = {carried[c], r};
      r.text = print_operation(n.op, carried[c].type, operands);
    }
    std::string name = fresh("v");
    line("const " + std::string(type_name(carried[c].type)) + " " + name + " = " + r.text + ";");
    next.push_back(name);
  }
  for (size_t c = 0; c < count; ++c) line(carried[c].text + " = " + next[c] + ";");
  if (!variable.empty()) {
    variables_.erase(variable);
    ranges_.of.erase(variable);
  }
  close();
  return carried;
}

// Narrow accumulators wrap as memory does: the operation runs in the compute type.
void Printer::store(const nest::Store& what, const Lanes* lanes, const std::string& pack) {
  if (what.asynchronous) {
    auto bytes = static_cast<int64_t>(byte_size(buffer(what.target.buffer).type));
    return later(bytes, "&" + element(what.target, {}, {}), "&" + element(what.loads[0], {}, {}));
  }
  NodeValues values = body(what.body, what.loads, lanes, nullptr);
  DType type = buffer(what.target.buffer).type;
  ValueText result = values[what.body.results[0]];
  std::string target =
      pack.empty() ? element(what.target, values, {}) : pack + ".e[" + lanes->element + "]";
  if (what.kind == StoreKind::assign) {
    line(target + " = " + result.text + ";");
    return;
  }
  ValueText old{target, type};
  if (type == DType::bool_) old.text = "(" + target + " != 0)";
  DType wide = compute_type(type);
  std::string text;
  if (what.kind == StoreKind::fma) {
    ValueText operands[3] = {result, values[what.body.results[1]], old};
    text = print_operation(Op::fma, type, operands);
  } else {
    Op op = what.kind == StoreKind::add        ? Op::add
            : what.kind == StoreKind::multiply ? Op::mul
            : what.kind == StoreKind::max      ? Op::max
                                               : Op::min;
    ValueText operands[2] = {{print_conversion(old, wide), wide},
                             {print_conversion(result, wide), wide}};
    text = print_conversion({print_operation(op, wide, operands), wide}, type);
  }
  line(target + " = " + text + ";");
}

}  // namespace tile::cuda
