// Several GPUs in one process, for `tile-gpu-check several`.
#pragma once

namespace tile::test {

// Two engines on two GPUs at the same time, and tensors of one given to the other's engine. Prints
// a JSON line for each part. Exit status: 0 all right, 1 something is wrong, 77 fewer than two
// GPUs.
int check_several();

}  // namespace tile::test
