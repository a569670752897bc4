// Measured rates of this machine, kept as JSON beside the disk cache: machine-HASH.json, one for
// each CPU and build. A file that cannot be read is none, nor is one of rates that no machine has.
#pragma once

#include <optional>
#include <string>

#include "core/target/rates.h"
#include "runtime/engine/cache/private_directory.h"

namespace tile {

// Whether all was measured and may be so: a vector multiply-add a nanosecond, wider vectors and
// nearer memory not slower, threads together not much slower than each alone. What is not was
// measured on a machine busy with other work.
bool plausible(const MachineRates& rates);
// The same with what is too low raised to the least that is plausible: other work makes rates low,
// never high. What was not measured stays so.
MachineRates raised(MachineRates rates);
// `directory` may be null; `why`: what is wrong with a file that is there.
std::optional<MachineRates> load_rates(const PrivateDirectory* directory,
                                       const std::string& identity, std::string& why);
// Replaces the file as a whole; false where it cannot be written.
bool store_rates(const PrivateDirectory* directory, const std::string& identity,
                 const MachineRates& rates);
// For people, in one line.
std::string describe(const MachineRates& rates);

}  // namespace tile
