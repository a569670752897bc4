// gather and scatter at positions that the text and the shapes alone say are outside.
#include <algorithm>
#include <optional>

#include "core/ir/analysis/integer_range.h"
#include "core/warnings/checks.h"

namespace tile::warnings {
namespace {

std::string words(const IntegerRange& range) {
  bool one = range.lo == range.hi;
  return one ? "the index " + std::to_string(range.lo) + " is"
             : "the indices " + std::to_string(range.lo) + " to " + std::to_string(range.hi) +
                   " are";
}

// The first of those written out that is outside; nullopt: none is, or they are not written out.
std::optional<IntegerRange> outside_literal(const Program& program, TensorId id, int64_t extent) {
  for (const Statement& s : program.statements) {
    const auto* literal = s.result == id ? std::get_if<Literal>(&s.what) : nullptr;
    if (literal == nullptr) continue;
    for (int64_t i : literal->integers) {
      if (i < 0 || i >= extent) return IntegerRange{i, i};
    }
  }
  return std::nullopt;
}

// Where the statement that makes the indices says of all of them that they are outside.
std::optional<IntegerRange> outside_range(const BoundProgram& bound, const std::string& name,
                                          int64_t extent) {
  for (const BoundStatement& s : bound.statements) {
    const auto* c = std::get_if<Contraction>(&s);
    if (c == nullptr || c->outputs.empty() || c->pieces.size() != 1) continue;
    bool made = bound.tensors[c->outputs[0]].name == name && c->aggregation == Aggregation::assign;
    if (!made || c->fill) continue;
    const Piece& piece = c->pieces[0];
    std::optional<IntegerRange> range = integer_ranges(piece)[piece.body.results[0]];
    if (range && (range->hi < 0 || range->lo >= extent)) return range;
  }
  return std::nullopt;
}

// The extent that the indices of gather or scatter count in; -1: another function.
int64_t indexed_extent(const Program& program, const BoundProgram& bound, const Call& call,
                       TensorId result) {
  auto extent = [&](TensorId id) -> int64_t {
    const std::string& name = program.tensors[id].name;
    for (const BoundTensor& t : bound.tensors) {
      if (t.name == name) return t.shape.empty() ? -1 : t.shape[0];
    }
    return -1;
  };
  if (call.function == Function::gather) return extent(call.tensors[0]);
  return call.function == Function::scatter ? extent(result) : -1;
}

}  // namespace

void check_literal_indices(const Program& program, const BoundProgram& bound, Warnings& list) {
  for (const Statement& s : program.statements) {
    const auto* call = std::get_if<Call>(&s.what);
    if (call == nullptr || call->tensors.size() < 2) continue;
    int64_t extent = indexed_extent(program, bound, *call, s.result);
    if (extent < 1) continue;
    TensorId indices = call->tensors[1];
    std::optional<IntegerRange> outside = outside_literal(program, indices, extent);
    if (!outside) outside = outside_range(bound, program.tensors[indices].name, extent);
    if (!outside) continue;
    warn(list, Stage::bind, "index", call->spans.size() > 1 ? call->spans[1] : s.span,
         words(*outside) + " outside of 0 to " + std::to_string(extent - 1) +
             " and taken as the nearest of these",
         "indices count from 0");
  }
}

}  // namespace tile::warnings
