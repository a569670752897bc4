/* A small program of a user: one matrix product through libtile, from the start of its process. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tile/tile.h"

static const char* const kProduct =
    "function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }";

/* Prints the error and gives it back; 0: there is none. */
static int failed(tile_error* error) {
  if (error == NULL) return 0;
  fputs(tile_error_rendered(error), stderr);
  tile_error_free(error);
  return 1;
}

static DLTensor square(float* data, int64_t* shape) {
  DLTensor t;
  memset(&t, 0, sizeof t);
  t.data = data;
  t.device.device_type = kDLCPU;
  t.ndim = 2;
  t.dtype.code = kDLFloat;
  t.dtype.bits = 32;
  t.dtype.lanes = 1;
  t.shape = shape;
  return t;
}

/* The product of two n x n matrices of ones; 0 where every element is n. */
static int multiply(tile_program* program, int64_t n) {
  size_t count = (size_t)(n * n);
  float* data = malloc(3 * count * sizeof *data);
  if (data == NULL) return 1;
  for (size_t i = 0; i < 2 * count; ++i) data[i] = 1;
  int64_t shape[2] = {n, n};
  DLTensor a = square(data, shape), b = square(data + count, shape),
           c = square(data + 2 * count, shape);
  const DLTensor* inputs[2] = {&a, &b};
  DLTensor* outputs[1] = {&c};
  int wrong = failed(tile_program_run(program, inputs, 2, outputs, 1, NULL));
  for (size_t i = 0; i < count && !wrong; ++i) wrong = data[2 * count + i] != (float)n;
  free(data);
  return wrong;
}

int main(int count, char** arguments) {
  int64_t n = count > 1 ? atoll(arguments[1]) : 64;
  tile_engine_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.backend = "cpu";
  tile_engine* engine = NULL;
  tile_program* program = NULL;
  int wrong = n < 1 || failed(tile_engine_create(&options, &engine)) ||
              failed(tile_program_parse(engine, "tile", "product.tile", kProduct, strlen(kProduct),
                                        &program)) ||
              multiply(program, n);
  tile_program_free(program);
  tile_engine_free(engine);
  return wrong;
}
