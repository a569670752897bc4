// The constants of the cost model, measured on this machine.
#pragma once

#include "core/schedule/rates.h"

namespace tile::cpu {

// Takes less than 0.3 s. Rates are rounded to two digits, so that noise does not look like news.
MachineRates measure_rates(const Target& host);

}  // namespace tile::cpu
