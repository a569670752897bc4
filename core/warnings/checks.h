// The checks that make warnings, each in a file of its own.
#pragma once

#include <string>
#include <vector>

#include "core/ir/bound.h"
#include "core/ir/program.h"
#include "core/lattice/lattice.h"

namespace tile::warnings {

using Warnings = std::vector<Diagnostic>;

inline void warn(Warnings& list, Stage stage, std::string code, Span span, std::string message,
                 std::string hint) {
  list.push_back(
      {stage, std::move(code), std::move(message), std::move(hint), span, Severity::warning});
}

// A contraction of the text and what bind made of it.
struct Checked {
  const Program& program;
  const BoundProgram& bound;
  const SymbolicContraction& symbolic;
  const Contraction& contraction;
  const std::string& name;  // of the result

  const BoundTensor& tensor(TensorId id) const { return bound.tensors[id]; }
  const BoundTensor& result() const { return tensor(contraction.outputs[0]); }
};

// Of the indices of the contraction's piece, by all that it reads, writes and requires.
lattice::Bounds bounds_of_indices(const Checked& checked);

void check_unread_inputs(const Program& program, Warnings& list);
void check_unneeded_statements(const Program& program, Warnings& list);
void check_unread_names(const Program& program, Warnings& list);
void check_truncated(const Program& program, Warnings& list);
void check_aligned(const Program& program, const BoundProgram& bound, Warnings& list);
void check_sizes_of_outputs(const Program& program, const BoundProgram& bound, Warnings& list);
void check_points(const Checked& checked, Warnings& list);
void check_overflow(const Checked& checked, Warnings& list);
void check_fractions(const Checked& checked, Warnings& list);
void check_literal_indices(const Program& program, const BoundProgram& bound, Warnings& list);

}  // namespace tile::warnings
