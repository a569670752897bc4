// Values of columns of a stream's block, which lie in shared memory: threads that have time make of
// them what all cells of the column need, a reciprocal or a factor of the exponent. And which
// values of rows allow the shorter of two exponentials.
#include <algorithm>
#include <cmath>
#include <functional>

#include "backends/cuda/print/stream_layout.h"

namespace tile::cuda {

using nest::Scope;

namespace {

constexpr int64_t kValueBytes = 4;
constexpr int64_t kPairBytes = 8;   // StreamPair of the prelude
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
    value.divisor = place(used[id].divides, kPairBytes);
    value.subtrahend = place(used[id].subtracted, kPairBytes);
    value.plain = place(used[id].plain, kValueBytes);
  }
}

// By `count` threads from the given one on. Columns that the tensor does not have are zeros.
void Printer::fill_values(int64_t first, int64_t count) {
  auto made = [&](std::optional<int64_t> at, const char* type, const char* value) {
    if (at) line(value_place(*at, type) + "[at] = " + value + ";");
  };
  for (const auto& [id, value] : stream_->values) {
    int64_t columns = buffer(id).shape[0];
    ThreadCopy how = thread_copy(*value.copy, true, columns);
    open("for (int at = threadIdx.x - " + number(first) + "; at < " + number(columns) +
         "; at += " + number(count) + ") {");
    line("const int line = 0;");
    line(how.place);
    line("const f32 value = inside && left > 0 ? *from : 0.0f;");
    made(value.divisor, "StreamPair", "stream_divisor(value)");
    made(value.subtrahend, "StreamPair", "stream_subtrahend(value)");
    made(value.plain, "f32", "value");
    close();
  }
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

// Fragments of rows one of whose elements the node is, where it is that or a small number.
bool Printer::chosen_rows(const Body& of, NodeId id, const std::vector<nest::Access>& loads,
                          std::set<nest::BufferId>& rows) const {
  const Node& n = of[id];
  if (n.kind == NodeKind::real) return std::abs(n.real) < kFar;
  if (n.kind == NodeKind::load) {
    rows.insert(loads[n.slot].buffer);
    return is_row_fragment(loads[n.slot].buffer);
  }
  return is_operation(n, Op::select) && chosen_rows(of, n.args[1], loads, rows) &&
         chosen_rows(of, n.args[2], loads, rows);
}

// Whether no value of a row that exponents of products with a number subtract is far: a condition
// under which such an exponent is one multiply-add. Nothing where there is none, or it is one
// anyway.
std::string Printer::near_rows(const nest::For& cells) const {
  std::set<nest::BufferId> rows;
  for (const nest::Store* s : stores_in(cells.body)) {
    for (const Node& n : s->body.nodes) {
      if (!is_operation(n, Op::exp) || n.type != DType::f32) continue;
      const Node& distance = s->body[n.args[0]];
      if (!is_operation(distance, Op::sub)) continue;
      std::optional<Scaled> product = scaled(s->body, distance.args[0]);
      int exponent = 0;
      if (!product || std::abs(std::frexp(product->by, &exponent)) == 0.5) continue;
      if (!chosen_rows(s->body, distance.args[1], s->loads, rows)) return "";
    }
  }
  std::string far;
  for (nest::BufferId id : rows) {
    for (const char* half : {"[0]", "[1]"}) {
      far += (far.empty() ? "is_far(" : " || is_far(") + names_[id] + half + ")";
    }
  }
  return far.empty() ? "" : "!(" + far + ")";
}

}  // namespace tile::cuda
