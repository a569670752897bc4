// lower: Kernel + Schedule -> Nest. The passes over nests (core/nest/passes/nest_passes.h) then
// make it ready for code.
#pragma once

#include <vector>

#include "core/kernel/argument_layout.h"
#include "core/kernel/kernel.h"
#include "core/kernel/schedule.h"
#include "core/nest/nest.h"
#include "core/schedule/search/parametric_tiling.h"

namespace tile {

struct ClassKernel;  // core/schedule/search/dynamic_extent.h

// The nest's arguments are arguments_of(kernel), then the copies of prepackings(). Cells that no
// piece covers are filled first; partial sums, masks and exact loop bounds follow the schedule.
nest::Nest lower(const Kernel& kernel, const Schedule& schedule, const Target& target,
                 const Strides& strides = {});
// The nest for a class of sizes, whose one parameter given at launch is the extent. The schedule
// suits the class; every tensor is dense.
nest::Nest lower(const ClassKernel& kernel, const Schedule& schedule, const Target& target);
// A copy of a tensor with fixed elements, which a kernel's nest reads where it would pack them in
// each run.
struct Prepacking {
  TensorId source;
  nest::Nest nest;  // arguments: the source; the copy, whose bytes are zero before
};
// Those of the kernel under a schedule, in the order of the arguments of its nest; of a class of
// sizes those of its kernel. Empty where no tensor is fixed.
std::vector<Prepacking> prepackings(const Kernel& kernel, const Schedule& schedule,
                                    const Target& target, const Strides& strides = {});
// The nest of a form that schedules share, whose parameters given at launch are what each of them
// has as arguments (see SharedKernel).
nest::Nest lower(const Kernel& kernel, const SharedForm& form, const Target& target,
                 const Strides& strides = {});
// The nest of a Scatter: arguments updates, indices, result.
nest::Nest lower_scatter(const Scatter& scatter, const BoundTensors& tensors, const Target& target,
                         const Strides& strides = {});

}  // namespace tile
