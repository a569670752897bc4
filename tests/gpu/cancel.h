// Calls on a GPU that are cancelled, for `tile-gpu-check cancel`.
#pragma once

namespace tile::test {

// Cold compilations, races and loops of steps on the first GPU, cancelled after times of different
// lengths: how late each returns. Prints a JSON line for each kind of call. Exit status: 0 all
// right, 1 one of the three tries of a case in the middle was later than the interface promises, or
// ended otherwise, 77 no GPU.
int check_cancel();

}  // namespace tile::test
