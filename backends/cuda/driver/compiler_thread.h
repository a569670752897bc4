// Work of a compiler's library, which cannot be interrupted at once, on a thread of its own:
// whoever is cancelled meanwhile leaves it behind.
#pragma once

#include <atomic>
#include <functional>

#include "core/support/control.h"

namespace tile::cuda {

using CompilerWork = std::function<void(const std::atomic<bool>& unwanted)>;

// Calls `work` on a new thread (here, where there is none to be had) and returns when it is done;
// throws what it throws. Its processor time counts as the caller's. Where `control` ends the call,
// throws its reason within a few milliseconds: `unwanted` is then set, and the work goes on until
// it looks there, so that everything it uses must be its own. The process waits at its end for what
// is left behind.
void run_on_compiler_thread(Control& control, CompilerWork work);

}  // namespace tile::cuda
