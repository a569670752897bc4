#include "core/warnings/warnings.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

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

using ByName = std::unordered_map<std::string_view, const Contraction*>;
ByName contractions_of(const BoundProgram& bound) {
  ByName result;
  for (const BoundStatement& s : bound.statements) {
    const auto* c = std::get_if<Contraction>(&s);
    if (c == nullptr || c->outputs.empty() || c->pieces.size() != 1) continue;
    result.emplace(bound.tensors[c->outputs[0]].name, c);
  }
  return result;
}

void check_contractions(const Program& program, const BoundProgram& bound, Warnings& list) {
  const ByName contractions = contractions_of(bound);
  for (const Statement& s : program.statements) {
    const auto* symbolic = std::get_if<SymbolicContraction>(&s.what);
    // Those of MFG and Lift are made of other constructs.
    if (symbolic == nullptr || symbolic->typed) continue;
    const std::string& name = program.tensors[s.result].name;
    auto contraction = contractions.find(name);
    if (contraction == contractions.end()) continue;
    Checked checked{program, bound, *symbolic, *contraction->second, name};
    warnings::check_points(checked, list);
    warnings::check_overflow(checked, list);
    warnings::check_fractions(checked, list);
  }
}

// Nobody reads more, and each is shown with its line, which is looked for in the whole text.
constexpr size_t kMostWarnings = 200;

void sort_by_place(Warnings& list) {
  std::stable_sort(list.begin(), list.end(), [](const Diagnostic& a, const Diagnostic& b) {
    return a.span.begin < b.span.begin;
  });
  if (list.size() > kMostWarnings) list.resize(kMostWarnings);
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
  warnings::check_aligned(program, bound, list);
  warnings::check_sizes_of_outputs(program, bound, list);
  sort_by_place(list);
  return list;
}

}  // namespace tile
