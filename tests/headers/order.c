/* A host that has DLPack's header too (see CMakeLists.txt). */
#ifdef TILE_FIRST
#include "tile/tile.h"
/* The order is what is tested. */
#include <dlpack/dlpack.h>
#else
#include <dlpack/dlpack.h>
/* The order is what is tested. */
#include "tile/tile.h"
#endif

extern tile_error* run_on_one(tile_program* program, DLTensor* x);
tile_error* run_on_one(tile_program* program, DLTensor* x) {
  const DLTensor* inputs[1];
  inputs[0] = x;
  x->device.device_type = kDLCPU;
  x->dtype.code = (uint8_t)kDLFloat;
  return tile_program_run(program, inputs, 1, &x, 1, NULL);
}
