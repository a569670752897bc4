/* A matrix product and its gradient from C: text in, numbers out. */
#include <stdio.h>
#include <string.h>
#include <tile/tile.h>

static const char text[] =
    "function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }";

/* A dense matrix of floats in the host's memory. */
static DLTensor matrix(float* data, int64_t shape[2]) {
  DLTensor tensor = {0};
  tensor.data = data;
  tensor.device.device_type = kDLCPU;
  tensor.ndim = 2;
  tensor.dtype.code = kDLFloat;
  tensor.dtype.bits = 32;
  tensor.dtype.lanes = 1;
  tensor.shape = shape;
  return tensor;
}

static void print_matrix(const char* name, const float* x, const int64_t shape[2]) {
  int64_t i, j;
  printf("%s =", name);
  for (i = 0; i < shape[0]; ++i) {
    printf("%s", i == 0 ? " [" : "; ");
    for (j = 0; j < shape[1]; ++j) printf("%s%g", j == 0 ? "" : " ", x[i * shape[1] + j]);
  }
  printf("]\n");
}

static tile_error* multiply(tile_engine* engine) {
  float a[] = {1, 2, 3, 4, 5, 6}, b[] = {7, 8, 9, 10, 11, 12}, seed[] = {1, 0, 0, 1};
  float c[4], da[6];
  int64_t shape_a[] = {2, 3}, shape_b[] = {3, 2}, shape_c[] = {2, 2};
  DLTensor A = matrix(a, shape_a), B = matrix(b, shape_b), S = matrix(seed, shape_c);
  DLTensor C = matrix(c, shape_c), DA = matrix(da, shape_a);
  const DLTensor* inputs[] = {&A, &B, &S};
  DLTensor* outputs[] = {&C, &DA};
  const char* wrt[] = {"A"};
  tile_program *program = NULL, *gradient = NULL;
  tile_error* error =
      tile_program_parse(engine, "tile", "matmul.tile", text, strlen(text), &program);
  if (!error) error = tile_program_run(program, inputs, 2, outputs, 1, NULL);
  if (!error) print_matrix("C", c, shape_c);
  if (!error) error = tile_program_differentiate(program, "C", wrt, 1, &gradient);
  if (!error) error = tile_program_run(gradient, inputs, 3, outputs, 2, NULL);
  if (!error) print_matrix("DA", da, shape_a);
  tile_program_free(gradient);
  tile_program_free(program);
  return error;
}

int main(void) {
  tile_engine* engine = NULL;
  tile_error* error = tile_engine_create(NULL, &engine);
  int status;
  if (!error) error = multiply(engine);
  if (error) fputs(tile_error_rendered(error), stderr);
  status = error != NULL;
  tile_error_free(error);
  tile_engine_free(engine);
  return status;
}
