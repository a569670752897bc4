// What a tuning record is for, beside the kernel: the processor or GPU as later builds see it too.
#pragma once

#include <string>

#include "backends/backend.h"

namespace tile {

// One line: the maker's name, threads, vectors, caches, and what else changes which schedule is
// best. Neither builds nor constants of the cost model are in it, so that an upgrade keeps what was
// tuned. `skipped_passes`: names of passes left out, separated by commas.
std::string processor_key(const Backend& backend, const Target& target,
                          const std::string& skipped_passes);

// The name of this machine, which records carry.
std::string host_name();

}  // namespace tile
