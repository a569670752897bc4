// Whether the process gets the threads that oneTBB will ask for.
#pragma once

namespace tile::cpu {

// Limits oneTBB, for good, to as many threads as the process can have at the time of the first
// call; later calls do nothing. oneTBB starts most of its threads from its threads, where a failure
// ends the process; what it starts from the caller's is an exception there. Takes some 20 us for
// each processor, once, and nothing where the caller's thread starts all. From any thread.
void limit_threads_to_supply() noexcept;

}  // namespace tile::cpu
