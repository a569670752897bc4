#include "array.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ARGUMENTS 16

static array view(void* data, int rank, const int64_t* shape, int is_float) {
  array a;
  memset(&a, 0, sizeof a);
  a.data = data;
  a.rank = rank;
  a.is_float = is_float;
  for (int d = 0; d < rank; ++d) a.shape[d] = shape[d];
  return a;
}

array float_array(float* data, int rank, const int64_t* shape) {
  return view(data, rank, shape, 1);
}

array int_array(int32_t* data, int rank, const int64_t* shape) {
  return view(data, rank, shape, 0);
}

void* allocate(size_t count, size_t element_size) {
  void* memory = calloc(count, element_size);
  if (memory) return memory;
  fprintf(stderr, "digits: out of memory\n");
  exit(1);
}

void check(const char* what, tile_error* error) {
  if (!error) return;
  fprintf(stderr, "digits: %s: %s\n", what, tile_error_rendered(error));
  tile_error_free(error);
  exit(1);
}

tile_program* parse(tile_engine* engine, const char* name, const char* text) {
  tile_program* program = NULL;
  check("parse", tile_program_parse(engine, "tile", name, text, strlen(text), &program));
  return program;
}

static DLTensor tensor(array* a) {
  DLTensor t;
  memset(&t, 0, sizeof t);
  t.data = a->data;
  t.device.device_type = kDLCPU;
  t.ndim = a->rank;
  t.dtype.code = a->is_float ? kDLFloat : kDLInt;
  t.dtype.bits = 32;
  t.dtype.lanes = 1;
  t.shape = a->shape;
  return t;
}

void run(tile_program* program, array* inputs, array* outputs) {
  DLTensor given[MAX_ARGUMENTS], made[MAX_ARGUMENTS];
  const DLTensor* in[MAX_ARGUMENTS];
  DLTensor* out[MAX_ARGUMENTS];
  size_t input_count = tile_program_input_count(program);
  size_t output_count = tile_program_output_count(program);
  for (size_t i = 0; i < input_count; ++i) {
    given[i] = tensor(&inputs[i]);
    in[i] = &given[i];
  }
  for (size_t i = 0; i < output_count; ++i) {
    made[i] = tensor(&outputs[i]);
    out[i] = &made[i];
  }
  check("run", tile_program_run(program, in, input_count, out, output_count, NULL));
}
