// Expressions in the places of a tensor's cell, and conditions on them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/autodiff/derivation/symbolic_shape.h"
#include "core/ir/program.h"

namespace tile {

// The place along dimension d of a cell.
Expr cell_name(size_t d);

// An expression over a contraction's indices as one over the cell that the point belongs to;
// nullopt: the cell does not say.
std::optional<Expr> in_cell(const SymbolicContraction& contraction, const Expr& e);

// Whether an access reads the element that its index along d, or all of its indices, name.
bool in_range(const SymbolicAccess& access, size_t d);
bool reads_in_range(const SymbolicAccess& access);

// Whether the output's indices name the point.
bool has_single_points(const SymbolicContraction& contraction);

// The extents of the contraction's indices where each runs through whole dimensions and nothing
// else bounds it, so that every cell has points unless a size is 0; nullopt: the text does not say.
using IndexRanges = std::map<std::string, Expr>;
std::optional<IndexRanges> whole_ranges(const SymbolicContraction& contraction,
                                        const SymbolicShapes& shapes);

// Where a tensor, an adjoint, may be other than zero: conditions on its cell, all of which hold
// there. None: anywhere.
using CellConditions = std::vector<SymbolicConstraint>;

// Those of the contraction's first `count` constraints that its cells decide; the bounds of its
// output are none.
CellConditions cell_conditions(const SymbolicContraction& contraction, size_t count);
CellConditions common_conditions(const CellConditions& a, const CellConditions& b);

// Lets the contraction visit only points whose cell `index` of a tensor meets its conditions.
void require(SymbolicContraction& contraction, const CellConditions& conditions,
             const std::vector<Expr>& index);

// The sum of `whole` over what broadcasting repeated, over points that meet the conditions, in the
// shape of `part`; nullopt: the text does not say which dimensions are repeated.
std::optional<SymbolicContraction> conditional_sum(TensorId whole, const SymbolicShape& shape,
                                                   const SymbolicShape& part,
                                                   const CellConditions& conditions, Span span);

}  // namespace tile
