// Statements of a stream's block: products, and what is done for rows and for the cells of
// fragments.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cuda/matrix/stream_source.h"
#include "backends/cuda/print/stream_layout.h"
#include "core/support/diagnostic.h"

namespace tile::cuda {

using nest::LoopKind;
using nest::Scope;

namespace {

constexpr int64_t kDepth = 16;  // terms of one instruction

std::string number(int64_t n) { return std::to_string(n); }

}  // namespace

void Printer::stream_multiply(const nest::MatrixTile& m, bool fresh) {
  if (stream_->by_threads) return multiply_by_threads(m);
  if (!stream_->groups) return multiply_by_warps(m);
  multiply_by_groups(m, fresh);
  line("group_commit();");
  line("group_wait<0>();");
}

// The C expression of a shared buffer's first byte.
std::string Printer::stream_place(nest::BufferId id) const {
  bool once = std::any_of(stream_->once.begin(), stream_->once.end(),
                          [&](const nest::Copy* c) { return c->to == id; });
  return (once ? "base + " : "part + ") + number(stream_->at.at(id));
}

// Issues the product; what it reads and adds to may not change before its group has ended.
void Printer::multiply_by_groups(const nest::MatrixTile& m, bool fresh_sum) {
  const nest::Buffer& a = buffer(m.a);
  const nest::Buffer& b = buffer(m.b);
  bool registers = a.scope == Scope::fragment;
  int64_t columns = buffer(m.sum).shape[1], depth = a.shape[1];
  internal_check(!m.a_transposed && m.b_transposed != registers, "cuda: a stream's product");
  std::string& function = stream_->functions[columns];
  function = "group_" + stream_->type + "_" + number(columns);
  const std::string& sum = names_[m.sum];
  const std::string& first = names_[m.a];
  open("{");
  if (!registers) {
    // Made anew each time: held from turn to turn, the descriptors of all terms are many registers.
    line("stream_pin(group_rows);");
    line("const u64 a = " + std::to_string(stream_descriptor(true, a.shape[0])) + "ull + (" +
         stream_place(m.a) + " + group_rows >> 4);");
  }
  line("const u64 b = " + std::to_string(stream_descriptor(m.b_transposed, b.shape[0])) +
       "ull + (" + stream_place(m.b) + " >> 4);");
  line("group_fence();");
  for (int64_t k = 0; k < depth / kDepth; ++k) {
    // Along k a block of lines holds 64 terms; across it each line is one.
    auto along = [&](int64_t lines) { return k / 4 * lines * kStreamLineBytes / 16 + k % 4 * 2; };
    std::string keep = k == 0 && fresh_sum ? "0" : "1";
    if (!registers && k == 0 && fresh_sum) {
      line(function + "_first(" + sum + ", a, b);");
    } else if (!registers) {
      line(function + "_shared(" + sum + ", a + " + number(along(a.shape[0])) + ", b + " +
           number(along(b.shape[0])) + ", " + keep + ");");
    } else {
      std::string words;
      for (int64_t w = 0; w < 4; ++w) words += first + "[" + number(4 * k + w) + "], ";
      line(function + "_registers(" + sum + ", " + words + "b + " +
           number(k * kDepth * kStreamLineBytes / 16) + ", " + keep + ");");
    }
  }
  close();
}

// Four words of each lane are four matrices of eight rows and 16 bytes: of the first factor rows
// and then k; of the second, for two products, k and then columns.
void Printer::multiply_by_warps(const nest::MatrixTile& m) {
  const nest::Buffer& a = buffer(m.a);
  bool registers = a.scope == Scope::fragment;
  int64_t columns = buffer(m.sum).shape[1], depth = a.shape[1];
  internal_check(!m.a_transposed && m.b_transposed != registers, "cuda: a stream's product");
  auto address = [&](nest::BufferId id, const std::string& line_text, const std::string& at) {
    return stream_place(id) + " + (" + at + ") / 64 * " +
           number(buffer(id).shape[0] * kStreamLineBytes) + " + (" + line_text + ") * 128 + ((" +
           at + ") % 64 / 8 ^ (" + line_text + ") % 8) * 16";
  };
  line("#pragma unroll");
  open("for (int k = 0; k < " + number(depth) + "; k += 16) {");
  if (!registers) {
    line("u32 a[4];");
    line("stream_load(a, " + address(m.a, "warp * 16 + lane % 16", "k + lane / 16 * 8") + ");");
  }
  line("#pragma unroll");
  open("for (int n = 0; n < " + number(columns) + "; n += 16) {");
  line("u32 b[4];");
  if (m.b_transposed) {
    line("stream_load(b, " + address(m.b, "n + lane / 16 * 8 + lane % 8", "k + lane / 8 % 2 * 8") +
         ");");
  } else {
    line("stream_load_across(b, " + address(m.b, "k + lane % 16", "n + lane / 16 * 8") + ");");
  }
  const std::string& sum = names_[m.sum];
  std::string words = registers ? names_[m.a] + " + k / 4" : "a";
  for (int64_t half = 0; half < 2; ++half) {
    line("stream_multiply(" + stream_->type + "{}, " + sum + " + (n / 8 + " + number(half) +
         ") * 4, " + words + ", b[" + number(2 * half) + "], b[" + number(2 * half + 1) + "]);");
  }
  close();
  close();
}

// A loop over the rows: what is done for rows alone, and loops over their columns.
void Printer::stream_rows(const nest::For& loop) {
  known(loop, "row");
  nest::Block together;  // statements of rows, in a row
  auto flush = [&] {
    if (!together.empty()) stream_row_statements(together);
    together.clear();
  };
  for (const nest::Statement& s : loop.body) {
    const auto* inner = std::get_if<nest::For>(&s.what);
    if (inner == nullptr) {
      together.push_back(s);
      continue;
    }
    flush();
    known(*inner, "column");
    inner->kind == LoopKind::thread ? stream_cells(*inner) : stream_reduction(*inner);
  }
  flush();
}

// Four lanes have the same rows: one of them stores what leaves the kernel.
void Printer::stream_row_statements(const nest::Block& statements) {
  std::vector<const nest::Store*> stores = stores_in(statements);
  bool leaves = std::any_of(stores.begin(), stores.end(), [&](const nest::Store* s) {
    return buffer(s->target.buffer).scope != Scope::fragment;
  });
  replace_fragments("h", "");
  if (leaves) open(stream_->by_threads ? "if (column_lane == 0) {" : "if (lane % 4 == 0) {");
  line("#pragma unroll");
  open("for (int h = 0; h < " + number(stream_->lane_rows) + "; ++h) {");
  line("const int row = first_row + 8 * h;");
  bool between = stream_between_;
  stream_between_ = true;
  block(statements);
  stream_between_ = between;
  close();
  if (leaves) close();
  replaced_.clear();
}

// The elements of fragments, where rows and cells are numbered by these expressions.
void Printer::replace_fragments(const std::string& row, const std::string& cell) {
  for (nest::BufferId id : nest_.buffers.ids()) {
    if (nest_.buffers[id].scope != Scope::fragment) continue;
    if (is_row_fragment(id)) {
      replaced_[id] = names_[id] + "[" + row + "]";
    } else if (!cell.empty() && !is_narrow(nest_.buffers[id].type)) {
      replaced_[id] = names_[id] + "[" + cell + "]";
    }
  }
}

void Printer::open_cells(int64_t columns) {
  line("#pragma unroll");
  open("for (int n = 0; n < " + number(columns / 8) + "; ++n) {");
  line("#pragma unroll");
  open("for (int i = 0; i < " + number(2 * stream_->lane_rows) + "; ++i) {");
  const std::string column = stream_->by_threads ? "n / 2 * 16 + n % 2 * 2" : "n * 8";
  line("const int row = first_row + i / 2 * 8, column = " + column + " + first_column + i % 2;");
}

// Numbers of rows and columns are opaque in each loop over cells: else those of all cells'
// conditions, which no turn changes, and their results would be held in registers.
void Printer::stream_cells(const nest::For& loop) {
  line("stream_pin(first_row);");
  line("stream_pin(first_column);");
  int64_t columns = loop.extent.value();
  std::vector<const nest::Store*> stores = stores_in(loop.body);
  replace_fragments("i / 2", cell_number());
  if (stores.size() == 1 && is_narrow(buffer(stores[0]->target.buffer).type) &&
      buffer(stores[0]->target.buffer).scope == Scope::fragment) {
    stream_pairs(*stores[0], columns);
  } else if (stores_words(loop)) {
    stream_words(loop.body[0], *stores[0], columns);
  } else {
    open_cells(columns);
    block(loop.body);
    close();
    close();
  }
  replaced_.clear();
}

// The f32 that the body's result is rounded from, which may be rounded to that type more than once.
NodeId Printer::before_rounding(const Body& body, DType type) {
  auto converted = [&](NodeId id, DType from) {
    const Node& n = body[id];
    return n.kind == NodeKind::operation && n.op == Op::cast && body[n.args[0]].type == from;
  };
  NodeId id = body.results[0];
  while (body[id].type == type && converted(id, DType::f32)) {
    id = body[id].args[0];
    if (converted(id, type)) id = body[id].args[0];
  }
  return id;
}

// Nothing but elements of 16 bits that leave the kernel, neighbours in pairs: stored as words,
// maybe under a condition of rows.
bool Printer::stores_words(const nest::For& cells) {
  std::vector<const nest::Store*> stores = stores_in(cells.body);
  if (stream_->by_threads || cells.body.size() != 1 || stores.size() != 1) return false;
  const nest::Access& target = stores[0]->target;
  if (const auto* test = std::get_if<nest::If>(&cells.body[0].what)) {
    bool of_rows = std::none_of(test->nonnegative.begin(), test->nonnegative.end(),
                                [&](const Expr& e) { return uses_variable(e, cells.variable); });
    if (!of_rows || !test->loads.empty() || !test->otherwise.empty()) return false;
  } else if (!std::holds_alternative<nest::Store>(cells.body[0].what)) {
    return false;
  }
  bool by_value =
      std::any_of(target.values.begin(), target.values.end(), [](int v) { return v >= 0; });
  bool leaves = buffer(target.buffer).scope == Scope::argument ||
                buffer(target.buffer).scope == Scope::workspace;
  if (!leaves || by_value || !is_narrow(buffer(target.buffer).type) ||
      stores[0]->kind != nest::StoreKind::assign) {
    return false;
  }
  std::optional<LinearForm> form = linear_form(offset(target));
  if (!form) return false;
  auto column = form->terms.find(cells.variable);
  if (column == form->terms.end() || column->second != 1) return false;
  form->terms.erase(column);
  return multiple_of(simplify(from_linear(*form), ranges_), 2);
}

void Printer::stream_words(const nest::Statement& statement, const nest::Store& store,
                           int64_t columns) {
  bool quick = stream_exponentials_;
  stream_exponentials_ = true;  // what is rounded to 16 bits
  open_wide(store, columns);
  stream_exponentials_ = quick;
  line("#pragma unroll");
  open("for (int h = 0; h < 2; ++h) {");
  line("const int row = first_row + 8 * h, column = n * 8 + first_column;");
  const auto* test = std::get_if<nest::If>(&statement.what);
  std::string when = test == nullptr ? "" : "if (" + conditions(*test) + ") ";
  std::string type = std::string(memory_type(buffer(store.target.buffer).type));
  line(when + "*reinterpret_cast<u32*>(&" + element(store.target, {}, {}) + ") = stream_pair(" +
       type + "{}, wide[2 * h], wide[2 * h + 1]);");
  close();
  close();
}

// Elements of 16 bits, two in a word.
void Printer::stream_pairs(const nest::Store& store, int64_t columns) {
  open_wide(store, columns);
  const std::string& name = names_[store.target.buffer];
  std::string type = std::string(memory_type(buffer(store.target.buffer).type));
  line(name + "[2 * n] = stream_pair(" + type + "{}, wide[0], wide[1]);");
  line(name + "[2 * n + 1] = stream_pair(" + type + "{}, wide[2], wide[3]);");
  close();
}

// A loop over blocks of eight columns: what a lane's four elements are rounded from.
void Printer::open_wide(const nest::Store& store, int64_t columns) {
  NodeId wide = before_rounding(store.body, buffer(store.target.buffer).type);
  line("#pragma unroll");
  open("for (int n = 0; n < " + number(columns / 8) + "; ++n) {");
  line("float wide[4];");
  line("#pragma unroll");
  open("for (int i = 0; i < 4; ++i) {");
  line("const int row = first_row + i / 2 * 8, column = n * 8 + first_column + i % 2;");
  NodeValues values = body(store.body, store.loads, nullptr, nullptr);
  line("wide[i] = " + print_conversion(values[wide], DType::f32) + ";");
  close();
}

// What is combined over a row's columns: each lane its own, in four parts that do not wait for each
// other, then those of four lanes. Of products
// with one positive number the largest is the number times the largest, rounded alike.
void Printer::stream_reduction(const nest::For& loop) {
  std::map<nest::BufferId, nest::StoreKind> targets;
  for (const nest::Store* s : stores_in(loop.body)) {
    bool known_kind = s->kind == nest::StoreKind::max || s->kind == nest::StoreKind::add;
    internal_check(is_row_fragment(s->target.buffer) && known_kind,
                   "cuda: a loop over columns that does not combine them");
    targets[s->target.buffer] = s->kind;
  }
  nest::Block inside = loop.body;
  std::string times = targets.size() == 1 && targets.begin()->second == nest::StoreKind::max
                          ? common_scale(inside)
                          : "";
  replace_fragments("i / 2", cell_number());
  open("{");
  std::map<nest::BufferId, std::string> parts;
  for (auto [id, kind] : targets) {
    bool maximum = kind == nest::StoreKind::max;
    parts[id] = fresh("w");
    std::string start =
        maximum ? real_literal(-std::numeric_limits<double>::infinity(), DType::f32) : "0.0f";
    const std::string four = "{" + start + ", " + start + ", " + start + ", " + start + "}";
    std::string all = four;
    for (int64_t h = 1; h < stream_->lane_rows; ++h) all += ", " + four;
    line("float " + parts[id] + "[" + number(stream_->lane_rows) + "][4] = {" + all + "};");
    replaced_[id] = parts[id] + "[i / 2][n % 2 * 2 + i % 2]";
  }
  open_cells(loop.extent.value());
  block(inside);
  close();
  close();
  line("#pragma unroll");
  open("for (int h = 0; h < " + number(stream_->lane_rows) + "; ++h) {");
  for (auto [id, kind] : targets) {
    const std::string name = names_[id] + "[h]";
    const std::string part =
        (kind == nest::StoreKind::max ? "largest_of(" : "sum_of(") + parts[id] + "[h])";
    if (kind == nest::StoreKind::max) {
      line(name + " = largest(" + name + ", " + times + of_row("stream_largest") + "(" + part +
           "));");
    } else if (stream_->parts.contains(id)) {
      line(name + " = (" + name + " + " + part + ");");
    } else {
      line(name + " = (" + name + " + " + of_row("stream_sum") + "(" + part + "));");
    }
  }
  close();
  close();
  replaced_.clear();
}

// Takes the positive number out of a block's only store, of products with it: "NUMBER * ", or
// nothing.
std::string Printer::common_scale(nest::Block& statements) {
  if (statements.size() != 1) return "";
  if (auto* test = std::get_if<nest::If>(&statements[0].what)) {
    return test->otherwise.empty() ? common_scale(test->then) : "";
  }
  auto* store = std::get_if<nest::Store>(&statements[0].what);
  if (store == nullptr) return "";
  std::optional<Scaled> product = scaled(store->body, store->body.results[0]);
  if (!product || !(product->by > 0) || std::isinf(product->by)) return "";
  store->body.results = {product->value};
  return real_literal(product->by, DType::f32) + " * ";
}

// The node as a product with a number.
std::optional<Printer::Scaled> Printer::scaled(const Body& of, NodeId id) {
  const Node& n = of[id];
  if (n.kind != NodeKind::operation || n.op != Op::mul || n.type != DType::f32) return std::nullopt;
  for (size_t i : {size_t{0}, size_t{1}}) {
    if (of[n.args[i]].kind == NodeKind::real) return Scaled{n.args[1 - i], of[n.args[i]].real};
  }
  return std::nullopt;
}

// exp() in a stream's loop, where weights are rounded to 16 bits.
std::string Printer::stream_exponential(const Body& of, const Node& n, const NodeValues& values,
                                        const std::vector<nest::Access>& loads) const {
  const Node& distance = of[n.args[0]];
  bool difference = distance.kind == NodeKind::operation && distance.op == Op::sub;
  // Not rounded to 16 bits: the distance is exact first.
  if (stream_->by_threads) return "exp_of(" + values[n.args[0]].text + ")";
  std::string name = stream_between_ ? "exp_between(" : "exp_distance(";
  if (!difference) return name + values[n.args[0]].text + ", 0.0f)";
  std::string pair = column_pair(of[distance.args[1]], loads, false);
  std::string from = ", " + (pair.empty() ? values[distance.args[1]].text : pair) + ")";
  std::optional<Scaled> product = scaled(of, distance.args[0]);
  if (is_usual(of, n, loads)) {
    return "exp_near(" + values[product ? product->value : distance.args[0]].text + ", " +
           real_literal(product ? product->by : 1, DType::f32) + from;
  }
  if (!product || stream_between_) return name + values[distance.args[0]].text + from;
  return "exp_scaled(" + values[product->value].text + ", " +
         real_literal(product->by, DType::f32) + from;
}

}  // namespace tile::cuda
