#include "core/warnings/warnings.h"

#include <algorithm>

#include "core/warnings/checks.h"

namespace tile {
namespace {

using warnings::Checked;
using warnings::Warnings;

// A program that differentiation made is not its author's text.
bool is_derived(const Program& program) {
  return std::any_of(program.tensors.begin(), program.tensors.end(),
                     [](const Tensor& t) { return t.seed_of.has_value() || t.differentiated; });
}

const Contraction* contraction_of(const BoundProgram& bound, const std::string& name) {
  for (const BoundStatement& s : bound.statements) {
    const auto* c = std::get_if<Contraction>(&s);
    if (c == nullptr || c->outputs.empty() || c->pieces.size() != 1) continue;
    if (bound.tensors[c->outputs[0]].name == name) return c;
  }
  return nullptr;
}

void check_contractions(const Program& program, const BoundProgram& bound, Warnings& list) {
  for (const Statement& s : program.statements) {
    const auto* symbolic = std::get_if<SymbolicContraction>(&s.what);
    // Those of MFG and Lift are made of other constructs.
    if (symbolic == nullptr || symbolic->typed) continue;
    const std::string& name = program.tensors[s.result].name;
    const Contraction* contraction = contraction_of(bound, name);
    if (contraction == nullptr) continue;
    Checked checked{program, bound, *symbolic, *contraction, name};
    warnings::check_points(checked, list);
    warnings::check_overflow(checked, list);
  }
}

void sort_by_place(Warnings& list) {
  std::stable_sort(list.begin(), list.end(), [](const Diagnostic& a, const Diagnostic& b) {
    return a.span.begin < b.span.begin;
  });
}

}  // namespace

std::vector<Diagnostic> warnings_of(const Program& program) {
  Warnings list;
  if (is_derived(program)) return list;
  warnings::check_unread_inputs(program, list);
  warnings::check_unneeded_statements(program, list);
  warnings::check_unread_names(program, list);
  warnings::check_truncated(program, list);
  sort_by_place(list);
  return list;
}

std::vector<Diagnostic> warnings_of(const Program& program, const BoundProgram& bound) {
  if (is_derived(program)) return {};
  Warnings list = warnings_of(program);
  check_contractions(program, bound, list);
  warnings::check_literal_indices(program, bound, list);
  sort_by_place(list);
  return list;
}

}  // namespace tile
