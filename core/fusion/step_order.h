// The order of steps: what each one reads and makes, where several may become one, and the guard
// over what grouping made of a program.
#pragma once

#include <optional>
#include <vector>

#include "core/fusion/group.h"

namespace tile {

// A step that is no kernel, as the statement that it is.
BoundStatement statement_of(const Step& step);

StepUse use_of(const Step& step, const BoundProgram& program);

// Whether one step made of all the members, which ascend, can stand at this place among them: no
// step between reads what a member makes that comes to stand behind it, or makes what a member
// reads that comes to stand before it.
bool can_stand(const OpenSteps& steps, const std::vector<size_t>& members, size_t at,
               const BoundProgram& program);
// The first of the members' places where it can. Nothing: it and a step between need each other.
std::optional<size_t> common_place(const OpenSteps& steps, const std::vector<size_t>& members,
                                   const BoundProgram& program);

// The steps between the members that read what these make, or what such steps make, in order: they
// can stand behind a step made of all members. Nothing: a member reads what one of them makes.
std::optional<std::vector<size_t>> steps_behind(const OpenSteps& steps,
                                                const std::vector<size_t>& members,
                                                const BoundProgram& program);

}  // namespace tile
