// `tile tune`: races schedules of a program's kernels, alone or with other workers.
#pragma once

#include <string>

#include "runtime/cli/commands.h"

namespace tile::cli {

struct TuneArguments {
  double seconds = 0;        // 0: 10, or with a shared directory until all is done
  std::string share;         // the directory; empty: this process alone
  size_t candidates = 72;    // of each kernel, with a shared directory
  size_t confirmations = 2;  // hosts that decide each kernel, with a shared directory
  bool json = false;
};
int command_tune(const std::string& file, const Inputs& inputs, const TuneArguments& arguments,
                 const Options& options);

}  // namespace tile::cli
