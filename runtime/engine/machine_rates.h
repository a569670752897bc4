// Measured rates of this machine, kept as JSON beside the disk cache: machine-HASH.json, one for
// each CPU and build. A file that cannot be read is none.
#pragma once

#include <optional>
#include <string>

#include "core/schedule/rates.h"

namespace tile {

std::optional<MachineRates> load_rates(const std::string& directory, const std::string& identity);
// Replaces the file as a whole; false where it cannot be written.
bool store_rates(const std::string& directory, const std::string& identity,
                 const MachineRates& rates);
// For people, in one line.
std::string describe(const MachineRates& rates);

}  // namespace tile
