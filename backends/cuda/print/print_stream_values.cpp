// Values of columns of a stream's block, which lie in shared memory: threads that have time make of
// them what all cells of the column need, a reciprocal or a factor of the exponent. And which
// values of rows allow the shorter of two exponentials.
#include <algorithm>
#include <cmath>

#include "backends/cuda/print/stream_layout.h"

namespace tile::cuda {

namespace {

constexpr int64_t kValueBytes = 4;
constexpr int64_t kPairBytes = 8;   // StreamPair of the prelude
constexpr int64_t kFlagBytes = 16;  // one word for each warp that makes values
constexpr double kFar = 134217728;  // is_far of the prelude

std::string number(int64_t n) { return std::to_string(n); }

bool is_operation(const Node& n, Op op) { return n.kind == NodeKind::operation && n.op == op; }

// How a body uses one of its nodes.
struct Uses {
  bool plain = false, divides = false, subtracted = false;
};
Uses uses_of(const Body& body, NodeId id) {
  Uses found;
  auto only_exponent = [&](NodeId distance) {
    for (size_t i = 0; i < body.nodes.size(); ++i) {
      const Node& n = body.nodes[NodeId(i)];
      bool reads = std::find(n.args.begin(), n.args.end(), distance) != n.args.end();
      if (reads && !(is_operation(n, Op::exp) && n.type == DType::f32)) return false;
    }
    return std::find(body.results.begin(), body.results.end(), distance) == body.results.end();
  };
  for (size_t i = 0; i < body.nodes.size(); ++i) {
    const Node& n = body.nodes[NodeId(i)];
    for (size_t a = 0; a < n.args.size(); ++a) {
      if (n.args[a] != id) continue;
      bool second = a == 1 && n.type == DType::f32;
      if (second && is_operation(n, Op::div)) {
        found.divides = true;
      } else if (second && is_operation(n, Op::sub) && only_exponent(NodeId(i))) {
        found.subtracted = true;
      } else {
        found.plain = true;
      }
    }
  }
  bool result = std::find(body.results.begin(), body.results.end(), id) != body.results.end();
  found.plain = found.plain || result;
  return found;
}

}  // namespace

void Printer::place_values(StreamLayout& l) const {
  std::map<nest::BufferId, Uses> used;
  for (const nest::Store* s : stores_in(l.loop->body)) {
    for (size_t i = 0; i < s->body.nodes.size(); ++i) {
      const Node& n = s->body.nodes[NodeId(i)];
      if (n.kind != NodeKind::load || !l.values.contains(s->loads[n.slot].buffer)) continue;
      Uses& all = used[s->loads[n.slot].buffer];
      Uses here = uses_of(s->body, NodeId(i));
      all = {all.plain || here.plain, all.divides || here.divides,
             all.subtracted || here.subtracted};
    }
  }
  for (auto& [id, value] : l.values) {
    int64_t columns = buffer(id).shape[0];
    auto place = [&](bool wanted, int64_t bytes) {
      if (!wanted) return std::optional<int64_t>();
      int64_t at = l.value_bytes;
      l.value_bytes += columns * bytes;
      return std::optional(at);
    };
    bool subtracted = used[id].subtracted;
    value.divisor = place(used[id].divides, kPairBytes);
    value.subtrahend = place(subtracted && !l.by_threads, kPairBytes);
    value.plain = place(used[id].plain || (subtracted && l.by_threads), kValueBytes);
  }
  if (!l.values.empty()) l.value_bytes += kFlagBytes;
}

// By `count` threads from the given one on. Columns that the tensor does not have are zeros. Warps
// of a group that does nothing else tell whether some value is odd.
void Printer::fill_values(int64_t first, int64_t count) {
  bool tells = stream_->bulk && tells_odd_columns();
  auto made = [&](std::optional<int64_t> at, const char* type, const char* value) {
    if (at) line(value_place(*at, type) + "[at] = " + value + ";");
  };
  if (tells) line("bool odd = false;");
  for (const auto& [id, value] : stream_->values) {
    int64_t columns = buffer(id).shape[0];
    ThreadCopy how = thread_copy(*value.copy, true, columns);
    line("#pragma unroll 1");  // warps that copy have few registers
    open("for (int at = threadIdx.x - " + number(first) + "; at < " + number(columns) +
         "; at += " + number(count) + ") {");
    line("const int line = 0;");
    line(how.place);
    line("const f32 value = inside && left > 0 ? *from : 0.0f;");
    made(value.divisor, "StreamPair", "stream_divisor(value)");
    made(value.subtrahend, "StreamPair", "stream_subtrahend(value)");
    made(value.plain, "f32", "value");
    if (tells && value.divisor) line("odd = odd || is_odd_divisor(value);");
    if (tells && value.subtrahend) line("odd = odd || is_far(value);");
    close();
  }
  if (!tells) return;
  line("odd = stream_any(odd);");
  line("if (lane == 0) " + value_place(stream_->value_bytes - kFlagBytes, "u32") +
       "[threadIdx.x / 32 - 1] = odd;");
}
bool Printer::tells_odd_columns() const {
  return std::any_of(stream_->values.begin(), stream_->values.end(), [](const auto& v) {
    return v.second.divisor.has_value() || v.second.subtrahend.has_value();
  });
}
// The first value of a kind in the stage `slot`.
std::string Printer::value_place(int64_t at, const char* type) const {
  return "reinterpret_cast<" + std::string(type) + "*>(values + slot * " +
         number(stream_->value_bytes) + " + " + number(at) + ")";
}

// Of the stage whose block a turn of the loop computes with.
void Printer::name_values() {
  auto named = [&](std::optional<int64_t> at, const char* type, const std::string& name) {
    if (at) {
      line("const " + std::string(type) + "* const " + name + " = " + value_place(*at, type) + ";");
    }
  };
  for (const auto& [id, value] : stream_->values) {
    named(value.divisor, "StreamPair", names_[id] + "_divisor");
    named(value.subtrahend, "StreamPair", names_[id] + "_subtrahend");
    named(value.plain, "f32", names_[id]);
  }
  if (!stream_->bulk || !tells_odd_columns()) return;
  line("const u32* const flags = " + value_place(stream_->value_bytes - kFlagBytes, "u32") + ";");
  line("const bool odd_columns = (flags[0] | flags[1] | flags[2]) != 0;");
}

// The element of a column's pairs that the node loads: its text, or nothing.
std::string Printer::column_pair(const Node& n, const std::vector<nest::Access>& loads,
                                 bool divides) const {
  if (stream_ == nullptr || n.kind != NodeKind::load) return "";
  const nest::Access& from = loads[n.slot];
  auto value = stream_->values.find(from.buffer);
  if (value == stream_->values.end()) return "";
  bool made = divides ? value->second.divisor.has_value() : value->second.subtrahend.has_value();
  if (!made) return "";
  return names_[from.buffer] + (divides ? "_divisor[" : "_subtrahend[") + place(from, {}, {}) + "]";
}
// A load of what only its pairs hold.
bool Printer::only_pairs(const Node& n, const std::vector<nest::Access>& loads) const {
  if (stream_ == nullptr || n.kind != NodeKind::load) return false;
  auto value = stream_->values.find(loads[n.slot].buffer);
  return value != stream_->values.end() && !value->second.plain;
}

// Fragments of rows one of whose elements the node is, where it is that or a number between.
bool Printer::chosen_rows(const Body& of, NodeId id, const std::vector<nest::Access>& loads,
                          double most, std::set<nest::BufferId>& rows) const {
  const Node& n = of[id];
  if (n.kind == NodeKind::real) return std::abs(n.real) < most;
  if (n.kind == NodeKind::load) {
    rows.insert(loads[n.slot].buffer);
    return is_row_fragment(loads[n.slot].buffer);
  }
  return is_operation(n, Op::select) && chosen_rows(of, n.args[1], loads, most, rows) &&
         chosen_rows(of, n.args[2], loads, most, rows);
}

// What a quotient divides by, or an exponent subtracts: a test of it alone, under which no shorter
// form may be taken; nothing where that is not known.
std::string Printer::odd_operand(const Body& of, const Node& n,
                                 const std::vector<nest::Access>& loads) const {
  bool divides = is_operation(n, Op::div);
  NodeId operand = divides ? n.args[1] : of[n.args[0]].args[1];
  if (!column_pair(of[operand], loads, divides).empty()) {
    return stream_->bulk ? "odd_columns" : "";
  }
  std::set<nest::BufferId> rows;
  if (!chosen_rows(of, operand, loads, divides ? 0 : kFar, rows)) return "";
  std::string test;
  for (nest::BufferId id : rows) {
    for (const char* half : {"[0]", "[1]"}) {
      test += std::string(test.empty() ? "" : " || ") + (divides ? "is_odd_divisor(" : "is_far(") +
              names_[id] + half + ")";
    }
  }
  return test;
}

// Whether some operand of the cells' quotients and exponents is odd: a condition under which the
// longer forms are needed. Nothing where there are none, or where they cost no more.
std::string Printer::odd_cells(const nest::For& cells) const {
  std::set<std::string> tests;
  for (const nest::Store* s : stores_in(cells.body)) {
    for (const Node& n : s->body.nodes) {
      bool exponent = is_operation(n, Op::exp) && is_operation(s->body[n.args[0]], Op::sub);
      if (n.type != DType::f32 || !(exponent || is_operation(n, Op::div))) continue;
      std::string test = odd_operand(s->body, n, s->loads);
      int scale = 0;
      bool exact = false;  // an exponent whose factor is a part of the power of two's
      if (exponent && test != "odd_columns") {
        std::optional<Scaled> product = scaled(s->body, s->body[n.args[0]].args[0]);
        exact = !product || std::abs(std::frexp(product->by, &scale)) == 0.5;
      }
      if (!test.empty() && !exact) tests.insert(test);
    }
  }
  std::string all;
  for (const std::string& t : tests) all += (all.empty() ? "" : " || ") + t;
  return all;
}

std::string Printer::odd_statement(const nest::Statement& s) const {
  const auto* rows = std::get_if<nest::For>(&s.what);
  if (!stream_exponentials_ || stream_either_ || stream_->by_threads || rows == nullptr) return "";
  if (rows->kind != nest::LoopKind::thread || rows->body.size() != 1) return "";
  const auto* cells = std::get_if<nest::For>(&rows->body[0].what);
  bool all = cells != nullptr && cells->kind == nest::LoopKind::thread;
  return all ? odd_cells(*cells) : "";
}

// The end of the statements of rows from the given one on, which decides between both forms of
// cells, that can be done in either: so that sums of weights are made beside their exponentials.
size_t Printer::usual_run(const nest::Block& statements, size_t begin,
                          const std::string& odd) const {
  size_t end = begin + 1;
  for (; end < statements.size(); ++end) {
    const auto* rows = std::get_if<nest::For>(&statements[end].what);
    if (rows == nullptr || rows->kind != nest::LoopKind::thread) break;
    if (is_product(statements, end)) break;
    std::string own = odd_statement(statements[end]);
    if (!own.empty() && own != odd) break;
  }
  // The values that are tested stay as they are.
  const nest::Block run(statements.begin() + static_cast<std::ptrdiff_t>(begin),
                        statements.begin() + static_cast<std::ptrdiff_t>(end));
  std::vector<const nest::Store*> stores = stores_in(run);
  bool changes = std::any_of(stores.begin(), stores.end(), [&](const nest::Store* s) {
    return is_row_fragment(s->target.buffer) &&
           odd.find("(" + names_[s->target.buffer] + "[") != std::string::npos;
  });
  return changes ? begin + 1 : end;
}

void Printer::either_run(const nest::Block& run, const std::string& odd) {
  stream_either_ = true;
  open("if (!(" + odd + ")) {");
  stream_usual_ = odd;
  stream_block(run);
  settle_stored(run);
  stream_usual_.clear();
  close(" else {");
  ++indent_;
  stream_block(run);
  settle_stored(run);
  close();
  stream_either_ = false;
}

// What both forms end with alike stays in each of them, beside its exponentials.
void Printer::settle_stored(const nest::Block& run) {
  if (!stream_->groups) return;
  std::set<nest::BufferId> stored;
  for (const nest::Store* s : stores_in(run)) {
    if (s->kind == nest::StoreKind::multiply && !is_row_fragment(s->target.buffer)) {
      stored.insert(s->target.buffer);
    }
  }
  for (nest::BufferId id : stored) settle(id);
}

// No operand of the node is odd in the loop being printed.
bool Printer::is_usual(const Body& of, const Node& n,
                       const std::vector<nest::Access>& loads) const {
  if (stream_usual_.empty()) return false;
  std::string test = odd_operand(of, n, loads);
  return !test.empty() && stream_usual_.find(test) != std::string::npos;
}

}  // namespace tile::cuda
