// Programs divided among ranks and run in lockstep, put together again.
#pragma once

#include <string>
#include <vector>

#include "core/distribute/choice/choice.h"
#include "core/distribute/partition.h"
#include "core/interpret/interpret.h"

namespace tile::test {

// What owners compute has the undivided program's bits if terms are added in one order.
inline const InterpretOptions kInOrder{.in_order = true};

PartitionedProgram divided(const BoundProgram& program, const std::string& mesh,
                           const std::string& layouts, bool divide_terms = true);
// Layouts that `layouts` does not name are chosen, for ranks and links of these figures.
Choice chosen(const BoundProgram& program, const std::string& mesh, const std::string& layouts,
              const ChoiceOptions& options = {});
PartitionedProgram divided_as(const BoundProgram& program, const Choice& choice,
                              const ChoiceOptions& options = {});
// The rendered error of the mesh, the layouts or their fit; empty without one.
std::string layout_error(const BoundProgram& program, const std::string& mesh,
                         const std::string& layouts);

// Every rank's parts of whole tensors. Where they are partial sums the first rank along those axes
// has all, the others have zeros.
std::vector<std::vector<HostTensor>> scattered(const PartitionedProgram& p,
                                               const BoundProgram& program,
                                               const std::vector<HostTensor>& inputs);
// The outputs from all ranks' parts. Ranks that have the same part must have the same bits.
std::vector<HostTensor> put_together(const PartitionedProgram& p, const BoundProgram& program,
                                     const std::vector<std::vector<HostTensor>>& outputs);
std::vector<HostTensor> run_ranks(const PartitionedProgram& p, const BoundProgram& program,
                                  const std::vector<HostTensor>& inputs);
void expect_same_bits(const std::vector<HostTensor>& expected, const std::vector<HostTensor>& got);

}  // namespace tile::test
