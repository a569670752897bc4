// What is to happen when the process ends, while everything that it uses is still there.
#pragma once

namespace tile {

// Calls `run`, which may be called more than once, before the objects go that libraries make during
// compilations and destroy at the end of the process. The handlers of std::atexit() run in the
// order in which they were not registered, so that one of ours would come too late; the
// thread_local objects of the thread that ends the process go before all handlers: of the main
// thread, usually. Where it is another one, or the library was loaded by another one, the handler
// is all there is. The same function again does nothing. Up to 8 functions; std::bad_alloc beyond
// them.
void at_process_end(void (*run)());

}  // namespace tile
