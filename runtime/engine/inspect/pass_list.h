// The passes of all stages, as people name them.
#pragma once

#include <string>
#include <vector>

#include "core/support/pass.h"

namespace tile {

// The step between code generation and launches that is the runtime's own.
inline constexpr PassInfo kAvoidSpills{
    PassStage::code, "avoid-spills", true,
    "takes another schedule where the compiler runs out of registers"};
inline constexpr PassInfo kPlanLaunches{PassStage::code, "plan-launches", false,
                                        "plans memory and calls; packs constant inputs"};

// Every row, stage by stage, in order.
std::vector<PassInfo> all_passes();
// A row for each line: stage, name, whether it is optional, what it does.
std::string pass_table();

// Of a pass that may be left out. Throws Failure (stage run, code "argument") for any other name,
// whose hint names the nearest pass or those that may be.
void require_optional(const std::string& name);
// Of any pass, the same.
PassInfo require_pass(const std::string& name);

}  // namespace tile
