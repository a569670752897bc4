/* A plain C program that uses an installed Tile JIT: compiles a matrix product, runs it, and reads
 * an error. */
#include <stdio.h>
#include <string.h>
#include <tile/tile.h>

static const char product[] =
    "function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }";

static DLTensor matrix(float* data, int64_t* shape) {
  DLTensor tensor;
  memset(&tensor, 0, sizeof tensor);
  tensor.data = data;
  tensor.device.device_type = kDLCPU;
  tensor.ndim = 2;
  tensor.dtype.code = kDLFloat;
  tensor.dtype.bits = 32;
  tensor.dtype.lanes = 1;
  tensor.shape = shape;
  return tensor;
}

static int report(const char* what, tile_error* error) {
  fprintf(stderr, "host: %s: %s\n", what, error ? tile_error_rendered(error) : "unexpected result");
  tile_error_free(error);
  return 1;
}

static int multiply(tile_engine* engine) {
  float a[6] = {1, 2, 3, 4, 5, 6};
  float b[6] = {7, 8, 9, 10, 11, 12};
  float c[4] = {0, 0, 0, 0};
  const float expected[4] = {58, 64, 139, 154};
  int64_t a_shape[2] = {2, 3};
  int64_t b_shape[2] = {3, 2};
  int64_t c_shape[2] = {2, 2};
  DLTensor A = matrix(a, a_shape);
  DLTensor B = matrix(b, b_shape);
  DLTensor C = matrix(c, c_shape);
  const DLTensor* inputs[2] = {&A, &B};
  DLTensor* outputs[1] = {&C};
  tile_program* program = NULL;
  tile_error* error =
      tile_program_parse(engine, "tile", "product.tile", product, strlen(product), &program);
  if (error) return report("parse", error);
  error = tile_program_run(program, inputs, 2, outputs, 1, NULL);
  tile_program_free(program);
  if (error) return report("run", error);
  if (memcmp(c, expected, sizeof c) != 0) return report("values", NULL);
  return 0;
}

static int refuse(tile_engine* engine) {
  static const char text[] = "function (A[M, N]) -> (C) { C[i: M] = +(D[i, k]); }";
  tile_program* program = NULL;
  tile_error* error =
      tile_program_parse(engine, "tile", "wrong.tile", text, strlen(text), &program);
  int right = error && !program && tile_error_stage(error) == TILE_STAGE_PARSE &&
              tile_error_line(error) == 1 && strstr(tile_error_message(error), "D");
  tile_program_free(program);
  if (!right) return report("a wrong program", error);
  tile_error_free(error);
  return 0;
}

int main(void) {
  tile_engine_options options;
  tile_engine* engine = NULL;
  tile_error* error;
  int status;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.cache_mode = "off";
  if (tile_version() != TILE_VERSION_MAJOR * 10000 + TILE_VERSION_MINOR * 100 + TILE_VERSION_PATCH)
    return report("version", NULL);
  error = tile_engine_create(&options, &engine);
  if (error) return report("engine", error);
  status = multiply(engine) || refuse(engine);
  if (!status) printf("host: %s\n", tile_engine_device(engine));
  tile_engine_free(engine);
  return status;
}
