// Tuning by many processes that share a directory: each candidate of each kernel is timed once,
// whoever does it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/engine/cache/private_directory.h"
#include "runtime/engine/executable.h"

namespace tile {

struct FleetProgress {
  std::string kernel;  // what is worked on; empty: others work, this one waits
  size_t timed = 0;    // candidates of this program's kernels, by all workers
  size_t total = 0;
  double best_ns = 0;  // of the kernel's; 0: none yet
};

struct FleetOptions {
  double seconds = 0;        // then it stops, and can be resumed; 0: no limit
  size_t candidates = 72;    // of each kernel
  size_t confirmations = 2;  // hosts that race a kernel's best in turns at last
  std::function<void(const FleetProgress&)> progress;  // may be empty
};

struct FleetReport {
  size_t timed = 0;       // candidates, by this worker
  size_t decided = 0;     // kernels whose best this worker raced in turns
  bool complete = false;  // every kernel of the program is decided
};

// Workers agree on nothing but the directory (a private one, of one user, on a file system where
// making a file is exclusive: any local one, NFS from version 3). For each kernel it holds
//   KERNEL.plan            the candidates, by whoever came first
//   KERNEL-0.done …        parts of them that are timed (see WorkShare)
//   KERNEL-final-HOST.done that a host has raced the best of all of them in turns
// and for each worker its times, WORKER.times, and records, WORKER.jsonl, a line each. A worker
// that is killed loses the candidate that it was timing; another one goes on behind it. Workers of
// one machine compile at the same time, and time in turns. What is decided is then on record for
// every worker that waits for it. Gives the executable compiled with that. Throws Failure, as
// tuned() does.
std::shared_ptr<const Executable> tuned_together(
    const Executable& executable, const std::shared_ptr<const PrivateDirectory>& directory,
    const FleetOptions& options, FleetReport& report);

}  // namespace tile
