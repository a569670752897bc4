// Tables that LLVM makes once in a process, when its code generation first looks something up in
// them, in variables local to functions.
#pragma once

namespace tile::cpu {

// Has LLVM make them, by generating code for a small function that is not run. An exception of
// operator new that passed through the making of one would leave the variable's guard taken: later
// compilations would wait for it for ever, or be told that it is being made. LLVM's target must be
// registered. False: this machine has no such target. About 4 ms.
bool make_llvm_tables();

}  // namespace tile::cpu
