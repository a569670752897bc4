// Which schedules mean something for a kernel on a target.
#pragma once

#include <string>
#include <vector>

#include "core/kernel/schedule.h"

namespace tile {

// Empty when legal for the kernel and target; else the first broken rule, in words.
std::string illegal(const Schedule& schedule, const Kernel& kernel, const Target& target);

// Empty when one piece's schedule is legal; else the first broken rule. The first `shared` outer
// loops are around all stages of the kernel.
std::string illegal_piece(const PieceSchedule& schedule, const Piece& piece, const Contraction& c,
                          const Kernel& kernel, const Target& target, size_t shared = 0);
// Empty where the loops bound `matrix` mean something; else the first broken rule.
std::string illegal_tiles(const PieceSchedule& schedule, const Piece& piece, const Contraction& c,
                          const BoundTensors& tensors, const Target& target);

namespace gpu {
struct LineForm;

// Empty when the piece's GPU form is legal; else the first broken rule.
std::string illegal_form(const PieceSchedule& schedule, const Piece& piece, const Contraction& c,
                         const Kernel& kernel, const Target& target);
// Empty where a kernel's rows may be held in registers so; else the first broken rule.
std::string illegal_lines(const Schedule& schedule, const Kernel& kernel, const Target& target);
// The same of a kernel whose form is known.
std::string illegal_lines(const GpuLines& g, const LineForm& form, const Kernel& kernel,
                          const Target& target);
// Empty where blocks of a streamed axis may pass by so; else the first broken rule.
std::string illegal_stream(const Schedule& schedule, const Kernel& kernel, const Target& target);

}  // namespace gpu

}  // namespace tile
