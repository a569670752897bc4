// `tile conform`: runs files of conformance cases.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/cli/session.h"

namespace tile::cli {

// How a case's program is run on its inputs; throws for what is wrong.
using RunProgram =
    std::function<std::vector<HostTensor>(LoadedProgram&, const std::vector<HostTensor>&)>;

// Prints one line for each failing case and last "N passed, N failed, N skipped". Returns the
// process's exit status. Without `run` a program is run once.
int conform(const std::vector<std::string>& files, const std::string& filter,
            const Options& options, RunProgram run = {});

}  // namespace tile::cli
