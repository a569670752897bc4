// `tile conform`: runs files of conformance cases.
#pragma once

#include <string>
#include <vector>

#include "runtime/cli/session.h"

namespace tile::cli {

// Prints one line for each failing case and last "N passed, N failed, N skipped". Returns the
// process's exit status.
int conform(const std::vector<std::string>& files, const std::string& filter,
            const Options& options);

}  // namespace tile::cli
