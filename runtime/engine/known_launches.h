// Launches of one program's kernels that others are like: the layers of a network have the same
// kernels, which are given a schedule and lowered once.
#pragma once

#include <map>
#include <string>

#include "core/kernel/argument_layout.h"
#include "core/support/pass.h"
#include "runtime/engine/executable.h"

namespace tile {

// For one compilation, on one thread.
class KnownLaunches {
 public:
  // Nothing is remembered of short programs, of those of a class of sizes, and where somebody sees
  // what passes make of each kernel.
  KnownLaunches(const Executable& executable, const PassOptions& passes);

  // What the launches of equal kernels have in common, by name; empty: nothing is known of it.
  // `strides`: strides_of() the executable.
  std::string text_of(const Kernel& kernel, const Strides& strides) const;
  // Gives the launch, which has its kernel, the schedule and the nest of the one on record. Names
  // of tensors in the nest are the kernel's own.
  bool take(const std::string& text, Launch& launch) const;
  // Puts a launch on record that has its schedule and its nest. It is given the key of its code.
  void keep(const std::string& text, const Executable& executable, Launch& launch);

 private:
  struct Known {
    Schedule schedule;
    std::shared_ptr<const RankedSchedule> record;
    std::string own_code_because, key;
    CopyOnWrite<nest::Nest> nest;
  };

  bool remembers_;
  std::map<std::string, Known> known_;
};

}  // namespace tile
