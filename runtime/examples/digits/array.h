/* Dense tensors in host memory, and calls of programs on them. */
#ifndef DIGITS_ARRAY_H
#define DIGITS_ARRAY_H

#include <stdint.h>
#include <tile/tile.h>

#define MAX_RANK 4

typedef struct {
  void* data;
  int rank;
  int64_t shape[MAX_RANK];
  int is_float; /* f32; else i32 */
} array;

/* A view of `data`, which stays the caller's. */
array float_array(float* data, int rank, const int64_t* shape);
array int_array(int32_t* data, int rank, const int64_t* shape);

/* Zeros that the program keeps until it ends; ends it when memory is short. */
void* allocate(size_t count, size_t element_size);

/* Ends the program with the rendered text of an error. */
void check(const char* what, tile_error* error);

tile_program* parse(tile_engine* engine, const char* name, const char* text);

/* Runs `program` on as many arrays as it has inputs and outputs. */
void run(tile_program* program, array* inputs, array* outputs);

#endif
