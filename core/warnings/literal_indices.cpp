#include <algorithm>

#include "core/warnings/checks.h"

namespace tile::warnings {
namespace {

const Literal* literal_of(const Program& program, TensorId id) {
  for (const Statement& s : program.statements) {
    if (s.result == id) return std::get_if<Literal>(&s.what);
  }
  return nullptr;
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
    const Literal* indices = literal_of(program, call->tensors[1]);
    int64_t extent = indexed_extent(program, bound, *call, s.result);
    if (indices == nullptr || extent < 1) continue;
    auto outside = std::find_if(indices->integers.begin(), indices->integers.end(),
                                [&](int64_t i) { return i < 0 || i >= extent; });
    if (outside == indices->integers.end()) continue;
    warn(list, Stage::bind, "index", call->spans.size() > 1 ? call->spans[1] : s.span,
         "the index " + std::to_string(*outside) + " is outside of 0 to " +
             std::to_string(extent - 1) + " and is taken as the nearest of these",
         "indices count from 0");
  }
}

}  // namespace tile::warnings
