// The constants of the cost model, measured on this machine.
#pragma once

#include <functional>

#include "core/target/rates.h"

namespace tile::cpu {

// Takes less than 0.3 s on a machine that is free. Rates are rounded to two digits, so that noise
// does not look like news; 0 where other work disturbed every trial.
MachineRates measure_rates(const Target& host);

// Nanoseconds that only go forward: of the day, and of the calling thread's work.
struct ProbeClocks {
  std::function<double()> wall, processor;
};
// The least nanoseconds of a call, among several during which the thread was not put aside for
// others'; infinity: it always was.
double undisturbed_ns(const std::function<void()>& call, const ProbeClocks& clocks);

}  // namespace tile::cpu
