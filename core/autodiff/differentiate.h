// Differentiation of a Program (core/language/tile/REFERENCE.md, section 7): a symbolic
// transformation that needs no shapes.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/program.h"

namespace tile {

// Programs to use for the vector-Jacobian products of a program's outputs, by output (rule 7.4).
// See check_given_gradient.
using GivenGradients = std::map<std::string, std::shared_ptr<const Program>>;

// For tests that compare a gradient with what it would be without a rule.
struct GradientOptions {
  // Names of rules that are not applied. "shifts": a tensor whose shift or scaling changes nothing
  // has no gradient (7.1a). "conditions": the conditions of a sum bound the sums that read its
  // adjoint (7.2a). "means": sums of distances from a mean are zero (7.1a).
  std::vector<std::string> skip = {};
  bool skips(std::string_view rule) const;
};

// The program whose outputs are those of `program` followed by, for each input named in `wrt`, the
// vector-Jacobian product of output `of` with a new last input (the seed, shape of `of`). Gradients
// are named "D" and the input's name, the seed "D" and the output's.
//
// The result of a Tile program prints as Tile text and parses again; every result can be
// differentiated again. Folds of MFG and Lift have derivatives where sizes, run-time parameters,
// other indices or data with a bound set their length; a parameter that sets the length of a fold,
// or an index that is differentiated, sets sizes of the result: another value is bound anew. A
// gradient has the type of its tensor where the program converts between floats (each is rounded
// once, behind its sum); else that in which it is computed, another where f16 is read with f32.
// Bind refuses an integer `of` and a gradient with respect to an integer input. Throws
// Failure (bind) for an unknown name or an operation without derivative.
Program differentiate(const Program& program, const std::string& of,
                      const std::vector<std::string>& wrt, const GivenGradients& given = {},
                      const GradientOptions& options = {});

// Throws Failure (bind) unless `given` can be the vector-Jacobian product of output `of`: its
// inputs are the seed, "D" and the output's name, and any inputs and outputs of `program`, by name;
// its outputs are "D" and an input's name.
void check_given_gradient(const Program& program, const std::string& of, const Program& given);

}  // namespace tile
