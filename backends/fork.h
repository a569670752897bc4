// What is left of this library in a process that was forked.
//
// A child has the thread that forked and nothing of the others but the locks that they held. Where
// another thread was in a call that takes locks, the child's calls fail with an error in place of
// waiting for ever; otherwise they work, with parallel loops on one thread where the parent had
// used oneTBB, whose threads the child does not have.
#pragma once

namespace tile {

// A call that may take locks, while this lives. Throws Failure (run, "fork") in a child whose
// parent was in one on another thread.
class LockingCall {
 public:
  LockingCall();
  ~LockingCall();
  LockingCall(const LockingCall&) = delete;
  LockingCall& operator=(const LockingCall&) = delete;
};

// Whether such calls fail in this process: destructors, which cannot, leave what they own.
bool locks_are_lost();

// Called before oneTBB's threads are first asked for.
void note_helpers();
// Whether the process has none of the threads that its parent had.
bool helpers_are_lost();

}  // namespace tile
